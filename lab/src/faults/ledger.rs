//! The ledger: what guarded transactions write, beside the leases and in the same database.
//!
//! Each transaction takes its place from a counter of the name that it moves itself, so the counter's row lock makes the
//! order of the places that of the commits.

pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod sqlite;

use std::time::Duration;

use lease_core::{GuardError, Tenure};
use tokio::time::sleep;

use super::Failure;
use super::place::{Place, Store};
use crate::history::{Finish, Guard, LeaseId, Ledger};

/// What a transaction writes, and who hears of its steps.
pub(crate) struct Entry {
    pub(crate) lease: LeaseId,
    pub(crate) process: u32,
    pub(crate) incarnation: u32,
    pub(crate) tx: u64,
    /// How long it stays open after it has written.
    pub(crate) open: Duration,
    pub(crate) steps: Box<dyn Fn(Guard) + Send + Sync>,
}

/// The tables, as every engine takes them; `name` is compared byte by byte.
const COUNTER: &str = "lab_counter";
const LEDGER: &str = "lab_ledger";

/// Makes the tables of leases and ledger.
pub(crate) async fn create(place: &Place) -> Result<(), Failure> {
    use super::backend::Backend;
    match place.backend {
        Backend::Postgres => postgres::create(&place.at).await,
        Backend::Mariadb | Backend::Mysql => mysql::create(&place.at).await,
        Backend::Sqlite => sqlite::create(&place.at).await,
    }
}

/// All that is in the ledger.
pub(crate) async fn read(place: &Place) -> Result<Vec<Ledger>, Failure> {
    use super::backend::Backend;
    match place.backend {
        Backend::Postgres => postgres::read(&place.at).await,
        Backend::Mariadb | Backend::Mysql => mysql::read(&place.at).await,
        Backend::Sqlite => sqlite::read(&place.at),
    }
}

/// Writes an entry in a guarded transaction of its own, on a connection of its own.
pub(crate) async fn write(store: &Store, place: &Place, tenure: &Tenure, entry: Entry) -> Finish {
    match store {
        Store::Postgres(store) => postgres::write(store, &place.at, tenure, entry).await,
        Store::Mysql(store) => mysql::write(store, &place.at, tenure, entry).await,
        Store::Sqlite(store) => sqlite::write(store, &place.at, tenure, entry).await,
    }
}

/// How a transaction ended that was not committed, in the words of the history.
fn ended(error: &GuardError) -> Finish {
    match error {
        GuardError::Lost(_) => Finish::Lost,
        GuardError::Ended(_) | GuardError::Failed(_) => Finish::Failed,
        // Unknown, or what the lab does not know, which is nothing to go by.
        _ => Finish::Unknown,
    }
}

/// Stays open, unless the lease is lost.
async fn stay(tenure: &Tenure, open: Duration) {
    tokio::select! {
        () = sleep(open) => {}
        _ = tenure.lost() => {}
    }
}

/// A row of the ledger as drivers give it.
fn row(
    (place, name, term, process, incarnation, tx): (i64, String, i64, i64, i64, i64),
) -> Result<Ledger, Failure> {
    Ok(Ledger {
        place,
        name: name.parse()?,
        term,
        process: process.try_into()?,
        incarnation: incarnation.try_into()?,
        tx: tx.try_into()?,
        database: 0,
    })
}
