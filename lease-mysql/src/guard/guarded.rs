//! A transaction that is open, and its end.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;

use lease_core::clock::{Moment, sleep_until};
use lease_core::guard::{GuardError, Guarding};
use lease_core::store::{Effect, Limit, StoreError};
use lease_core::{ErrorKind, LossReason, Tenure};
use mysql_async::prelude::{AsQuery, Queryable, StatementLike, ToConnection};
use mysql_async::{
    BinaryProtocol, Conn, Error, Params, QueryResult, Statement, TextProtocol, ToConnectionResult,
};

use super::client::{Answered, Held, can_commit};
use super::{Bounds, Guard, verify};
use crate::error::{self, Failure};
use crate::fence::Fence;
use crate::row::integer;
use crate::{MysqlStore, sql};

/// An open transaction, which does not commit after a successor's claim. It owns the connection, and is what the program queries:
/// by [`Queryable`], or by `"...".with(...).run(&mut transaction)`.
///
/// Savepoints are as always. A statement that ends the transaction (`COMMIT`, `ROLLBACK`, `START TRANSACTION`, or one that commits
/// implicitly, as DDL does) ends the promise, and [`commit`](Self::commit) says so. When no transaction is open behind it, nothing more is
/// sent; another one is found at the latest at the commit. What stands behind it in the same text is run, and never committed unless that text
/// does it.
///
/// When the lease is lost, its session is ended on the server: what runs there fails, and nothing more is sent. What is refused is an
/// `Error::Other` that holds the [`GuardError`].
///
/// Dropped while it is open, by a panic or with a future, it closes the connection for good, and its session is ended on the server.
#[must_use = "it is committed by `commit` and by nothing else"]
pub struct Guarded {
    // Closed before the other side is told to end its session.
    client: Held,
    /// `None` while [`run`](super::Guard::run) looks after it.
    guarding: Option<Guarding>,
    tenure: Tenure,
    store: MysqlStore,
    mark: String,
    /// That of the leases; `None` on another database.
    table: Option<String>,
    begun: Moment,
    bounds: Bounds,
    answer: LastAnswer,
    /// Whether a text was sent that may have committed, whatever has become of it since.
    can_have_committed: bool,
    /// What has ended it before its commit.
    over: Option<Over>,
}

/// What is known of the last statement.
#[derive(Debug, Clone, Copy)]
struct LastAnswer {
    last_word: LastWord,
    /// The server's error number that it was answered with at once.
    failed_with: Option<u16>,
    /// Whether it was prepared: then nobody but the driver knows its text.
    is_prepared: bool,
}

impl LastAnswer {
    fn note<T>(&mut self, answer: Result<T, Error>) -> Result<T, Error> {
        match &answer {
            Ok(_) => self.last_word = LastWord::Answer,
            Err(Error::Server(error)) => self.failed_with = Some(error.code),
            Err(_) => {}
        }
        answer
    }
}

/// What the last packet was that the driver takes for one that says whether a transaction is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastWord {
    /// The answer to a statement, which does.
    Answer,
    /// That a statement is prepared, which says nothing of it, and changes nothing.
    Prepared,
    Unknown,
}

#[derive(Debug, Clone, Copy)]
enum Over {
    /// A statement of the program's.
    ByStatement,
    /// The server, with this error: a deadlock or the like.
    ByServer(u16),
}

/// Why nothing may be sent.
enum Stop {
    Guard(GuardError),
    /// A statement before has failed, and nobody has read it yet.
    Driver(Error),
}

/// Only a swap takes a transaction out of the closure form that it was lent to.
pub(super) fn swapped() -> StoreError {
    let message = "the work has put another transaction in the place of its own";
    StoreError::new(ErrorKind::Invalid, message).without_effect()
}

impl Guarded {
    pub(super) fn new(
        client: Held,
        guarding: Guarding,
        guard: &Guard,
        mark: String,
        table: Option<String>,
    ) -> Self {
        let (store, tenure) = (guard.store.clone(), guarding.tenure().clone());
        let begun = store.clock().now();
        Self {
            client,
            guarding: Some(guarding),
            tenure,
            store,
            mark,
            table,
            begun,
            bounds: guard.bounds,
            answer: LastAnswer { last_word: LastWord::Answer, failed_with: None, is_prepared: false },
            can_have_committed: false,
            over: None,
        }
    }

