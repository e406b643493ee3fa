//! A transaction that is open, and its end.

use std::fmt;
use std::future::Future;
use std::ops::Deref;

use futures_util::future::{Either, join, select};
use lease_core::clock::sleep_until;
use lease_core::guard::{GuardError, Guarding};
use lease_core::store::{Effect, Limit, StoreError, damaged};
use lease_core::{ErrorKind, Tenure};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::client::{Guardable, Held};
use super::verify;
use crate::PostgresStore;
use crate::error::of_statement;
use crate::sql;

/// An open transaction, which no successor's claim overtakes. It owns the connection, and derefs to it: to the driver's
/// [`Client`], or to the pool's object, which derefs to that.
///
/// Savepoints are as always (`SAVEPOINT`, `ROLLBACK TO`, `RELEASE`). What the program sends as a `COMMIT`, a `ROLLBACK` or a
/// `PREPARE TRANSACTION` ends the promise, and [`commit`](Self::commit) says so.
///
/// When the lease is lost, its session is ended on the server: what runs there fails, what is sent later too.
///
/// Dropped while it is open, by a panic or with a future, it closes the connection for good, and its session is ended on the server.
#[must_use = "it is committed by `commit` and by nothing else"]
pub struct Guarded<C: Guardable> {
    // Closed before the other side is told to end its session.
    client: Held<C>,
    /// `None` while [`run`](super::Guard::run) looks after it.
    guarding: Option<Guarding>,
    tenure: Tenure,
    store: PostgresStore,
    transaction: Transaction,
    elsewhere: bool,
}

/// The transaction's number, which no other has, in any session. Every guarded transaction has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transaction(u64);

