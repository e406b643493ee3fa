//! One connection: asked in one flight.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join3;
use lease_core::store::{Effect, Limit, StoreError};
use lease_core::{ErrorKind, Holder};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row, Statement};

use crate::error::{self, of_statement};
use crate::opener::Driven;
use crate::row::Question;
use crate::sql;

/// A connection of our own.
pub(crate) struct Connection {
    pub(crate) client: Driven,
    /// Which it was when it was made.
    pub(crate) generation: u64,
    /// `None` behind a pooler, where sessions are shared with others.
    pub(crate) session: Option<Session>,
}

/// What is kept in a session that is ours alone.
pub(crate) struct Session {
    mark: String,
    prepared: HashMap<String, Statement>,
    /// Raised when the session turns out to be others' as well: then none keeps anything from now on.
    are_shared: Arc<AtomicBool>,
}

impl Session {
    /// One that will bear a mark of its own, which no other has.
    pub(crate) fn new(are_shared: Arc<AtomicBool>) -> Result<Self, StoreError> {
        let mark = Holder::mint().map_err(|error| {
            StoreError::new(ErrorKind::Other, "the system's random source cannot be read")
                .with_source(error)
                .without_effect()
        })?;
        Ok(Self { mark: mark.to_string(), prepared: HashMap::new(), are_shared })
    }

    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }
}

/// An answer, and whether the connection can be used again.
pub(crate) struct Asked {
    pub(crate) answer: Result<Vec<Row>, StoreError>,
    pub(crate) clean: bool,
}

impl Connection {
    /// Asks in one flight. A statement that is new to the session is prepared in one before.
    pub(crate) async fn ask(&mut self, limit: &Limit, question: &Question) -> Asked {
        let Some(session) = &mut self.session else { return ask(&self.client, limit, question).await };
        let flown = session.ask(&self.client, limit, question).await;
        match &flown {
            Err((error, _)) if is_of_a_shared_session(error) => {
                session.are_shared.store(true, Ordering::Relaxed);
                let message = "a pooler gives the session to others in turn";
                let error = StoreError::new(ErrorKind::Unavailable, message).without_effect();
                Asked { answer: Err(error), clean: false }
            }
            _ => Asked::of(flown),
        }
    }
}

impl Session {
    async fn ask(
        &mut self,
        client: &Client,
        limit: &Limit,
        question: &Question,
    ) -> Result<Vec<Row>, (StoreError, bool)> {
        let mark = Some(self.mark.as_str());
        if !self.prepared.contains_key(&question.sql) {
            let types = question.types();
            let preparing = flight(client, limit, mark, client.prepare_typed(&question.sql, &types)).await;
            // Nothing was asked yet.
            let statement = preparing.map_err(|(error, clean)| (error.without_effect(), clean))?;
            self.prepared.insert(question.sql.clone(), statement);
        }
        let values = question.values();
        flight(client, limit, mark, client.query(&self.prepared[&question.sql], &values)).await
    }
}

/// Whether the session does not bear our mark, or has a name of ours for a statement of another's, or not at all. All of
/// them end a flight before anything has been run in it.
fn is_of_a_shared_session(error: &StoreError) -> bool {
    let driver =
        std::error::Error::source(error).and_then(|source| source.downcast_ref::<tokio_postgres::Error>());
    let codes =
        [SqlState::DIVISION_BY_ZERO, SqlState::DUPLICATE_PSTATEMENT, SqlState::INVALID_SQL_STATEMENT_NAME];
    driver.and_then(tokio_postgres::Error::code).is_some_and(|code| codes.contains(code))
}

/// Asks in one flight, and leaves nothing behind in the session: no setting, and no prepared statement.
pub(crate) async fn ask(client: &Client, limit: &Limit, question: &Question) -> Asked {
    let typed = question.typed();
    Asked::of(flight(client, limit, None, client.query_typed(&question.sql, &typed)).await)
}

impl Asked {
    fn of(flown: Result<Vec<Row>, (StoreError, bool)>) -> Self {
        match flown {
            Ok(rows) => Self { answer: Ok(rows), clean: true },
            Err((error, clean)) => Self { answer: Err(error), clean },
        }
    }
}

