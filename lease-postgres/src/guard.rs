//! Guarded transactions: they never commit after a successor's claim.
//!
//! The promise is the lock's: the first statement takes the lease's row `FOR KEY SHARE`, which keeps every claim off until
//! the transaction has ended, wherever its process was paused. All else here is there to end it soon.

mod begin;
mod bounds;
mod client;
mod guarded;
mod watch;

use std::fmt;

use lease_core::guard::{GuardError, GuardedError};
use lease_core::{LeaseStore, LossReason, Tenure, store::VerifyAnswer};

pub use bounds::{Bounds, Isolation};
pub use client::Guardable;
pub use guarded::Guarded;
pub(crate) use guarded::Transaction;

use crate::PostgresStore;

/// How transactions are begun under a lease, from [`PostgresStore::guard`]. One may begin many.
#[derive(Clone)]
pub struct Guard {
    store: PostgresStore,
    tenure: Tenure,
    isolation: Isolation,
    bounds: Bounds,
    /// The transactions are on a database that does not have the lease's row.
    elsewhere: bool,
}

impl Guard {
    pub(crate) fn new(store: &PostgresStore, tenure: &Tenure) -> Self {
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

    /// For a transaction on another PostgreSQL database than the lease's. **It is not fenced**: the lease is verified by the
    /// store while the transaction begins and again before its commit is sent, each in a round trip of the store's own. A process that is
    /// paused between the two, or a commit that is slow to arrive, commits beside its successor when the pause outlasts the ttl.
    /// Nor can the session be ended from outside when the lease is lost: only the bounds do.
    pub fn on_another_database(self) -> Self {
        Self { elsewhere: true, ..self }
    }

    /// Begins a transaction on a connection that it owns from now on, and verifies the lease in the same round trip. The connection
    /// may be behind a pooler, in transaction or session mode.
    ///
    /// # Errors
    ///
    /// - [`Lost`](GuardError::Lost): the lease is not held. Nothing was run.
    /// - [`Failed`](GuardError::Failed): it could not begin within the lease's attempt. As
    ///   [`Unavailable`](lease_core::ErrorKind::Unavailable) also on a connection on which a transaction has been left open.
    ///
    /// After an error the connection is dropped, which gives it back to its pool, if it is as before, else closed for good.
    ///
    /// Dropping the future closes the connection.
    pub async fn begin<C: Guardable>(&self, client: C) -> Result<Guarded<C>, GuardError> {
        begin::begin(self, client).await
    }

    /// Begins a transaction, runs `work` in it, and commits it; rolls it back when `work` answers an error. `work` is dropped
    /// when the lease is lost meanwhile. The connection is dropped in the end, which gives it back to its pool.
    ///
    /// ```no_run
    /// # async fn example(
    /// #     store: lease_postgres::PostgresStore, tenure: lease_core::Tenure, pool: deadpool_postgres::Pool,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let paid = store
    ///     .guard(&tenure)
    ///     .run(pool.get().await?, async |tx| tx.execute("UPDATE invoices SET paid = true WHERE due < now()", &[]).await)
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
    pub async fn run<C, T, E>(
        &self,
        client: C,
        work: impl AsyncFnOnce(&mut Guarded<C>) -> Result<T, E>,
    ) -> Result<T, GuardedError<E>>
    where
        C: Guardable,
    {
        let mut transaction = self.begin(client).await?;
        let guarding = transaction.lend_guarding();
        let outcome = guarding.work(work(&mut transaction)).await;
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

    /// Asks the lease's database whether the lease is held.
    async fn verify(&self) -> Result<(), GuardError> {
        verify(&self.store, &self.tenure).await
    }
}

async fn verify(store: &PostgresStore, tenure: &Tenure) -> Result<(), GuardError> {
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
