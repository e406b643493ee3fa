//! Guarded transactions: they never commit after a successor's claim.
//!
//! The promise is the fence's: right before the commit, in the same text, it reads the lease's row with a lock that keeps every
//! claim off until the commit is done, and fails when the lease is lost. (The same lock from the beginning on would stop our own renewals.) All
//! else here is there to end early what could not be committed.

mod begin;
mod bounds;
mod client;
mod guarded;
mod watch;

use std::fmt;

use lease_core::guard::{GuardError, GuardedError};
use lease_core::{LeaseStore, LossReason, Tenure, store::VerifyAnswer};
use mysql_async::Conn;

pub use bounds::{Bounds, Isolation};
pub use guarded::Guarded;

use crate::MysqlStore;

/// How transactions are begun under a lease, from [`MysqlStore::guard`]. One may begin many.
#[derive(Clone)]
pub struct Guard {
    store: MysqlStore,
    tenure: Tenure,
    isolation: Isolation,
    bounds: Bounds,
    /// The transactions are on a server that does not have the lease's row.
    elsewhere: bool,
}

impl Guard {
    pub(crate) fn new(store: &MysqlStore, tenure: &Tenure) -> Self {
        Self {
            store: store.clone(),
            tenure: tenure.clone(),
            isolation: Isolation::default(),
            bounds: Bounds::of_ttl(tenure.timings().ttl()),
            elsewhere: false,
        }
    }

    /// The isolation level, [`ReadCommitted`](Isolation::ReadCommitted) unless given, whatever the session's default is.
    pub fn isolation(self, isolation: Isolation) -> Self {
        Self { isolation, ..self }
    }

    /// How soon the server ends a transaction whose process is paused or gone, [`Bounds::of_ttl`] unless given.
    pub fn bounds(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    /// For a transaction in another database than the lease's: on another MySQL or MariaDB server, or in one whose table of leases
    /// is not the store's. **It is not fenced**: the lease is verified by the
    /// store before the transaction begins and again before its commit is sent, each in a round trip of the store's own. A process that is
    /// paused between the two, or a commit that is slow to arrive, commits beside its successor when the pause outlasts the ttl.
    ///
    /// When the lease is lost, the session is ended by a new connection that is opened as this one was.
    pub fn on_another_database(self) -> Self {
        Self { elsewhere: true, ..self }
    }

    /// Begins a transaction on a connection that it owns from now on, and verifies the lease in the same round trip. A connection
    /// out of a `mysql_async::Pool` is one, too. It reaches the primary, and nothing between sends one statement here and the next there.
    ///
    /// # Errors
    ///
    /// - [`Lost`](GuardError::Lost): the lease is not held. Nothing was run.
    /// - [`Failed`](GuardError::Failed): it could not begin within the lease's attempt. As [`Invalid`](lease_core::ErrorKind::Invalid)
    ///   on a connection on which a transaction has been left open. (`LOCK TABLES` of its session's is ended by the beginning.)
    ///
    /// After an error the connection is dropped, which gives it back to its pool, if it is as before, else closed for good.
    ///
    /// Dropping the future closes the connection.
    pub async fn begin(&self, conn: Conn) -> Result<Guarded, GuardError> {
        begin::begin(self, conn).await
    }

    /// Begins a transaction, runs `work` in it, and commits it; rolls it back when `work` answers an error. `work` is dropped
    /// when the lease is lost meanwhile. The connection is dropped in the end, which gives it back to its pool.
    ///
    /// ```no_run
    /// # use lease_mysql::mysql_async::{self, prelude::Queryable};
    /// # async fn example(
    /// #     store: lease_mysql::MysqlStore, tenure: lease_core::Tenure, pool: mysql_async::Pool,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// store
    ///     .guard(&tenure)
    ///     .run(pool.get_conn().await?, async |tx| {
    ///         tx.exec_drop("UPDATE invoices SET paid = 1 WHERE due < ?", ("2030-01-01",)).await
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Work`](GuardedError::Work) with the work's own error, else as [`begin`](Self::begin) and
    /// [`commit`](Guarded::commit). After a panic of `work`, and when the future is dropped, the connection is closed and the session
    /// ended on the server.
    pub async fn run<T, E>(
        &self,
        conn: Conn,
        work: impl AsyncFnOnce(&mut Guarded) -> Result<T, E>,
    ) -> Result<T, GuardedError<E>> {
        let mut transaction = self.begin(conn).await?;
        let (guarding, mark) = (transaction.lend_guarding()?, transaction.mark().to_owned());
        let outcome = guarding.work(work(&mut transaction)).await;
        if transaction.mark() != mark {
            // Both are closed.
            return Err(GuardError::Failed(guarded::swapped()).into());
        }
        transaction.take_back(guarding);
        match outcome {
            Ok(value) => transaction.commit().await.map(|_| value).map_err(GuardedError::Guard),
            Err(GuardedError::Work(error)) => match transaction.rollback().await {
                // What could not be rolled back is closed, which undoes it.
                Ok(_) | Err(GuardError::Failed(_)) => Err(GuardedError::Work(error)),
                Err(error) => Err(error.into()),
            },
            Err(error) => Err(error),
        }
    }
}

/// Asks the lease's database whether the lease is held.
async fn verify(store: &MysqlStore, tenure: &Tenure) -> Result<(), GuardError> {
    match store.verify(tenure.name(), &tenure.holder(), tenure.timings().attempt()).await {
        Ok(VerifyAnswer::Held(_)) => Ok(()),
        Ok(VerifyAnswer::Lost) => Err(GuardError::Lost(LossReason::Refused)),
        Err(error) => Err(GuardError::Failed(error)),
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("tenure", &self.tenure)
            .field("isolation", &self.isolation)
            .field("bounds", &self.bounds)
            .field("on_another_database", &self.elsewhere)
            .finish_non_exhaustive()
    }
}