/// Begins a transaction, runs a statement in it and ends it, in one flight. An error comes with whether the connection can
/// be used again.
async fn flight<T>(
    client: &Client,
    limit: &Limit,
    mark: Option<&str>,
    statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, (StoreError, bool)> {
    let beginning = sql::begin(lock_timeout(limit.left()), mark);
    let (begun, answer, ended) =
        join3(client.batch_execute(&beginning), statement, client.batch_execute(sql::COMMIT)).await;
    match (begun, answer, ended) {
        (Ok(()), Ok(answer), Ok(())) => Ok(answer),
        // The commit of a transaction that has failed is its end.
        (Ok(()), Err(error), ended) => Err(failed(of_statement(error), ended.is_ok())),
        (Ok(()), Ok(_), Err(error)) => Err(failed(of_statement(error), true)),
        // Where the transaction could not begin, the statement stood alone, or among what had failed.
        (Err(error), answer, _) => {
            let stood_alone = answer.map_err(of_statement);
            let error = of_begin(error);
            let harmless = stood_alone.is_err_and(|error| error.effect() == Effect::None);
            Err(failed(if harmless { error } else { unknown(&error) }, false))
        }
    }
}

/// Begins a transaction in which no wait for a lock outlasts the limit.
pub(crate) async fn begin(client: &Client, limit: &Limit) -> Result<(), StoreError> {
    client.batch_execute(&sql::begin(lock_timeout(limit.left()), None)).await.map_err(of_begin)
}

/// Tells other sessions, in one message. After an error the connection is not to be used again.
pub(crate) async fn announce(
    client: &Client,
    limit: &Limit,
    announcements: &[String],
) -> Result<(), StoreError> {
    let message = sql::announce(announcements, lock_timeout(limit.left()));
    client.batch_execute(&message).await.map_err(of_begin)
}

/// In milliseconds: below the time left, at least 1, for 0 would be no bound at all, and at most what the setting
/// can hold. Of two digits: `pg_stat_statements` keeps each text that sets another as one more.
pub(crate) fn lock_timeout(left: Duration) -> u128 {
    let ms = (left / 4 * 3).as_millis().clamp(1, i32::MAX as u128);
    let unit = 10_u128.pow(ms.ilog10().saturating_sub(1));
    ms / unit * unit
}

fn of_begin(error: tokio_postgres::Error) -> StoreError {
    match error.code() {
        // What a standby says to READ WRITE.
        Some(&SqlState::FEATURE_NOT_SUPPORTED) => is_standby().with_source(error),
        // What is said in a transaction that is under way.
        Some(
            &SqlState::INVALID_PARAMETER_VALUE
            | &SqlState::ACTIVE_SQL_TRANSACTION
            | &SqlState::IN_FAILED_SQL_TRANSACTION,
        ) => {
            let message =
                "the pool gave out a connection whose transaction had been left open; it was closed";
            StoreError::new(ErrorKind::Unavailable, message).with_source(error).without_effect()
        }
        _ => of_statement(error),
    }
}

pub(crate) fn is_standby() -> StoreError {
    let message = "the server is a standby (in recovery); leases need the primary";
    StoreError::new(ErrorKind::ReadOnly, message).without_effect()
}

fn failed(error: StoreError, clean: bool) -> (StoreError, bool) {
    let clean = clean && error::leaves_connection(&error);
    (error, clean)
}

/// The same error of a statement that may have gone through.
fn unknown(error: &StoreError) -> StoreError {
    StoreError::new(error.kind(), error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_lock_is_bounded_below_the_time_left_and_never_unbounded() {
        assert_eq!(lock_timeout(Duration::from_secs(4)), 3_000);
        assert_eq!(lock_timeout(Duration::ZERO), 1);
        assert_eq!(lock_timeout(Duration::MAX), 2_100_000_000);
        assert_eq!(lock_timeout(Duration::from_millis(4_499)), 3_300);
        for ms in 0..20_000 {
            let (left, bound) = (Duration::from_millis(ms), lock_timeout(Duration::from_millis(ms)));
            assert!(
                bound <= left.as_millis().max(1) && bound >= (left * 2 / 3).as_millis().max(1),
                "{ms} {bound}"
            );
        }
    }
}