    pub(super) fn lend_guarding(&mut self) -> Result<Guarding, GuardError> {
        self.guarding.take().ok_or_else(|| GuardError::Failed(swapped()))
    }

    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    pub(super) fn take_back(&mut self, guarding: Guarding) {
        self.guarding = Some(guarding);
    }

    /// Commits, in one round trip, and gives the connection back, with its session as it was. `Ok` is committed, for good and
    /// before any successor's claim; if the connection broke right after that, it is closed.
    ///
    /// When somebody has the lease's row locked, the fence waits for it, up to the lease's attempt. The answer is awaited for one ttl, and
    /// when the lease is lost meanwhile, for half of the grace.
    ///
    /// # Errors
    ///
    /// - [`Lost`](GuardError::Lost): nothing is committed.
    /// - [`Unknown`](GuardError::Unknown): the commit was sent, and no answer came; or the connection ended in the middle of a
    ///   prepared statement.
    /// - [`Ended`](GuardError::Ended): a statement of the program's had ended the transaction before.
    /// - [`Failed`](GuardError::Failed): it is rolled back; also when the server had rolled it back before (a deadlock), and
    ///   when a statement had failed whose answer nobody has read. As [`Other`](ErrorKind::Other) when the connection has ended and
    ///   one of the bounds may have done that.
    ///
    /// After an error the connection is dropped, which gives it back to its pool, if it is as it was, else closed for good.
    ///
    /// Dropping the future closes the connection; the transaction is committed or not.
    pub async fn commit(mut self) -> Result<Conn, GuardError> {
        let mut settled = self.settle().await;
        if let Err(Stop::Driver(Error::Server(error))) = settled {
            // A failure that nobody has read; what it has ended is said first.
            settled = self.settle().await.and(Err(Stop::Driver(Error::Server(error))));
        }
        if let Err(stop) = settled {
            let error = self.guard_error(stop);
            return Err(self.give_up(error).await);
        }
        if self.table.is_none() {
            verify(&self.store, &self.tenure).await?;
        }
        let guarding = self.lend_guarding()?;
        guarding.commit_begins()?;
        self.take_back(guarding);
        let (limit, mut waited) = (self.limit(), None);
        loop {
            let Some(answered) = self.send_commit().await else {
                let message = "the commit was not answered in time, or before the lease was lost";
                return Err(GuardError::Unknown(StoreError::new(ErrorKind::Timeout, message)));
            };
            let error = match (answered, waited.take()) {
                (Outcome::Committed, _) => {
                    // Nobody else has ended it, for the commit had begun.
                    self.lend_guarding()?.over()?;
                    return Ok(self.client.take());
                }
                (Outcome::Waited(error), _) => match self.check() {
                    Ok(()) if limit.left().is_zero() => GuardError::Failed(error),
                    Ok(()) => {
                        waited = Some(error);
                        continue;
                    }
                    Err(lost) => lost,
                },
                // With innodb_rollback_on_timeout the wait has undone all.
                (Outcome::Not(GuardError::Ended(_)), Some(error)) => GuardError::Failed(error),
                (Outcome::Not(error), _) => error,
            };
            return Err(self.give_up(error).await);
        }
    }

    /// Rolls back, in one round trip, and gives the connection back, with its session as it was.
    ///
    /// # Errors
    ///
    /// Nothing is committed, but by [`Ended`](GuardError::Ended).
    ///
    /// - [`Lost`](GuardError::Lost): the session is being ended.
    /// - [`Ended`](GuardError::Ended): a statement of the program's had ended the transaction before.
    /// - [`Failed`](GuardError::Failed): no answer came within the lease's attempt, or the connection has ended.
    ///
    /// After an error, and when the future is dropped, the connection is closed.
    pub async fn rollback(mut self) -> Result<Conn, GuardError> {
        let limit = self.limit();
        let undone = limit.bound(async { Ok(self.undo().await) }).await;
        undone.map_err(|error| GuardError::Failed(error.without_effect()))??;
        self.lend_guarding()?.over()?;
        Ok(self.client.take())
    }

