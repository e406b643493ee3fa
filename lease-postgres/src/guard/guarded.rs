//! A transaction that is open, and its end.

use std::fmt;
use std::future::{Future, pending};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, join, select};
use lease_core::clock::{Moment, sleep_until};
use lease_core::guard::{GuardError, GuardedError, Guarding};
use lease_core::store::{Effect, Limit, Repeat, StoreError, damaged};
use lease_core::{ErrorKind, Tenure};
use tokio::sync::oneshot;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::client::{Guardable, Held};
use super::{Guard, verify};
use crate::connections::Lane;
use crate::error::of_statement;
use crate::row::{Question, Value};
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
    guarding: Guarding,
    guard: Guard,
    transaction: Transaction,
    begun: Moment,
}

/// What a transaction is known by: no other has its number, but after a crash or a failover; then another is in another process,
/// or on a server that was started since. Displayed as the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(super) number: i64,
    pub(super) pid: i64,
    /// In microseconds since 1970.
    pub(super) server_start: i64,
}

impl Transaction {
    /// The row of `sql::guard` and `sql::unfenced`.
    pub(super) fn read(row: &SimpleQueryRow) -> Result<Self, StoreError> {
        let number = |index, column| {
            let text = row.try_get(index).ok().flatten().unwrap_or_default();
            text.parse().map_err(|_| damaged("", column, text))
        };
        Ok(Self {
            number: number(0, "xid")?,
            pid: number(1, "pid")?,
            server_start: number(2, "server_start")?,
        })
    }

