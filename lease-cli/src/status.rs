//! `lease status`: one lease; and the words about a holder that a refusal uses too.

use std::fmt::Write;

use lease_core::store::{DbTime, Inspection, LeaseRow};
use lease_core::{LeaseName, Sighting, Slot, Standing};

use crate::args::StatusArguments;
use crate::database::{Database, Store};
use crate::exit::{Failure, answer};
use crate::json;
use crate::round_state::RoundState;
use crate::text::{password, second, span, visible};
use crate::{ATTEMPT, exit, instant};

pub(crate) async fn status(arguments: &StatusArguments) -> Result<u8, Failure> {
    let name = lease_name(&arguments.name)?;
    let database = Database::named(&arguments.database)?;
    let seen = match database.existing().await? {
        None => None,
        Some(store) => Some(inspect(&store, &name).await?),
    };
    if arguments.json {
        answer(&json::to_text(&json::Status::new(database.describe(), seen.as_ref())))?;
    } else {
        answer(&for_people(&name, &database.describe(), seen.as_ref()))?;
    }
    Ok(exit::SUCCESS)
}

/// Reads one row and the database's clock.
pub(crate) async fn inspect(store: &Store, name: &LeaseName) -> Result<Inspection, Failure> {
    let seen = store.0.inspect(name, ATTEMPT).await;
    seen.map_err(|error| store.failure(&format!("read lease {name:?} in"), error))
}

/// The name that was given. A URL with a password is taken for a slip: a name is shown to everybody.
pub(crate) fn lease_name(text: &str) -> Result<LeaseName, Failure> {
    if text.contains("//") && password(text).is_some() {
        return Err(Failure::usage("the name of the lease is a URL with a password; give that to --db"));
    }
    LeaseName::new(text).map_err(Failure::usage)
}

fn for_people(name: &LeaseName, database: &str, seen: Option<&Inspection>) -> String {
    let mut lines = vec![("name", name.to_string())];
    match seen.and_then(|seen| Some((seen.row.as_ref()?, seen.now))) {
        None => lines.push(("state", word(Standing::Never).to_owned())),
        Some((row, now)) => {
            lines.push(("state", word(row.standing(now)).to_owned()));
            lines.push(("instance", row.instance.clone()));
            lines.push(("address", row.address.clone()));
            lines.push(("version", row.version.clone()));
            lines.push(("term", row.term.to_string()));
            lines.push(("claimed", ago(row.claimed_at, now)));
            lines.push(("renewed", ago(row.renewed_at, now)));
            lines.push(("expires", expiry(row, now)));
            lines.push(("ttl", span(row.ttl)));
            if row.resign_term == row.term.get() {
                lines.push(("step-down", "asked".to_owned()));
            }
            lines.push(("holder", row.holder.to_string()));
            let slot = |slot: Option<Slot>| slot.map(instant::text).unwrap_or_default();
            if let Some(state) = RoundState::of(row, now) {
                lines.push(("slot", format!("{} ({})", slot(row.slot), state.words())));
            }
            lines.push(("unfinished slot", slot(row.unfinished_slot)));
            lines.push(("rerun slot", slot(row.rerun_slot)));
        }
    }
    lines.push(("database", database.to_owned()));
    let mut out = String::new();
    for (key, value) in lines.into_iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(out, "{key}: {}", visible(&value));
    }
    out
}

fn ago(time: DbTime, now: DbTime) -> String {
    format!("{} ({} ago)", second(time), span(now.since(time)))
}

/// Empty when the lease was released.
fn expiry(row: &LeaseRow, now: DbTime) -> String {
    match row.standing(now) {
        Standing::Held => format!("{} (in {})", second(row.expires_at), span(row.expires_at.since(now))),
        Standing::Expired => ago(row.expires_at, now),
        Standing::Released | Standing::Never => String::new(),
    }
}

/// Whether a name is held, else why not, in a word or two.
pub(crate) fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Never => "never claimed",
        Standing::Held => "held",
        Standing::Expired => "expired",
        Standing::Released => "released",
    }
}

/// Who holds a name and until when, for somebody who was refused it; `again` is what to do if nobody does.
pub(crate) fn refusal(seen: &Sighting, again: &str) -> String {
    match seen.row().filter(|_| seen.standing() == Standing::Held) {
        Some(row) => {
            let raced = if seen.raced() { "; it took the name while this claim was under way" } else { "" };
            format!("{}{raced}", held(seen, row))
        }
        None => format!(
            "{:?} is free now, but was held a moment ago, or is being claimed by somebody else; {again} ({})",
            seen.name(),
            seen.database(),
        ),
    }
}

