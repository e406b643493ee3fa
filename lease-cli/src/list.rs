//! `lease list`: every lease there is.

use std::io;

use lease_core::Standing;
use lease_core::store::{DbTime, LeaseRow, Listing, Page};

use crate::args::ListArguments;
use crate::database::{Database, Store};
use crate::exit::{Failure, SUCCESS, answer};
use crate::json;
use crate::status::word;
use crate::text::{rfc3339, second, span};
use crate::{ATTEMPT, table};

/// Rows read with one statement.
const PAGE: u32 = 1_000;

pub(crate) async fn list(arguments: &ListArguments) -> Result<u8, Failure> {
    let database = Database::named(&arguments.database)?;
    let pages = match database.existing().await? {
        None => Vec::new(),
        Some(store) => pages(&store, &arguments.prefix).await?,
    };
    let is_asked_for = |standing: Standing| match (arguments.live, arguments.expired) {
        (true, _) => standing == Standing::Held,
        (_, true) => standing == Standing::Expired,
        _ => true,
    };
    let rows = || {
        let all = pages.iter().flat_map(|page| page.rows.iter().map(|row| (row, page.now)));
        all.filter(|(row, now)| is_asked_for(row.standing(*now)))
    };
    if arguments.json {
        let now_ms = pages.last().map(|page| page.now.as_millis());
        let leases = rows().map(|(row, now)| json::Lease::new(row, now)).collect();
        let now = now_ms.and_then(rfc3339);
        answer(&json::to_text(&json::List { database: database.describe(), now, now_ms, leases }))?;
    } else if rows().next().is_none() {
        let what = if pages.iter().all(|page| page.rows.is_empty()) && arguments.prefix.is_empty() {
            "no lease has been taken yet"
        } else {
            "no such lease"
        };
        answer(&format!("{what} in {}\n", database.describe()))?;
    } else {
        let lines = rows().map(|(row, now)| line(row, now));
        answer(&for_people(lines, table::terminal_width(io::stdout())))?;
    }
    Ok(SUCCESS)
}

fn for_people(lines: impl Iterator<Item = [String; 6]>, width: Option<u16>) -> String {
    let head = ["NAME", "STATE", "INSTANCE", "TERM", "SINCE", "EXPIRES"];
    table::fitting(head, lines, width, &[1, 3, 4, 5])
}

/// The rows whose names begin with `prefix`.
pub(crate) async fn pages(store: &Store, prefix: &str) -> Result<Vec<Listing>, Failure> {
    let mut pages = Vec::new();
    let mut page = Page { prefix: prefix.to_owned(), limit: PAGE, ..Page::default() };
    loop {
        let listing = store.0.list(&page, ATTEMPT).await;
        let listing = listing.map_err(|error| store.failure("list the leases in", error))?;
        page.after = listing.rows.last().map(|row| row.name.clone());
        let is_last = listing.rows.len() < PAGE as usize;
        pages.push(listing);
        if is_last {
            return Ok(pages);
        }
    }
}

fn line(row: &LeaseRow, now: DbTime) -> [String; 6] {
    let standing = row.standing(now);
    let expires = match standing {
        Standing::Held => format!("in {}", span(row.expires_at.since(now))),
        Standing::Expired => format!("{} ago", span(now.since(row.expires_at))),
        Standing::Released | Standing::Never => String::new(),
    };
    [
        row.name.to_string(),
        word(standing).to_owned(),
        row.instance.clone(),
        row.term.to_string(),
        second(row.claimed_at),
        expires,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::tests::{NOW, row};

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide_and_no_time_broken() {
        let held = LeaseRow { instance: "a-host-with-a-long-name.example:1234567".into(), ..row("nightly") };
        let long = LeaseRow { expires_at: NOW, ..row("a-name-of-25-characters-xx") };
        for width in [40, 60, 74, 75, 80, 120] {
            let lines = [&held, &long].into_iter().map(|row| line(row, NOW));
            let text = for_people(lines, Some(width));
            // What is shown a cell a line is broken by the terminal.
            let fits = |line: &str| line.chars().count() <= width.into() || line.starts_with("instance: ");
            assert!(text.lines().all(fits), "{width}:\n{text}");
            assert_eq!(text.matches("2026-01-01T00:00:00Z").count(), 2, "{width}:\n{text}");
            assert!(text.contains("in 13.8 s") && text.contains("0 ms ago"), "{width}:\n{text}");
        }
        // Long ago, the span leaves less to names and instances.
        let old = DbTime::from_millis(NOW.as_millis() + 8_633_132_000);
        let lines = |width| for_people([line(&held, old), line(&long, old)].into_iter(), Some(width));
        assert!(lines(80).contains("name: nightly\n") && lines(80).contains("expires: 3months 8days ago\n"));
        assert!(lines(90).starts_with("NAME ") && lines(90).contains("3months 8days ago"), "{}", lines(90));
        let narrow = for_people([line(&row("x"), NOW)].into_iter(), Some(40));
        assert_eq!(
            narrow,
            "name: x\nstate: held\ninstance: host:123\nterm: 4\nsince: 2026-01-01T00:00:00Z\nexpires: in 13.8 s\n"
        );
    }
}
