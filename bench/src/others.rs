//! A program that writes to a table of its own in the SQLite file of the leases, which no look at the file can tell from a release.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::Outcome;
use crate::engine::Place;

pub(crate) const COMMITS_PER_SECOND: u32 = 500;

/// Measures something while it writes.
pub(crate) fn beside_commits<T>(place: &Place, measure: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let stop = AtomicBool::new(false);
    let (measured, wrote) = block_in_place(|| {
        thread::scope(|scope| {
            let writer = scope.spawn(|| write(place, &stop));
            let measured = Handle::current().block_on(measure);
            stop.store(true, Ordering::Relaxed);
            (measured, writer.join())
        })
    });
    wrote.map_err(|_| "the writer panicked")??;
    measured
}

fn write(place: &Place, stop: &AtomicBool) -> Outcome<()> {
    let connection = Connection::open(&place.at)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    // The disk may not manage so many flushes; what a look at the file finds is the same.
    connection.execute_batch("PRAGMA synchronous = OFF; CREATE TABLE IF NOT EXISTS others (n)")?;
    connection.execute("INSERT INTO others VALUES (0)", [])?;
    let (begun, mut commits) = (Instant::now(), 0_u32);
    while !stop.load(Ordering::Relaxed) {
        connection.execute("UPDATE others SET n = n + 1", [])?;
        commits += 1;
        let due = begun + Duration::from_secs(1) * commits / COMMITS_PER_SECOND;
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}