    /// The tenure of the lease.
    pub fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// Whether the lease is held, by the local clock.
    pub(super) fn check(&self) -> Result<(), GuardError> {
        if self.tenure.check() {
            return Ok(());
        }
        let unnoticed = LossReason::Deadline { last_error: None };
        Err(GuardError::Lost(self.tenure.reason().unwrap_or(unnoticed)))
    }

    /// Whether a statement may be sent. What is left of an earlier result is read first.
    async fn settle(&mut self) -> Result<(), Stop> {
        self.check().map_err(Stop::Guard)?;
        if self.client.get().is_disconnected() {
            let message = "its connection has ended, or a statement on it was dropped before it was answered";
            let error = StoreError::new(ErrorKind::Unavailable, message).without_effect();
            return Err(Stop::Guard(self.failed(error)));
        }
        if self.over.is_none() {
            self.client.read_to_the_end().await.map_err(Stop::Driver)?;
            match (self.client.is_open(), self.answer.last_word) {
                (Some(true), _) | (Some(false), LastWord::Prepared) => {}
                (Some(false), LastWord::Answer) => self.over = Some(Over::ByStatement),
                _ => self.over = self.what_became().await.map_err(Stop::Driver)?,
            }
        }
        if let Some(over) = self.over {
            return Err(Stop::Guard(over.into()));
        }
        self.check().map_err(Stop::Guard)
    }

    /// Whether a statement that has failed has ended the transaction.
    async fn what_became(&mut self) -> Result<Option<Over>, Error> {
        let mut flight = vec![sql::WHAT_FAILED.to_owned()];
        if self.answer.is_prepared {
            flight.extend(sql::COMMITTERS.map(str::to_owned));
        }
        let Answered { answers, error } = self.client.send(&flight).await;
        if let Some(error) = error {
            return Err(error);
        }
        self.answer.last_word = LastWord::Answer;
        if self.client.is_open() == Some(true) {
            return Ok(None);
        }
        let rows = |index: usize| answers.get(index).map_or(&[][..], |answer| &answer.rows);
        let listed = rows(0).first().and_then(|row| integer(row, 1, "", "Code").ok()?.try_into().ok());
        let can_have_committed = self.can_have_committed || self.answer.is_prepared && rows(3).len() != 1;
        // The list can be of no length.
        let rolled_back = self.answer.failed_with.or(listed);
        let rolled_back = rolled_back.filter(|number| error::is_contention(*number) && !can_have_committed);
        Ok(Some(rolled_back.map_or(Over::ByStatement, Over::ByServer)))
    }

    /// A failure before the commit was sent. It has rolled all back, unless something was committed by hand before.
    fn failed(&self, error: StoreError) -> GuardError {
        let is_answered = self.answer.last_word != LastWord::Unknown || self.answer.failed_with.is_some();
        if error.kind().retry_helps() {
            if self.can_have_committed {
                let message = format!("after a statement that may have committed: {error}");
                return GuardError::Ended(StoreError::new(error.kind(), message).with_source(error));
            }
            if self.answer.is_prepared && !is_answered {
                // Nobody but the driver knows whether it was one that commits.
                let message = format!("in the middle of a prepared statement: {error}");
                return GuardError::Unknown(StoreError::new(error.kind(), message).with_source(error));
            }
        }
        let age = self.store.clock().now().since(self.begun);
        let is_bounded = self.bounds.tightest().is_some_and(|tightest| age >= tightest);
        if is_bounded && error.kind() == ErrorKind::Unavailable {
            // A job that is slow would be run again for ever.
            let message = format!("{error}; if by one of its bounds, raise that or shorten the pause");
            return GuardError::Failed(
                StoreError::new(ErrorKind::Other, message).with_source(error).without_effect(),
            );
        }
        GuardError::Failed(error)
    }

    fn guard_error(&self, stop: Stop) -> GuardError {
        match stop {
            Stop::Guard(error) => error,
            Stop::Driver(error) => self.failed(of_statement(error).without_effect()),
        }
    }

    /// Notes that a text is about to be sent.
    fn sends(&mut self, can_commit: bool) {
        self.answer = LastAnswer { last_word: LastWord::Unknown, failed_with: None, is_prepared: false };
        self.can_have_committed |= can_commit;
    }

    fn sends_prepared(&mut self) {
        self.sends(false);
        self.answer.is_prepared = true;
    }

