//! A transaction that is open, and its end.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;

use lease_core::clock::sleep_until;
use lease_core::guard::{GuardError, Guarding};
use lease_core::store::{Effect, Limit, StoreError};
use lease_core::{ErrorKind, LossReason, Tenure};
use mysql_async::prelude::{AsQuery, Queryable, StatementLike, ToConnection};
use mysql_async::{
    BinaryProtocol, Conn, Error, Params, QueryResult, Statement, TextProtocol, ToConnectionResult,
};

use super::client::{Answered, Held};
use super::verify;
use crate::error::{self, Failure};
use crate::fence::Fence;
use crate::row::{Flight, integer};
use crate::store::held_by;
use crate::{MysqlStore, sql};

/// An open transaction, which does not commit after a successor's claim. It owns the connection, and is what the program queries:
/// by [`Queryable`], or by `"...".with(...).run(&mut transaction)`.
///
/// Savepoints are as always. A statement that ends the transaction (`COMMIT`, `ROLLBACK`, `START TRANSACTION`, or one that commits
/// implicitly, as DDL does) ends the promise: nothing more is sent, and [`commit`](Self::commit) says so. What
/// stands behind it in the same text is run, and never committed unless that text does it.
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
    elsewhere: bool,
    last_word: LastWord,
    /// What has ended it before its commit.
    over: Option<Over>,
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

const UNTIL_ITS_END: &str = "there until the transaction ends";

impl Guarded {
    pub(super) fn new(
        client: Held,
        guarding: Guarding,
        store: MysqlStore,
        mark: String,
        elsewhere: bool,
    ) -> Self {
        let tenure = guarding.tenure().clone();
        Self {
            client,
            guarding: Some(guarding),
            tenure,
            store,
            mark,
            elsewhere,
            last_word: LastWord::Answer,
            over: None,
        }
    }

    pub(super) fn lend_guarding(&mut self) -> Guarding {
        self.guarding.take().expect(UNTIL_ITS_END)
    }

    pub(super) fn take_back(&mut self, guarding: Guarding) {
        self.guarding = Some(guarding);
    }

