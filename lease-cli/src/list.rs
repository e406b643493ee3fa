//! `lease list`: every lease there is.

use lease_core::store::{DbTime, LeaseRow, Listing, Page};

use crate::args::ListArguments;
use crate::database::{Database, Store};
use crate::exit::{Failure, SUCCESS, answer};
use crate::json::{self, State};
use crate::text::{rfc3339, second, span};
use crate::{ATTEMPT, table};

/// Rows read with one statement.
const PAGE: u32 = 1_000;

pub(crate) async fn list(arguments: &ListArguments) -> Result<u8, Failure> {
    let database = Database::named(&arguments.database)?;
    let pages = match database.existing().await? {
        None => Vec::new(),
        Some(store) => pages(&store).await?,
    };
    let rows = || pages.iter().flat_map(|page| page.rows.iter().map(|row| (row, page.now)));
    if arguments.json {
        let now_ms = pages.last().map(|page| page.now.as_millis());
        let leases = rows().map(|(row, now)| json::Lease::new(row, now)).collect();
        let now = now_ms.and_then(rfc3339);
        answer(&json::to_text(&json::List { database: database.describe(), now, now_ms, leases }))?;
    } else if rows().next().is_none() {
        answer(&format!("no lease has been taken yet in {}\n", database.describe()))?;
    } else {
        let lines = rows().map(|(row, now)| line(row, now));
        answer(&table::render(
            ["NAME", "STATE", "INSTANCE", "TERM", "SINCE", "EXPIRES"],
            lines,
            table::terminal_width(),
            &[],
        ))?;
    }
    Ok(SUCCESS)
}

pub(crate) async fn pages(store: &Store) -> Result<Vec<Listing>, Failure> {
    let mut pages = Vec::new();
    let mut page = Page { limit: PAGE, ..Page::default() };
    loop {
        let listing = store.0.list(&page, ATTEMPT).await;
        let listing = listing.map_err(|error| store.failure("list the leases in", &error))?;
        page.after = listing.rows.last().map(|row| row.name.clone());
        let is_last = listing.rows.len() < PAGE as usize;
        pages.push(listing);
        if is_last {
            return Ok(pages);
        }
    }
}

fn line(row: &LeaseRow, now: DbTime) -> [String; 6] {
    let state = State::of(row, now);
    let expires = match state {
        State::Held => format!("in {}", span(row.expires_at.since(now))),
        State::Expired => format!("{} ago", span(now.since(row.expires_at))),
        State::Released => String::new(),
    };
    [
        row.name.to_string(),
        state.word().to_owned(),
        row.instance.clone(),
        row.term.to_string(),
        second(row.claimed_at),
        expires,
    ]
}