impl Transaction {
    pub(super) fn parse(text: &str) -> Result<Self, StoreError> {
        text.parse().map(Self).map_err(|_| damaged("", "xid", text))
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const UNTIL_ITS_END: &str = "there until the transaction ends";

impl<C: Guardable> Guarded<C> {
    pub(super) fn new(
        client: Held<C>,
        guarding: Guarding,
        store: PostgresStore,
        transaction: Transaction,
        elsewhere: bool,
    ) -> Self {
        let tenure = guarding.tenure().clone();
        Self { client, guarding: Some(guarding), tenure, store, transaction, elsewhere }
    }

    pub(super) fn lend_guarding(&mut self) -> Guarding {
        self.guarding.take().expect(UNTIL_ITS_END)
    }

    pub(super) fn take_back(&mut self, guarding: Guarding) {
        self.guarding = Some(guarding);
    }

    /// Commits, in one round trip, and gives the connection back. `Ok` is committed, for good and before any successor's claim.
    ///
    /// When the lease is lost meanwhile, the answer is awaited for half of the grace.
    ///
    /// # Errors
    ///
    /// - [`Lost`](GuardError::Lost): the commit was not sent.
    /// - [`Unknown`](GuardError::Unknown): it was sent, and no answer came.
    /// - [`Ended`](GuardError::Ended): a statement of the program's had ended the transaction before.
    /// - [`Failed`](GuardError::Failed): it is rolled back; also when a statement had failed before, whose error the program
    ///   may have passed over (SQLSTATE 25P02).
    ///
    /// After an error the connection is dropped, which gives it back to its pool, if nothing is open on it, else closed for good.
    ///
    /// Dropping the future closes the connection; the transaction is committed or not.
    pub async fn commit(mut self) -> Result<C, GuardError> {
        let guarding = self.lend_guarding();
        if self.elsewhere {
            verify(&self.store, &self.tenure).await?;
        }
        guarding.commit_begins()?;
        if self.client.client().is_closed() {
            let message = "the connection had ended before the commit";
            return Err(GuardError::Failed(
                StoreError::new(ErrorKind::Unavailable, message).without_effect(),
            ));
        }
        // Sent before anything else is awaited: from here on nobody else ends the session.
        let client = self.client.client();
        let is_ours = sql::is_transaction(self.transaction);
        let commit = join(client.batch_execute(&is_ours), client.batch_execute(sql::COMMIT));
        let Some((same, committed)) = self.awaited(commit).await else {
            let message = "the commit was not answered before the lease was lost";
            return Err(GuardError::Unknown(StoreError::new(ErrorKind::Timeout, message)));
        };
        let error = match (same, committed) {
            (Ok(()), Ok(())) => {
                // Nobody else has ended it, for the commit had begun.
                drop(guarding.over());
                return Ok(self.client.take());
            }
            (Err(error), _) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
                return Err(GuardError::Ended(ended(Some(error))));
            }
            (Err(error), _) | (Ok(()), Err(error)) => of_statement(error),
        };
        if error.effect() == Effect::Unknown {
            return Err(GuardError::Unknown(error));
        }
        let limit = self.store.limit(self.tenure.timings().attempt());
        match roll_back(self.client.client(), &limit, Some(self.transaction)).await {
            Ok(Outcome::Committed) => Err(GuardError::Ended(ended(None))),
            Ok(Outcome::Undone) => {
                drop(self.client.take());
                Err(GuardError::Failed(error))
            }
            Err(_) => Err(GuardError::Failed(error)),
        }
    }

    /// Rolls back, in one round trip, and gives the connection back.
    ///
    /// # Errors
    ///
    /// Nothing is committed, but by [`Ended`](GuardError::Ended).
    ///
    /// - [`Lost`](GuardError::Lost): the session is being ended.
    /// - [`Ended`](GuardError::Ended): a `COMMIT` of the program's had come before.
    /// - [`Failed`](GuardError::Failed): no answer came within the lease's attempt.
    ///
    /// After an error, and when the future is dropped, the connection is closed.
    pub async fn rollback(mut self) -> Result<C, GuardError> {
        let guarding = self.lend_guarding();
        // From here on nobody else ends the session, which can be another's behind a pooler once it is rolled back.
        guarding.over()?;
        let limit = self.store.limit(self.tenure.timings().attempt());
        match roll_back(self.client.client(), &limit, Some(self.transaction)).await {
            Ok(Outcome::Undone) => Ok(self.client.take()),
            Ok(Outcome::Committed) => Err(GuardError::Ended(ended(None))),
            Err(error) => Err(GuardError::Failed(error.without_effect())),
        }
    }

    /// The tenure of the lease.
    pub fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// The answer, unless half of the grace passes first.
    async fn awaited<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let clock = self.store.clock();
        let too_late = async {
            self.tenure.lost().await;
            sleep_until(clock, clock.now() + self.tenure.timings().grace() / 2).await;
        };
        match select(Box::pin(answer), Box::pin(too_late)).await {
            Either::Left((answer, _)) => Some(answer),
            Either::Right(_) => None,
        }
    }
}

impl<C: Guardable> Deref for Guarded<C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.client.get()
    }
}

impl<C: Guardable> fmt::Debug for Guarded<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").field("guarding", &self.guarding).finish_non_exhaustive()
    }
}

/// What became of a transaction.
pub(super) enum Outcome {
    /// Nothing of it is committed, nor will be.
    Undone,
    Committed,
}

/// Undoes what is open in the session, and asks what became of the transaction that is to be over.
pub(super) async fn roll_back(
    client: &Client,
    limit: &Limit,
    transaction: Option<Transaction>,
) -> Result<Outcome, StoreError> {
    let rollback = sql::roll_back_guarded(transaction);
    let rolled_back = async { client.simple_query(&rollback).await.map_err(of_statement) };
    let messages = limit.bound(rolled_back).await?;
    let was_committed = messages
        .iter()
        .any(|message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("committed")));
    Ok(if was_committed { Outcome::Committed } else { Outcome::Undone })
}

fn ended(error: Option<tokio_postgres::Error>) -> StoreError {
    let message = "it was no longer open when it was to end; leave COMMIT and ROLLBACK to the guard";
    let ended = StoreError::new(ErrorKind::Other, message);
    match error {
        Some(error) => ended.with_source(error),
        None => ended,
    }
}
