//! Rows by the thousand, written by SQL into the table of a store, as claims would have left them. Which they are is known without
//! asking: of the row of each number, from 0 on, the name and the holder.

use std::time::UNIX_EPOCH;

use lease_core::store::Holding;
use lease_core::{Holder, Instance, LeaseName};

use crate::Outcome;
use crate::database::Database;
use crate::engine::Place;

/// Added to each number, so that all are of one length.
const FIRST: usize = 10_000_000;

/// What a name and a holder begin with.
const NAME: &str = "nightly-report/region-";
const HOLDER: &str = "5eed1ea5e5eed1ea5e5eed1e";

const HOUR_MS: u128 = 3_600_000;

/// When the rows expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// All of them longer after now than any run takes.
    Held,
    /// So are the odd ones; the even ones have expired.
    OddHeld,
}

pub(crate) fn name(number: usize) -> Outcome<LeaseName> {
    Ok(LeaseName::new(&format!("{NAME}{}", FIRST + number))?)
}

pub(crate) fn holding(number: usize) -> Outcome<Holding> {
    let holder: Holder = format!("{HOLDER}{}", FIRST + number).parse()?;
    Ok(Holding { name: name(number)?, holder })
}

/// Fills an empty table.
pub(crate) async fn fill(database: &mut Database, place: &Place, rows: usize, expiry: Expiry) -> Outcome<()> {
    database.let_count().await?;
    database.run(&text(&place.table, rows, expiry)).await?;
    database.tidy().await
}

/// Frees what a run that was broken off has left claimed: no row that was written as held expires so soon.
pub(crate) async fn release(database: &mut Database, place: &Place) -> Outcome<()> {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
    let (table, soon) = (&place.table, now + 24 * HOUR_MS);
    database
        .run(&format!("UPDATE {table} SET expires_at_ms = 0 WHERE expires_at_ms BETWEEN {now} AND {soon}"))
        .await?;
    database.tidy().await
}

/// The same for all engines.
fn text(table: &str, rows: usize, expiry: Expiry) -> String {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
    let (past, future) = (now - 24 * HOUR_MS, now + 10 * 366 * 24 * HOUR_MS);
    let expires = match expiry {
        Expiry::Held => format!("{future} + n"),
        Expiry::OddHeld => format!("CASE WHEN n % 2 = 1 THEN {future} + n ELSE {past} + n END"),
    };
    // As long as those that a claim writes, so that none makes a row longer.
    let instance = Instance::current();
    let who = [instance.name(), instance.process_facts(), instance.address_text(), instance.version_text()]
        .map(|text| format!("'{}'", text.as_str().replace('\'', "''")))
        .join(", ");
    format!(
        "INSERT INTO {table} (name, holder, instance, process, address, version,
                              term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms)
         WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {rows} - 1)
         SELECT concat('{NAME}', {FIRST} + n), concat('{HOLDER}', {FIRST} + n), {who},
                1 + n % 1000, {past} - 15000 + n, {past} - 15000 + n, {expires}, 15000
         FROM numbers"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_sql_are_those_that_are_known_here() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let columns = "name, holder, instance, process, address, version,
                       term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms";
        connection.execute_batch(&format!("CREATE TABLE t ({columns})")).unwrap();
        connection.execute_batch(&text("t", 12, Expiry::OddHeld)).unwrap();
        let now = i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
        let mut rows = connection.prepare("SELECT name, holder, expires_at_ms FROM t ORDER BY name").unwrap();
        let rows: Vec<(String, String, i64)> = rows
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows.len(), 12);
        for (number, (name, holder, expires)) in rows.iter().enumerate() {
            let known = holding(number).unwrap();
            assert_eq!((name.as_str(), holder.as_str()), (known.name.as_str(), known.holder.hex().as_str()));
            assert_eq!(*expires > now, number % 2 == 1, "{number}");
        }
    }
}