/// Who holds a name, since when and until when.
pub(crate) fn held(seen: &Sighting, row: &LeaseRow) -> String {
    let now = seen.inspection().now;
    format!(
        "{:?} is held by {} since {}, last renewed {} ago, expires in {} ({}, term {})",
        seen.name(),
        holder(row),
        second(row.claimed_at),
        span(now.since(row.renewed_at)),
        span(row.expires_at.since(now)),
        seen.database(),
        row.term,
    )
}

/// The identity of a holder.
pub(crate) fn holder(row: &LeaseRow) -> String {
    let LeaseRow { instance, address, version, .. } = row;
    let mut holder = if instance.is_empty() { "an unnamed holder".to_owned() } else { instance.clone() };
    if !address.is_empty() {
        let _ = write!(holder, " at {address}");
    }
    if !version.is_empty() {
        let _ = write!(holder, " (version {version})");
    }
    holder
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use lease_core::{Holder, Term};

    use super::*;

    /// A lease claimed at 2026-01-01, renewed 12.6 s later.
    pub(crate) fn row(name: &str) -> LeaseRow {
        let claimed_at = 1_767_225_600_000;
        LeaseRow {
            name: LeaseName::new(name).unwrap(),
            holder: Holder::from_bytes([7; 16]),
            instance: "host:123".to_owned(),
            process: String::new(),
            address: String::new(),
            version: String::new(),
            term: Term::new(4).unwrap(),
            claimed_at: DbTime::from_millis(claimed_at),
            renewed_at: DbTime::from_millis(claimed_at + 12_600),
            expires_at: DbTime::from_millis(claimed_at + 27_600),
            ttl: Duration::from_secs(15),
            resign_term: 0,
            slot: None,
            unfinished_slot: None,
            rerun_slot: None,
        }
    }

    /// 1.2 s after the renewal of [`row`].
    pub(crate) const NOW: DbTime = DbTime::from_millis(1_767_225_613_800);

    /// What is seen at [`NOW`].
    pub(crate) fn sighting(row: Option<LeaseRow>) -> Sighting {
        let name = LeaseName::new("nightly").unwrap();
        Sighting::new(name, "SQLite file /x".to_owned(), Inspection { now: NOW, row })
    }

    fn refused(row: Option<LeaseRow>) -> String {
        refusal(&sighting(row), "wait")
    }

    #[test]
    fn a_refusal_says_who_holds_the_name_and_until_when() {
        assert_eq!(
            refused(Some(row("nightly"))),
            "\"nightly\" is held by host:123 since 2026-01-01T00:00:00Z, last renewed 1.2 s ago, expires in 13.8 s (SQLite file /x, term 4)"
        );
        let known = LeaseRow { address: "10.0.0.7:80".into(), version: "1.4".into(), ..row("nightly") };
        assert!(refused(Some(known)).contains("host:123 at 10.0.0.7:80 (version 1.4) since"));
    }

    #[test]
    fn a_name_given_back_meanwhile_is_not_said_to_be_held() {
        assert!(refused(None).contains("\"nightly\" is free now, but"));
        let released = LeaseRow { expires_at: DbTime::RELEASED, ..row("nightly") };
        assert!(refused(Some(released)).contains("; wait (SQLite file /x)"));
    }

    #[test]
    fn a_status_is_lines_of_key_and_value_without_control_characters() {
        let hostile = LeaseRow { instance: "a\u{1b}[2J\nb".into(), ..row("nightly") };
        let seen = Inspection { now: NOW, row: Some(hostile) };
        let text = for_people(&LeaseName::new("nightly").unwrap(), "SQLite file /x", Some(&seen));
        assert_eq!(
            text,
            "name: nightly\nstate: held\ninstance: a\\u{1b}[2J\\nb\nterm: 4\nclaimed: 2026-01-01T00:00:00Z (13.8 s ago)\nrenewed: 2026-01-01T00:00:12Z (1.2 s ago)\nexpires: 2026-01-01T00:00:27Z (in 13.8 s)\nttl: 15.0 s\nholder: 07070707070707070707070707070707\ndatabase: SQLite file /x\n"
        );
    }

    #[test]
    fn a_row_of_absurd_numbers_is_shown() {
        for ms in [i64::MIN, -1, 0, i64::MAX] {
            let time = DbTime::from_millis(ms);
            let row = LeaseRow {
                claimed_at: time,
                renewed_at: time,
                expires_at: time,
                ttl: Duration::MAX,
                ..row("nightly")
            };
            let seen = Inspection { now: NOW, row: Some(row.clone()) };
            assert!(!for_people(&row.name, "", Some(&seen)).is_empty());
            assert!(!refusal(&sighting(Some(row)), "").is_empty());
            assert!(!json::to_text(&json::Status::new(String::new(), Some(&seen))).is_empty());
        }
    }
}
