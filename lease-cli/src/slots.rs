//! `lease slots`: what became of the instants of schedules.

use std::io;

use lease_core::store::{DbTime, Inspection, LeaseRow};
use lease_core::{LeaseName, Slot};

use crate::args::SlotsArguments;
use crate::database::{Database, Store};
use crate::exit::{Failure, SUCCESS, answer};
use crate::round_state::RoundState;
use crate::status::lease_name;
use crate::{instant, json, list, status, table};

pub(crate) async fn slots(arguments: &SlotsArguments) -> Result<u8, Failure> {
    let names = arguments.names.iter().map(|name| lease_name(name)).collect::<Result<Vec<_>, _>>()?;
    let database = Database::named(&arguments.database)?;
    let seen = match database.existing().await? {
        None => Seen { now: None, lines: names.into_iter().map(|name| Line { name, row: None }).collect() },
        Some(store) if names.is_empty() => all(&store).await?,
        Some(store) => these(&store, names).await?,
    };
    if arguments.json {
        let lines = seen.lines.iter().map(|line| json::NameSlots::new(&line.name, line.row.as_ref()));
        let slots = json::SlotList::new(database.describe(), seen.now, lines.collect());
        answer(&json::to_text(&slots))?;
    } else if seen.lines.is_empty() {
        answer(&format!("no slot has been claimed yet in {}\n", database.describe()))?;
    } else {
        answer(&for_people(&seen.lines, table::terminal_width(io::stdout())))?;
    }
    Ok(SUCCESS)
}

struct Seen {
    /// The database's clock; `None` when there is no database yet.
    now: Option<DbTime>,
    lines: Vec<Line>,
}

struct Line {
    name: LeaseName,
    /// With the clock when it was read; `None` when the name was never claimed.
    row: Option<(LeaseRow, DbTime)>,
}

fn for_people(lines: &[Line], width: Option<u16>) -> String {
    let head = ["NAME", "STATE", "LAST", "RERUN"];
    table::fitting(head, lines.iter().map(Line::cells), width, &[2, 3])
}

impl Line {
    fn cells(&self) -> [String; 4] {
        let text = |slot: fn(&LeaseRow) -> Option<Slot>| {
            self.row.as_ref().and_then(|(row, _)| slot(row)).map(instant::text).unwrap_or_default()
        };
        let state = match &self.row {
            None => "never claimed",
            Some((row, now)) => RoundState::of(row, *now).map_or("no slot yet", RoundState::words),
        };
        [self.name.to_string(), state.to_owned(), text(|row| row.slot), text(|row| row.rerun_slot)]
    }
}

/// Every name that ever had a slot.
async fn all(store: &Store) -> Result<Seen, Failure> {
    let pages = list::pages(store, "").await?;
    let now = pages.last().map(|page| page.now);
    let rows = pages.into_iter().flat_map(|page| page.rows.into_iter().map(move |row| (row, page.now)));
    let rows = rows.filter(|(row, _)| row.slot.is_some());
    Ok(Seen { now, lines: rows.map(|row| Line { name: row.0.name.clone(), row: Some(row) }).collect() })
}

/// The names that were given, in their order.
async fn these(store: &Store, names: Vec<LeaseName>) -> Result<Seen, Failure> {
    let mut seen = Seen { now: None, lines: Vec::new() };
    for name in names {
        let Inspection { now, row } = status::inspect(store, &name).await?;
        seen.now = Some(now);
        seen.lines.push(Line { name, row: row.map(|row| (row, now)) });
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::tests::{NOW, row};

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide_and_no_instant_broken() {
        let [last, before] = [1_767_225_600_250, 1_767_225_599_125].map(Slot::from_millis);
        let line = |name: &str, rerun_slot| {
            let row = LeaseRow { slot: last, unfinished_slot: last, rerun_slot, ..row(name) };
            let row = LeaseRow { expires_at: DbTime::RELEASED, ..row };
            Line { name: row.name.clone(), row: Some((row, NOW)) }
        };
        let lines = [line("a-name-of-25-characters-xx", last), line("nightly", before)];
        for width in [40, 60, 74, 75, 80, 120] {
            let text = for_people(&lines, Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width.into()), "{width}:\n{text}");
            assert_eq!(text.matches("2026-01-01T00:00:00.250Z").count(), 3, "{width}:\n{text}");
            assert_eq!(text.matches("2025-12-31T23:59:59.125Z").count(), 1, "{width}:\n{text}");
        }
        let narrow = for_people(&[line("nightly", last), line("x", None)], Some(40));
        assert_eq!(
            narrow,
            "name: nightly\nstate: cut short, rerun used\nlast: 2026-01-01T00:00:00.250Z\nrerun: 2026-01-01T00:00:00.250Z\n\nname: x\nstate: cut short\nlast: 2026-01-01T00:00:00.250Z\n"
        );
    }
}
