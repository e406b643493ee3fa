//! `lease slots`: what became of the instants of schedules.

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
        let head = ["NAME", "STATE", "LAST", "UNFINISHED", "RERUN"];
        answer(&table::render(head, seen.lines.iter().map(Line::cells), table::terminal_width()))?;
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

impl Line {
    fn cells(&self) -> [String; 5] {
        let text = |slot: fn(&LeaseRow) -> Option<Slot>| {
            self.row.as_ref().and_then(|(row, _)| slot(row)).map(instant::text).unwrap_or_default()
        };
        let state = match &self.row {
            None => "never claimed",
            Some((row, now)) => RoundState::of(row, *now).map_or("no slot yet", RoundState::words),
        };
        [
            self.name.to_string(),
            state.to_owned(),
            text(|row| row.slot),
            text(|row| row.unfinished_slot),
            text(|row| row.rerun_slot),
        ]
    }
}

/// Every name that ever had a slot.
async fn all(store: &Store) -> Result<Seen, Failure> {
    let pages = list::pages(store).await?;
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
