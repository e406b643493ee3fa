//! Two accounts in a database, and the leases beside them.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::Identifier;
use lease_core::{GuardError, GuardedError, Holder, LeaseStore, Tenure};

use crate::mysql::Mysql;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;

/// What may fail in a program that tells a story and ends.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What is moved, each time.
pub(crate) const AMOUNT: i64 = 30;

/// What each account has in the beginning.
pub(crate) const START: i64 = 100;

/// What a process does between its look at the lease and its write. Here it waits to be stopped.
pub(crate) type Pause = Box<dyn FnOnce() + Send>;

/// A bank in a database.
#[async_trait]
pub(crate) trait Bank: Send + Sync {
    /// Where its leases are.
    fn store(&self) -> Arc<dyn LeaseStore>;

    /// A short one that the store allows, so that nobody waits for long.
    fn ttl(&self) -> Duration;

    /// Whether a process that is stopped in a guarded transaction keeps everybody out for as long as it is.
    fn is_locked_by_the_stopped(&self) -> bool;

    /// Makes the accounts, with 100 each.
    async fn open_accounts(&self) -> Outcome<()>;

    /// What Ann and Bob have.
    async fn balances(&self) -> Outcome<[i64; 2]>;

    /// Moves the amount from Ann to Bob in a plain transaction.
    async fn transfer(&self) -> Outcome<()>;

    /// The same in a transaction that is not committed after a successor's claim. It pauses when that has begun.
    async fn guarded_transfer(&self, tenure: &Tenure, pause: Pause) -> Outcome<Ending>;

    /// Takes all tables away, those of the leases too.
    async fn close(&self) -> Outcome<()>;
}

/// Opens the bank at a path or a URL.
pub(crate) async fn open(database: &str, tables: &Tables) -> Outcome<Box<dyn Bank>> {
    Ok(match database.split_once("://").map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => Box::new(Postgres::open(database, tables)?),
        Some("mysql" | "mariadb") => Box::new(Mysql::open(database, tables)?),
        _ => Box::new(Sqlite::open(database, tables).await?),
    })
}

/// The names of this story's tables. They are nobody else's, whatever is in the database.
pub(crate) struct Tables {
    /// What makes them their own.
    pub(crate) story: String,
    pub(crate) accounts: Identifier,
    pub(crate) leases: Identifier,
}

impl Tables {
    pub(crate) fn new() -> Outcome<Self> {
        Self::named(&Holder::mint()?.to_string())
    }

    pub(crate) fn named(story: &str) -> Outcome<Self> {
        let [accounts, leases] = ["accounts", "leases"].map(|of| Identifier::new(&format!("{of}_{story}")));
        Ok(Self { story: story.to_owned(), accounts: accounts?, leases: leases? })
    }
}

/// How a guarded transfer ended.
pub(crate) enum Ending {
    Moved,
    /// Nothing is moved, nor will be: the lease was lost, or the transaction was rolled back.
    Refused(GuardError),
}

impl Ending {
    /// Of what a guard has answered. What is known is an ending; whatever else went wrong is an error.
    pub(crate) fn of<E: Error + Send + Sync + 'static>(answer: Result<(), GuardedError<E>>) -> Outcome<Self> {
        match answer {
            Ok(()) => Ok(Self::Moved),
            Err(GuardedError::Guard(refused @ (GuardError::Lost(_) | GuardError::Failed(_)))) => {
                Ok(Self::Refused(refused))
            }
            Err(error) => Err(error.into()),
        }
    }
}