    /// Rolls back, and says what had come before.
    async fn undo(&mut self) -> Result<(), GuardError> {
        let mut settled = self.settle().await;
        if let Err(Stop::Driver(Error::Server(_))) = settled {
            // Whatever it was, it is undone as well, if it has not ended the transaction.
            settled = self.settle().await;
        }
        let mut flight = sql::roll_back_guarded(&self.mark, self.client.has_snapshot());
        match settled {
            Ok(()) => flight.insert(0, sql::undo_guarded(&self.mark)),
            Err(Stop::Guard(GuardError::Failed(_))) if self.over.is_some() => {}
            Err(stop) => return Err(self.guard_error(stop)),
        }
        match self.client.send(&flight).await.error {
            None => Ok(()),
            Some(Error::Server(error)) if error.code == error::NO_SAVEPOINT => Err(Over::ByStatement.into()),
            Some(error) => Err(self.failed(of_statement(error).without_effect())),
        }
    }

    /// Gives the connection back if it can be made what it was, for this error; else closes it.
    async fn give_up(mut self, error: GuardError) -> GuardError {
        // Nobody knows what a session is in whose transaction was ended by hand: its tables can be locked.
        let is_sound = matches!(error, GuardError::Lost(_) | GuardError::Failed(_));
        if is_sound && !self.client.get().is_disconnected() && self.check().is_ok() {
            let (limit, Self { client, mark, .. }) = (self.limit(), &mut self);
            let undone = limit.bound(async { Ok(client.undo(mark).await) }).await.is_ok_and(|undone| undone);
            // Unless the session is being ended.
            if undone && self.lend_guarding().and_then(Guarding::over).is_ok() {
                drop(self.client.take());
            }
        }
        error
    }

    /// Sends the commit; `None` when the lease is lost meanwhile and half of the grace has passed, or one ttl.
    async fn send_commit(&mut self) -> Option<Outcome> {
        let fence = self.table.as_deref().map(|table| {
            let (name, holder) = (self.tenure.name().as_str(), self.tenure.holder().hex());
            sql::fence(table, &sql::hex(name), &sql::hex(holder.as_str()))
        });
        let flight = sql::commit_guarded(fence, &self.mark, self.client.has_snapshot());
        let commit = flight.iter().position(|statement| statement == sql::COMMIT_GUARDED).unwrap_or_default();
        let (clock, timings) = (self.store.clock(), self.tenure.timings());
        let at_the_latest = clock.now() + timings.ttl();
        let too_late = async {
            tokio::select! {
                _ = self.tenure.lost() => sleep_until(clock, clock.now() + timings.grace() / 2).await,
                // No renewal passes a fence: a commit that took so long on the server would have lost the lease.
                () = sleep_until(clock, at_the_latest) => {}
            }
        };
        let Answered { answers, error } = tokio::select! {
            biased;
            answered = self.client.send(&flight) => answered,
            () = too_late => return None,
        };
        Some(match error {
            None => Outcome::Committed,
            Some(error) => self.judge(answers.len(), commit, error).await,
        })
    }

    /// What became of a commit of whose flight so many statements were answered before the error.
    async fn judge(&mut self, answered: usize, commit: usize, error: Error) -> Outcome {
        let by_server = match &error {
            Error::Server(error) => Some(error.code),
            _ => None,
        };
        // The server's last word that came was that no transaction is open any more.
        let was_told = by_server.is_none() && answered == commit && self.client.is_open() == Some(false);
        if answered > commit || was_told {
            if by_server.is_some() {
                // Only its session is not as it was. Nobody is to have that, so it ends itself.
                self.client.send(&["KILL CONNECTION CONNECTION_ID()".to_owned()]).await;
            }
            return Outcome::Committed;
        }
        let failed = of_statement(error);
        match by_server {
            Some(Fence::LOST) if answered < commit => Outcome::Not(GuardError::Lost(LossReason::Refused)),
            Some(error::NO_SAVEPOINT) if answered < commit => Outcome::Not(Over::ByStatement.into()),
            Some(error::LOCK_WAIT_TIMEOUT) if answered < commit => Outcome::Waited(failed.without_effect()),
            // The server runs nothing behind what has failed.
            Some(_) if answered < commit => Outcome::Not(self.failed(failed.without_effect())),
            _ if failed.effect() == Effect::Unknown => Outcome::Not(GuardError::Unknown(failed)),
            _ => Outcome::Not(GuardError::Failed(failed)),
        }
    }