    /// Commits, in one round trip, and gives the connection back, with its session as it was. `Ok` is committed, for good and
    /// before any successor's claim; if the connection broke right after that, it is closed.
    ///
    /// When somebody has the lease's row locked, the fence waits for it, up to the lease's attempt. When the lease is lost meanwhile, the
    /// answer is awaited for half of the grace.
    ///
    /// # Errors
    ///
    /// - [`Lost`](GuardError::Lost): nothing is committed.
    /// - [`Unknown`](GuardError::Unknown): the commit was sent, and no answer came.
    /// - [`Ended`](GuardError::Ended): a statement of the program's had ended the transaction before.
    /// - [`Failed`](GuardError::Failed): it is rolled back; also when the server had rolled it back before (a deadlock), and
    ///   when a statement had failed whose answer nobody has read.
    ///
    /// After an error the connection is dropped, which gives it back to its pool, if it is as it was, else closed for good.
    ///
    /// Dropping the future closes the connection; the transaction is committed or not.
    pub async fn commit(mut self) -> Result<Conn, GuardError> {
        if let Err(stop) = self.settle().await {
            let error = GuardError::from(stop);
            return Err(self.give_up(error).await);
        }
        if self.elsewhere {
            verify(&self.store, &self.tenure).await?;
        }
        let guarding = self.lend_guarding();
        guarding.commit_begins()?;
        self.take_back(guarding);
        let limit = self.limit();
        loop {
            let Some(answered) = self.send_commit().await else {
                let message = "the commit was not answered before the lease was lost";
                return Err(GuardError::Unknown(StoreError::new(ErrorKind::Timeout, message)));
            };
            let error = match answered {
                Outcome::Committed => {
                    // Nobody else has ended it, for the commit had begun.
                    drop(self.lend_guarding().over());
                    return Ok(self.client.take());
                }
                Outcome::Waited(error) => match self.check() {
                    Ok(()) if limit.left().is_zero() => GuardError::Failed(error),
                    Ok(()) => continue,
                    Err(lost) => lost,
                },
                Outcome::Not(error) => error,
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
        self.lend_guarding().over()?;
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
            return Err(Stop::Guard(GuardError::Failed(error)));
        }
        if self.over.is_none() {
            self.client.read_to_the_end().await.map_err(Stop::Driver)?;
            match (self.client.is_open(), self.last_word) {
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
        let Answered { answers, error } = self.client.send(&[sql::WHAT_FAILED.to_owned()]).await;
        if let Some(error) = error {
            return Err(error);
        }
        self.last_word = LastWord::Answer;
        if self.client.is_open() == Some(true) {
            return Ok(None);
        }
        let number = answers.first().and_then(|answer| answer.rows.first());
        let number = number.and_then(|row| integer(row, 1, "", "Code").ok()?.try_into().ok());
        let rolled_back = number.filter(|number| error::is_contention(*number));
        Ok(Some(rolled_back.map_or(Over::ByStatement, Over::ByServer)))
    }

    /// Rolls back, and says what had come before.
    async fn undo(&mut self) -> Result<(), GuardError> {
        let mut settled = self.settle().await;
        if let Err(Stop::Driver(Error::Server(_))) = settled {
            // Whatever it was, it is undone as well, if it has not ended the transaction.
            settled = self.settle().await;
        }
        let mut flight = sql::roll_back_guarded(&self.mark);
        match settled {
            Ok(()) => flight.insert(0, sql::undo_guarded(&self.mark)),
            Err(Stop::Guard(GuardError::Failed(_))) if self.over.is_some() => {}
            Err(stop) => return Err(stop.into()),
        }
        match self.client.send(&flight).await.error {
            None => Ok(()),
            Some(Error::Server(error)) if error.code == error::NO_SAVEPOINT => Err(Over::ByStatement.into()),
            Some(error) => Err(GuardError::Failed(of_statement(error).without_effect())),
        }
    }

    /// Gives the connection back if it can be made what it was, for this error; else closes it.
    async fn give_up(mut self, error: GuardError) -> GuardError {
        // Nobody knows what a session is in whose transaction was ended by hand: its tables can be locked.
        let is_sound = matches!(error, GuardError::Lost(_) | GuardError::Failed(_));
        if is_sound && !self.client.get().is_disconnected() && self.check().is_ok() {
            let (limit, Self { client, mark, .. }) = (self.limit(), &mut self);
            if limit.bound(async { Ok(client.undo(mark).await) }).await.is_ok_and(|undone| undone) {
                drop(self.lend_guarding().over());
                drop(self.client.take());
            }
        }
        error
    }

    /// Sends the commit; `None` when the lease is lost meanwhile and half of the grace has passed.
    async fn send_commit(&mut self) -> Option<Outcome> {
        let fence = (!self.elsewhere).then(|| {
            let held = held_by(self.tenure.name(), &self.tenure.holder());
            Flight::one(sql::fence(self.store.table()), held).written_out().concat()
        });
        let flight = sql::commit_guarded(fence, &self.mark);
        let commit = flight.iter().position(|statement| statement == sql::COMMIT_GUARDED).unwrap_or_default();
        let clock = self.store.clock();
        let too_late = async {
            self.tenure.lost().await;
            sleep_until(clock, clock.now() + self.tenure.timings().grace() / 2).await;
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
            Some(_) if answered < commit => Outcome::Not(GuardError::Failed(failed.without_effect())),
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
                let message =
                    "it was no longer open; leave COMMIT and ROLLBACK to the guard, and DDL out of it";
                Self::Ended(StoreError::new(ErrorKind::Other, message))
            }
            Over::ByServer(number) => {
                let message =
                    format!("the server rolled it back because of other transactions (error {number})");
                Self::Failed(StoreError::new(ErrorKind::Busy, message).without_effect())
            }
        }
    }
}

impl From<Stop> for GuardError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Guard(error) => error,
            Stop::Driver(error) => Self::Failed(of_statement(error).without_effect()),
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
            self.last_word = LastWord::Unknown;
            let Self { client, last_word, .. } = self;
            let result = client.get_mut().query_iter(query).await?;
            *last_word = LastWord::Answer;
            Ok(result)
        })
    }

    fn prep<'a, Q>(&'a mut self, query: Q) -> Answer<'a, Statement>
    where
        Q: AsQuery + 'a,
    {
        Box::pin(async move {
            self.settle().await?;
            self.last_word = LastWord::Unknown;
            let statement = self.client.get_mut().prep(query).await?;
            self.last_word = LastWord::Prepared;
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
            self.last_word = LastWord::Unknown;
            let Self { client, last_word, .. } = self;
            let result = client.get_mut().exec_iter(statement, params).await?;
            *last_word = LastWord::Answer;
            Ok(result)
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
            self.last_word = LastWord::Unknown;
            self.client.get_mut().exec_batch(statement, params).await?;
            self.last_word = LastWord::Answer;
            Ok(())
        })
    }
}

impl<'a> ToConnection<'a, 'static> for &'a mut Guarded {
    fn to_connection(self) -> ToConnectionResult<'a, 'static> {
        ToConnectionResult::Mediate(Box::pin(async move {
            self.settle().await?;
            // Nobody sees how that ends.
            self.last_word = LastWord::Unknown;
            Ok(self.client.get_mut().into())
        }))
    }
}