    /// As the parameters of `sql::end_guarded`.
    pub(super) fn values(self) -> [Value; 3] {
        [self.to_string().as_str().into(), self.pid.into(), self.server_start.into()]
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

impl<C: Guardable> Guarded<C> {
    pub(super) fn new(client: Held<C>, guarding: Guarding, guard: &Guard, transaction: Transaction) -> Self {
        let begun = guard.store.clock().now();
        Self { client, guarding, guard: guard.clone(), transaction, begun }
    }

    pub(super) fn guarding(&self) -> &Guarding {
        &self.guarding
    }

    /// Commits, in one round trip, and gives the connection back. `Ok` is committed, for good and before any successor's claim.
    ///
    /// An answer that does not come within an attempt is awaited as long as the transaction is in progress, which the store
    /// asks on a connection of its own; and when the lease is lost meanwhile, for half of the grace at most. Then the store asks what
    /// has become of it, within an attempt and a quarter of the grace.
    ///
    /// # Errors
    ///
    /// - [`Lost`](GuardError::Lost): the commit was not sent. (The program's own, which would be [`Ended`](GuardError::Ended), may
    ///   have been.)
    /// - [`Unknown`](GuardError::Unknown): it was sent, and no answer came; nor is it known to be rolled back.
    /// - [`Ended`](GuardError::Ended): a statement of the program's had ended the transaction before.
    /// - [`Failed`](GuardError::Failed): it is rolled back; also when a statement had failed before, whose error the program
    ///   may have passed over (SQLSTATE 25P02). When the connection had ended after a time in which one of the [`Bounds`](super::Bounds)
    ///   can have been met, it is of the kind [`Other`](ErrorKind::Other), for it would be again.
    ///
    /// After an error the connection is dropped, which gives it back to its pool, if nothing is open on it, else closed for good.
    ///
    /// Dropping the future closes the connection; the transaction is committed or not.
    pub async fn commit(self) -> Result<C, GuardError> {
        let client = self.client.client();
        if client.is_closed() {
            self.guarding.check()?;
            if self.status(self.tenure().timings().attempt()).await == Some(Status::Committed) {
                return Err(GuardError::Ended(ended(None)));
            }
            // Not begun: should the server not have seen it end, the watcher ends it.
            return Err(GuardError::Failed(self.cut_off(None)));
        }
        let is_ours = sql::is_transaction(self.transaction);
        let answer = if self.guard.elsewhere {
            self.commit_elsewhere(&is_ours).await?
        } else {
            self.guarding.commit_begins()?;
            // Sent before anything else is awaited: from here on nobody else ends the session.
            let both = join(client.batch_execute(&is_ours), client.batch_execute(sql::COMMIT));
            self.answered(async { merged(both.await) }).await?
        };
        let error = match answer {
            Ok(()) => {
                // Nobody else has ended it, for the commit had begun.
                drop(self.guarding.over());
                return Ok(self.client.take());
            }
            Err(NotCommitted::Ended(error)) => return Err(GuardError::Ended(ended(Some(error)))),
            Err(NotCommitted::Refused(error)) => of_statement(error),
        };
        if error.effect() == Effect::Unknown {
            return Err(self.unanswered(error).await);
        }
        match roll_back(client, &self.limit(), Some(self.transaction)).await {
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
    /// After an error, and when the future is dropped, the connection is closed and the session ended on the server.
    pub async fn rollback(self) -> Result<C, GuardError> {
        self.guarding.check()?;
        // Not over before there is an answer: a statement whose future was dropped may still run there, and keep it waiting.
        match roll_back(self.client.client(), &self.limit(), Some(self.transaction)).await {
            Ok(Outcome::Undone) => {
                self.guarding.over()?;
                Ok(self.client.take())
            }
            Ok(Outcome::Committed) => Err(GuardError::Ended(ended(None))),
            Err(error) => {
                self.guarding.check()?;
                Err(GuardError::Failed(error.without_effect()))
            }
        }
    }

    /// The tenure of the lease.
    pub fn tenure(&self) -> &Tenure {
        &self.guard.tenure
    }

    fn limit(&self) -> Limit {
        self.guard.store.limit(self.tenure().timings().attempt())
    }

    /// What was sent before is to be answered first, so that no commit waits behind it after the look at the lease.
    async fn commit_elsewhere(&self, is_ours: &str) -> Result<Result<(), NotCommitted>, GuardError> {
        let Guard { store, tenure, .. } = &self.guard;
        let client = self.client.client();
        match self.guarding.work(client.batch_execute(is_ours)).await {
            Ok(()) => {}
            Err(GuardedError::Work(error)) => return Ok(Err(not_ours(error))),
            Err(GuardedError::Guard(error)) => return Err(error),
        }
        verify(store, tenure).await?;
        self.guarding.commit_begins()?;
        // No lock keeps a successor off while the commit is on its way.
        let (answered, is_answered) = oneshot::channel();
        let (clock, tenure) = (Arc::clone(store.clock()), tenure.clone());
        let bounds = self.guard.patience().unwrap_or(tenure.timings().ttl());
        store.spawn(async move {
            if is_answered.await.is_err() {
                sleep_until(&clock, clock.now() + bounds).await;
            }
            drop(tenure);
        });
        let answer = self.answered(client.batch_execute(sql::COMMIT)).await?;
        if !answer.as_ref().is_err_and(|error| error.as_db_error().is_none()) {
            let _ = answered.send(());
        }
        Ok(answer.map_err(NotCommitted::Refused))
    }

    /// The answer to the commit.
    async fn answered<T>(&self, answer: impl Future<Output = T>) -> Result<T, GuardError> {
        let clock = self.guard.store.clock();
        let too_late = async {
            self.tenure().lost().await;
            sleep_until(clock, clock.now() + self.tenure().timings().grace() / 2).await;
        };
        let unheard = select(Box::pin(too_late), Box::pin(self.is_over_unheard()));
        let message = match select(Box::pin(answer), unheard).await {
            Either::Left((answer, _)) => return Ok(answer),
            Either::Right((Either::Left(_), _)) => "the commit was not answered before the lease was lost",
            Either::Right((Either::Right(_), _)) => "the commit was not answered",
        };
        Err(self.unanswered(StoreError::new(ErrorKind::Timeout, message)).await)
    }

    /// Waits until the server has told another connection that the transaction is over, and its answer is still not there. Elsewhere, until
    /// the bounds have passed.
    async fn is_over_unheard(&self) {
        let clock = self.guard.store.clock();
        let pause = async |time| sleep_until(clock, clock.now() + time).await;
        if self.guard.elsewhere {
            return match self.guard.patience() {
                Some(bounds) => pause(bounds).await,
                None => pending().await,
            };
        }
        let attempt = self.tenure().timings().attempt();
        loop {
            pause(attempt).await;
            if matches!(self.status(attempt).await, Some(Status::Committed | Status::Aborted)) {
                return pause(attempt).await;
            }
        }
    }

    /// How it ended, without an answer to the commit.
    async fn unanswered(&self, error: StoreError) -> GuardError {
        let timings = self.tenure().timings();
        let limit = self.guard.store.limit(timings.attempt().min(timings.grace() / 4));
        let clock = self.guard.store.clock();
        while !limit.left().is_zero() {
            match self.status(limit.left()).await {
                Some(Status::Aborted) if error.kind() == ErrorKind::Unavailable => {
                    return GuardError::Failed(self.cut_off(Some(error)));
                }
                Some(Status::Aborted) => return GuardError::Failed(error.without_effect()),
                // The server has not seen the connection end.
                Some(Status::InProgress) => sleep_until(clock, clock.now() + PAUSE).await,
                Some(Status::Committed) | None => break,
            }
        }
        GuardError::Unknown(error)
    }

    /// Asks the store what has become of the transaction, which elsewhere it does not know.
    async fn status(&self, within: Duration) -> Option<Status> {
        if self.guard.elsewhere {
            return None;
        }
        let [number, _, server_start] = self.transaction.values();
        let question = Question::seldom(sql::STATUS.to_owned(), [number, server_start]);
        // Boxed, for it is deeper than what the compiler looks into by default when a commit is to be `Send`.
        let asking = self.guard.store.ask(Lane::Holder, Repeat::Always, within, question).boxed();
        let rows = asking.await.ok()?;
        match rows.first()?.try_get(0).ok()? {
            Some("committed") => Some(Status::Committed),
            Some("aborted") => Some(Status::Aborted),
            Some("in progress") => Some(Status::InProgress),
            _ => None,
        }
    }

    /// Its connection ended, and nothing is committed. A bound that has done it would do it again.
    fn cut_off(&self, error: Option<StoreError>) -> StoreError {
        let age = self.guard.store.clock().now().since(self.begun);
        let (kind, by_a_bound) = if age < self.guard.bounds.shortest() {
            (ErrorKind::Unavailable, String::new())
        } else {
            let bounds = self.guard.bounds;
            (
                ErrorKind::Other,
                format!(", if by one of its bounds raise that or shorten the pause ({bounds:?})"),
            )
        };
        let message =
            format!("the connection ended before the commit, {age:?} after the beginning{by_a_bound}");
        let cut_off = StoreError::new(kind, message).without_effect();
        match error {
            Some(error) => cut_off.with_source(error),
            None => cut_off,
        }
    }
}

/// How often the store is asked about a commit without an answer.
const PAUSE: Duration = Duration::from_millis(10);

/// What the server says of a transaction.
#[derive(PartialEq)]
enum Status {
    Committed,
    Aborted,
    InProgress,
}

/// Why a commit was refused.
enum NotCommitted {
    /// Another transaction than ours was open, or none.
    Ended(tokio_postgres::Error),
    Refused(tokio_postgres::Error),
}

fn merged(
    (is_ours, committed): (Result<(), tokio_postgres::Error>, Result<(), tokio_postgres::Error>),
) -> Result<(), NotCommitted> {
    is_ours.map_err(not_ours)?;
    committed.map_err(NotCommitted::Refused)
}

fn not_ours(error: tokio_postgres::Error) -> NotCommitted {
    if error.code() == Some(&SqlState::DIVISION_BY_ZERO) {
        NotCommitted::Ended(error)
    } else {
        NotCommitted::Refused(error)
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
    let ended = StoreError::new(ErrorKind::Other, "it was no longer open when it was to end")
        .with_advice("leave COMMIT and ROLLBACK to the guard");
    match error {
        Some(error) => ended.with_source(error),
        None => ended,
    }
}
