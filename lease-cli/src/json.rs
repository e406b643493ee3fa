//! The shape of `--json`, documented in the README. Fields are added, never renamed or removed.

use std::fmt::Write;
use std::time::Duration;

use lease_core::store::{DbTime, Inspection, LeaseRow};
use lease_core::{LeaseName, Sighting, Slot, Standing};
use serde::Serialize;

use crate::round_state::RoundState;
use crate::status::word;
use crate::text::rfc3339;

/// The answer of `lease status --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) database: String,
    pub(crate) now: Option<String>,
    pub(crate) now_ms: Option<i64>,
    pub(crate) lease: Option<Lease>,
}

/// The answer of `lease clear --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Cleared {
    pub(crate) cleared: bool,
    #[serde(flatten)]
    pub(crate) status: Status,
}

/// A line of `lease watch --json`.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Watched {
    /// A name as it is now.
    Now {
        name: String,
        #[serde(flatten)]
        status: Box<Status>,
    },
    /// The database cannot be read.
    Away { database: String, error: String },
}

/// The answer of `lease list --json`.
#[derive(Debug, Serialize)]
pub(crate) struct List {
    pub(crate) database: String,
    pub(crate) now: Option<String>,
    pub(crate) now_ms: Option<i64>,
    pub(crate) leases: Vec<Lease>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Lease {
    name: String,
    state: &'static str,
    holder: String,
    instance: String,
    process: String,
    address: String,
    version: String,
    term: i64,
    claimed_at: Option<String>,
    claimed_at_ms: i64,
    renewed_at: Option<String>,
    renewed_at_ms: i64,
    expires_at: Option<String>,
    expires_at_ms: i64,
    expires_in_ms: Option<u64>,
    ttl_ms: u64,
    resign_asked: bool,
    #[serde(flatten)]
    rounds: Rounds,
}

/// The answer of `lease slots --json`.
#[derive(Debug, Serialize)]
pub(crate) struct SlotList {
    database: String,
    now: Option<String>,
    now_ms: Option<i64>,
    slots: Vec<NameSlots>,
}

#[derive(Debug, Serialize)]
pub(crate) struct NameSlots {
    name: String,
    #[serde(flatten)]
    rounds: Rounds,
}

/// The instants of one name.
#[derive(Debug, Default, Serialize)]
struct Rounds {
    slot_state: Option<RoundState>,
    slot: Option<String>,
    slot_ms: Option<i64>,
    unfinished_slot: Option<String>,
    unfinished_slot_ms: Option<i64>,
    rerun_slot: Option<String>,
    rerun_slot_ms: Option<i64>,
}

impl Status {
    /// The answer for a name; `None` when there is no database yet.
    pub(crate) fn new(database: String, seen: Option<&Inspection>) -> Self {
        let now = seen.map(|seen| seen.now);
        Self {
            database,
            now: now.and_then(|now| rfc3339(now.as_millis())),
            now_ms: now.map(DbTime::as_millis),
            lease: seen.and_then(|seen| seen.row.as_ref().map(|row| Lease::new(row, seen.now))),
        }
    }
}

impl From<&Sighting> for Status {
    fn from(seen: &Sighting) -> Self {
        Self::new(seen.database().to_owned(), Some(seen.inspection()))
    }
}

impl Lease {
    pub(crate) fn new(row: &LeaseRow, now: DbTime) -> Self {
        let time = |time: DbTime| rfc3339(time.as_millis());
        let standing = row.standing(now);
        Self {
            name: row.name.to_string(),
            state: word(standing),
            holder: row.holder.to_string(),
            instance: row.instance.clone(),
            process: row.process.clone(),
            address: row.address.clone(),
            version: row.version.clone(),
            term: row.term.get(),
            claimed_at: time(row.claimed_at),
            claimed_at_ms: row.claimed_at.as_millis(),
            renewed_at: time(row.renewed_at),
            renewed_at_ms: row.renewed_at.as_millis(),
            expires_at: (standing != Standing::Released).then(|| time(row.expires_at)).flatten(),
            expires_at_ms: row.expires_at.as_millis(),
            expires_in_ms: (standing == Standing::Held).then(|| whole_ms(row.expires_at.since(now))),
            ttl_ms: whole_ms(row.ttl),
            resign_asked: row.resign_term == row.term.get(),
            rounds: Rounds::new(row, now),
        }
    }
}

impl SlotList {
    /// `now` is `None` when there is no database yet.
    pub(crate) fn new(database: String, now: Option<DbTime>, slots: Vec<NameSlots>) -> Self {
        let now_ms = now.map(DbTime::as_millis);
        Self { database, now: now_ms.and_then(rfc3339), now_ms, slots }
    }
}

impl NameSlots {
    /// The slots of a name; without a row it was never claimed.
    pub(crate) fn new(name: &LeaseName, row: Option<&(LeaseRow, DbTime)>) -> Self {
        let rounds = row.map(|(row, now)| Rounds::new(row, *now)).unwrap_or_default();
        Self { name: name.to_string(), rounds }
    }
}

impl Rounds {
    fn new(row: &LeaseRow, now: DbTime) -> Self {
        let ms = |slot: Option<Slot>| slot.map(Slot::as_millis);
        let text = |slot: Option<Slot>| ms(slot).and_then(rfc3339);
        Self {
            slot_state: RoundState::of(row, now),
            slot: text(row.slot),
            slot_ms: ms(row.slot),
            unfinished_slot: text(row.unfinished_slot),
            unfinished_slot_ms: ms(row.unfinished_slot),
            rerun_slot: text(row.rerun_slot),
            rerun_slot_ms: ms(row.rerun_slot),
        }
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The value as indented JSON with a line break at the end.
pub(crate) fn to_text(value: &impl Serialize) -> String {
    for_terminals(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// The value as JSON in one line, with the line break.
pub(crate) fn to_line(value: &impl Serialize) -> String {
    for_terminals(&serde_json::to_string(value).unwrap_or_default())
}

fn for_terminals(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 1);
    for character in json.chars() {
        // JSON lets these stand as they are, and a terminal may obey them.
        if matches!(character, '\u{7f}'..='\u{9f}') {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::tests::{NOW, row};

    #[test]
    fn the_readme_shows_the_shape_as_it_is() {
        let readme = include_str!("../README.md");
        let shown = readme.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
        let holder = "85e8156d6d5e8192b88a147de052f404".parse().unwrap();
        let seen = Inspection { now: NOW, row: Some(LeaseRow { holder, ..row("nightly") }) };
        let status = Status::new("SQLite file /var/lib/leases.db".to_owned(), Some(&seen));
        assert_eq!(to_text(&status), shown);
    }

    #[test]
    fn json_holds_no_character_that_a_terminal_obeys() {
        let hostile = "\u{1b}[2J\u{7f}\u{9b}2J";
        let text = to_text(&Status { database: hostile.to_owned(), ..Status::new(String::new(), None) });
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["database"], hostile);
    }
}
