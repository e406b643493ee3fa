//! The ledger on SQLite.

use std::thread;
use std::time::{Duration, Instant};

use lease_core::{GuardedError, LeaseStore as _, Tenure};
use lease_sqlite::SqliteStore;
use rusqlite::{Connection, OpenFlags, params};

use super::super::Failure;
use super::{COUNTER, Entry, LEDGER, ended};
use crate::history::{Finish, Guard, Ledger};

/// Looks at the lease between two of these.
const STEP: Duration = Duration::from_millis(5);

/// Whoever has the file gives it up in this time.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn create(path: &str) -> Result<(), Failure> {
    SqliteStore::open(path).await?.migrate().await?;
    let sql = format!(
        "CREATE TABLE {COUNTER} (name text PRIMARY KEY, n integer NOT NULL);
         CREATE TABLE {LEDGER} (place integer, name text, term integer, process integer, incarnation integer, tx integer)"
    );
    Connection::open(path)?.execute_batch(&sql)?;
    Ok(())
}

pub(super) fn read(path: &str) -> Result<Vec<Ledger>, Failure> {
    let connection = connect(path)?;
    let sql = format!("SELECT place, name, term, process, incarnation, tx FROM {LEDGER}");
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
    })?;
    rows.map(|row| super::row(row?)).collect()
}

pub(super) async fn write(store: &SqliteStore, path: &str, tenure: &Tenure, entry: Entry) -> Finish {
    let Ok(connection) = connect(path) else { return Finish::Failed };
    let held = tenure.clone();
    let work = move |tx: &lease_sqlite::Guarded<'_>| -> Result<(), rusqlite::Error> {
        (entry.steps)(Guard::Verified);
        let name = entry.lease.name.as_str();
        let count = format!(
            "INSERT INTO {COUNTER} VALUES (?1, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1 RETURNING n"
        );
        let place: i64 = tx.query_row(&count, [name], |row| row.get(0))?;
        let insert = format!("INSERT INTO {LEDGER} VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
        let number = entry.tx.cast_signed();
        tx.execute(
            &insert,
            params![place, name, entry.lease.term, entry.process, entry.incarnation, number],
        )?;
        (entry.steps)(Guard::Wrote(1));
        let steps = entry.open.as_millis() / STEP.as_millis();
        for _ in 0..steps {
            if !held.check() {
                break;
            }
            thread::sleep(STEP);
        }
        (entry.steps)(Guard::Commits);
        Ok(())
    };
    match store.guard(tenure).run(Box::new(connection), work).await.1 {
        Ok(()) => Finish::Committed,
        Err(GuardedError::Work(_)) => Finish::Failed,
        Err(GuardedError::Guard(error)) => ended(&error),
    }
}

/// Makes no file.
pub(crate) fn connect(path: &str) -> Result<Connection, rusqlite::Error> {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// A connection that has the file's lock, taken as soon as whoever has it gives it up: SQLite's own waiting would be too seldom awake to get it.
pub(crate) async fn locked(path: &str) -> Result<Connection, Failure> {
    let connection = connect(path)?;
    connection.busy_timeout(Duration::ZERO)?;
    let since = Instant::now();
    loop {
        match connection.execute_batch("BEGIN IMMEDIATE") {
            Ok(()) => return Ok(connection),
            Err(error) if since.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(STEP).await,
        }
    }
}
