//! What a guard asks of the program's connection, and what it changes there for a while.

use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use lease_core::store::{StoreError, VerifyAnswer};
use lease_core::{ErrorKind, LeaseStore, Tenure};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::raw;
use crate::SqliteStore;
use crate::error::Failure;
use crate::fence::Fence;
use crate::options::Table;
use crate::row::answer;
use crate::sql;

/// Refuses a connection on which no transaction can be begun.
pub(super) fn is_idle(connection: &Connection) -> Result<(), StoreError> {
    if connection.is_autocommit() {
        return Ok(());
    }
    Err(invalid("the connection has a transaction open already; commit it or roll it back first"))
}

/// Turns waiting for locks off, and answers how long the connection waited before. The guard waits by itself, looking
/// at the lease meanwhile; and once its transaction is open, nothing in the file is locked to it.
pub(super) fn stop_waiting(connection: &Connection) -> Result<Duration, Failure> {
    let timeout: i64 = connection.query_row(sql::BUSY_TIMEOUT, [], |row| row.get(0))?;
    connection.busy_timeout(Duration::ZERO)?;
    Ok(Duration::from_millis(timeout.unsigned_abs()))
}

/// Whether the connection's main database is the file of the store, by name: links resolved, two names are two databases.
pub(super) fn is_on_the_file_of(store: &SqliteStore, connection: &Connection) -> Result<(), StoreError> {
    // `None`: no UTF-8. Empty: in memory.
    let path = connection.path().filter(|path| !path.is_empty());
    if path.is_some_and(|path| is_same(Path::new(path), &store.place().path)) {
        return Ok(());
    }
    Err(invalid(
        "the connection is not on the file of the leases, opened by the store's own path; \
         use on_another_database() for another file",
    ))
}

/// Whether it is not.
pub(super) fn is_off_the_file_of(store: &SqliteStore, connection: &Connection) -> Result<(), StoreError> {
    if connection.path().is_some_and(|path| is_same(Path::new(path), &store.place().path)) {
        return Err(invalid("the connection is on the file of the leases; leave on_another_database() out"));
    }
    Ok(())
}

/// Whether the store and the connection have the file that is at the path. Each may have opened it at another time: a
/// connection keeps the file that it has, the store follows to a new one.
pub(super) fn is_in_place(store: &SqliteStore, connection: &Connection) -> Result<(), StoreError> {
    store.place().still_there()?;
    if raw::has_moved(connection) {
        let message =
            "the connection has a file that was renamed, replaced or deleted since; open the connection anew";
        return Err(invalid(message));
    }
    Ok(())
}

/// Refuses files beside the main one. In WAL mode SQLite commits each by itself, and in any mode gives back the lock of one
/// before that of the next: a successor could claim in between.
pub(super) fn has_no_other_file(connection: &Connection) -> Result<(), Failure> {
    for (database, path) in databases(connection)? {
        if database != "main" && !path.is_empty() {
            let message = format!(
                "the connection has a second file attached, as {database:?}, and files are not committed together; \
                 detach it, or use a connection without it"
            );
            return Err(invalid(&message).into());
        }
    }
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> bool {
    // To resolve a path asks the system once for each of its folders.
    one == other
        || matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Refuses a connection that would keep its lock behind the transaction.
pub(super) fn gives_locks_back(connection: &Connection) -> Result<(), Failure> {
    let is_a_file = connection.path().is_none_or(|path| !path.is_empty());
    if is_a_file && connection.query_row(sql::LOCKING_MODE, [], |row| row.get::<_, String>(0))? == "exclusive"
    {
        return Err(invalid(
            "locking_mode EXCLUSIVE keeps the file locked behind the transaction; use NORMAL",
        )
        .into());
    }
    Ok(())
}

/// Refuses a journal that could not undo the transaction, or, beside a lease, after the process was killed.
pub(super) fn can_be_undone(connection: &Connection, is_the_stores: bool) -> Result<(), Failure> {
    for (database, _) in databases(connection)? {
        let mode: String = connection.query_row(&sql::journal_mode(&database), [], |row| row.get(0))?;
        if mode == "off" || (mode == "memory" && is_the_stores && database == "main") {
            let message = format!(
                "journal_mode is {mode} for database {database:?} of the connection, which cannot be rolled back; use another"
            );
            return Err(StoreError::new(ErrorKind::NotDurable, message).without_effect().into());
        }
    }
    Ok(())
}

/// The databases of the connection and their paths, without the temporary one.
fn databases(connection: &Connection) -> Result<Vec<(String, String)>, Failure> {
    let mut statement = connection.prepare(sql::DATABASES)?;
    let rows = statement.query_map([], |row| {
        let path = row.get_ref(2)?.as_bytes_or_null()?.unwrap_or_default();
        Ok((row.get(1)?, String::from_utf8_lossy(path).into_owned()))
    })?;
    let mut databases: Vec<(String, String)> = rows.collect::<Result<_, _>>()?;
    databases.retain(|(name, _)| name != "temp");
    Ok(databases)
}

/// Refuses what would fire though triggers are off.
pub(super) fn has_no_trigger(connection: &Connection, table: &Table) -> Result<(), Failure> {
    if connection.query_row(sql::TEMPORARY_TRIGGERS, [table.as_str()], |row| row.get(0))? {
        return Err(invalid("a temporary trigger is on a table of the leases' name; drop it").into());
    }
    Ok(())
}

/// In that mode nobody else keeps a commit from the file.
pub(super) fn is_in_wal_mode(connection: &Connection) -> bool {
    let mode = connection.query_row(&sql::journal_mode("main"), [], |row| row.get::<_, String>(0));
    mode.is_ok_and(|mode| mode == "wal")
}

/// Renews the lease inside the connection's transaction, and answers whether the holder is asked to step down. `None`: it is
/// lost.
pub(super) fn verify_and_renew(connection: &Connection, fence: &Fence) -> Result<Option<bool>, Failure> {
    // As on the store's own connections, no trigger of the file's fires.
    let triggers = connection.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    let step_down = answer(connection, fence.verify(), fence.parameters(), |row| Ok(row.get(1)?));
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, triggers)?;
    step_down
}

/// Asks the store whether the lease is held, on this thread.
pub(super) fn verify_through(store: &SqliteStore, tenure: &Tenure) -> Result<VerifyAnswer, StoreError> {
    let within = tenure.timings().attempt();
    wait(store.verify(tenure.name(), &tenure.holder(), within))
}

/// Blocks the thread. Inside a task it must not be told to yield, which this cannot do.
fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(tokio::task::unconstrained(future));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

fn invalid(message: &str) -> StoreError {
    StoreError::new(ErrorKind::Invalid, message).without_effect()
}