    fn limit(&self) -> Limit {
        self.store.limit(self.tenure.timings().attempt())
    }
}

/// What became of a commit.
enum Outcome {
    Committed,
    /// Somebody has the lease's row locked.
    Waited(StoreError),
    Not(GuardError),
}

fn of_statement(error: Error) -> StoreError {
    Failure::from(error).into()
}

impl From<Over> for GuardError {
    fn from(over: Over) -> Self {
        match over {
            Over::ByStatement => {
                let error = StoreError::new(ErrorKind::Other, "it was no longer open");
                Self::Ended(error.with_advice("leave COMMIT and ROLLBACK to the guard, and DDL out of it"))
            }
            Over::ByServer(number) => {
                let message =
                    format!("the server rolled it back because of other transactions (error {number})");
                Self::Failed(StoreError::new(ErrorKind::Busy, message).without_effect())
            }
        }
    }
}

impl From<Stop> for Error {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Guard(error) => Self::Other(Box::new(error)),
            Stop::Driver(error) => error,
        }
    }
}

/// What the connection says of itself and of its last statement. Nothing is sent by it.
impl Deref for Guarded {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        self.client.get()
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").field("guarding", &self.guarding).finish_non_exhaustive()
    }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

impl Queryable for Guarded {
    fn ping(&mut self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.settle().await?;
            self.client.get_mut().ping().await
        })
    }

    fn query_iter<'a, Q>(&'a mut self, query: Q) -> Answer<'a, QueryResult<'a, 'static, TextProtocol>>
    where
        Q: AsQuery + 'a,
    {
        Box::pin(async move {
            self.settle().await?;
            self.sends(can_commit(&query.as_query()));
            let Self { client, answer, .. } = self;
            answer.note(client.get_mut().query_iter(query).await)
        })
    }

    fn prep<'a, Q>(&'a mut self, query: Q) -> Answer<'a, Statement>
    where
        Q: AsQuery + 'a,
    {
        Box::pin(async move {
            self.settle().await?;
            self.sends(false);
            let statement = self.client.get_mut().prep(query).await?;
            self.answer.last_word = LastWord::Prepared;
            Ok(statement)
        })
    }

    fn close(&mut self, statement: Statement) -> Answer<'_, ()> {
        Box::pin(async move {
            self.settle().await?;
            self.client.get_mut().close(statement).await
        })
    }

    fn exec_iter<'a: 's, 's, Q, P>(
        &'a mut self,
        statement: Q,
        params: P,
    ) -> Answer<'s, QueryResult<'a, 'static, BinaryProtocol>>
    where
        Q: StatementLike + 's,
        P: Into<Params>,
    {
        let params = params.into();
        Box::pin(async move {
            self.settle().await?;
            self.sends_prepared();
            let Self { client, answer, .. } = self;
            answer.note(client.get_mut().exec_iter(statement, params).await)
        })
    }

    fn exec_batch<'a: 'b, 'b, S, P, I>(&'a mut self, statement: S, params: I) -> Answer<'b, ()>
    where
        S: StatementLike + 'b,
        I: IntoIterator<Item = P> + Send + 'b,
        I::IntoIter: Send,
        P: Into<Params> + Send,
    {
        Box::pin(async move {
            self.settle().await?;
            self.sends_prepared();
            let mut is_run = false;
            let params = params.into_iter().inspect(|_| is_run = true);
            let Self { client, answer, .. } = self;
            answer.note(client.get_mut().exec_batch(statement, params).await)?;
            if !is_run {
                answer.last_word = LastWord::Prepared;
            }
            Ok(())
        })
    }
}

impl<'a> ToConnection<'a, 'static> for &'a mut Guarded {
    fn to_connection(self) -> ToConnectionResult<'a, 'static> {
        ToConnectionResult::Mediate(Box::pin(async move {
            self.settle().await?;
            // Nobody sees what that sends, nor how it ends.
            self.sends(true);
            Ok(self.client.get_mut().into())
        }))
    }
}
