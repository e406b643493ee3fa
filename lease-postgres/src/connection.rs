//! One connection: asked in one message.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lease_core::store::{Limit, StoreError};
use lease_core::{ErrorKind, Holder};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::error::{USE_PRIMARY, leaves_connection, of_statement};
use crate::opener::Driven;
use crate::row::{Question, Row};
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
    /// What no other has in its names.
    mark: String,
    /// Whether its defaults are not what statements need.
    needs_settings: bool,
    /// The numbers of the statements that are prepared.
    prepared: HashMap<String, usize>,
    /// The last number that was used.
    last: usize,
    /// Raised when the session turns out to be others' as well: then none keeps anything from now on.
    are_shared: Arc<AtomicBool>,
}

impl Session {
    pub(crate) fn new(are_shared: Arc<AtomicBool>) -> Result<Self, StoreError> {
        let mark = Holder::mint().map_err(|error| {
            StoreError::new(ErrorKind::Other, "the system's random source cannot be read")
                .with_source(error)
                .without_effect()
        })?;
        Ok(Self {
            mark: mark.to_string(),
            needs_settings: false,
            prepared: HashMap::new(),
            last: 0,
            are_shared,
        })
    }

    pub(crate) fn with_settings(self, needs_settings: bool) -> Self {
        Self { needs_settings, ..self }
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
    /// Asks in one message. A statement that is new to the session is prepared by one before.
    pub(crate) async fn ask(&mut self, limit: &Limit, question: &Question) -> Asked {
        match &mut self.session {
            Some(session) => session.ask(&self.client, limit, question).await,
            None => ask(&self.client, limit, question).await,
        }
    }

    /// Runs what cannot be prepared, in a session that is ours alone.
    pub(crate) async fn say(&self, limit: &Limit, statement: &str) -> Asked {
        match &self.session {
            Some(session) => session.send(&self.client, limit, true, statement).await,
            None => Asked::refused(is_shared()),
        }
    }
}

impl Session {
    async fn ask(&mut self, client: &Client, limit: &Limit, question: &Question) -> Asked {
        if !question.is_kept() {
            return self.send(client, limit, true, &question.in_line()).await;
        }
        if !self.prepared.contains_key(&question.sql) {
            // Of its own for each try: what has failed may be prepared all the same, and stays under its name.
            self.last += 1;
            let prepare = sql::prepare(&self.mark, self.last, &question.types(), &question.sql);
            let asked = self.send(client, limit, self.needs_settings, &prepare).await;
            if asked.answer.is_err() {
                // Nothing was asked yet.
                return asked.without_effect();
            }
            self.prepared.insert(question.sql.clone(), self.last);
        }
        let run = sql::execute(&self.mark, self.prepared[&question.sql], &question.literals());
        self.send(client, limit, self.needs_settings, &run).await
    }

    /// Runs a statement behind the look at the session.
    async fn send(&self, client: &Client, limit: &Limit, with_settings: bool, statement: &str) -> Asked {
        let look = sql::look(&self.mark, lock_timeout(limit.left()), with_settings);
        match client.simple_query(&format!("{look}; {statement}")).await {
            Ok(messages) => Asked::answered(messages),
            Err(error) => self.refused(error, with_settings),
        }
    }

    fn refused(&self, error: tokio_postgres::Error, with_settings: bool) -> Asked {
        match error.as_db_error() {
            // Of the text it is the mark that counts, which the server has from us. Nothing has been run.
            Some(refused) if refused.message().contains(&self.mark) => {
                // Where the look knows the session, a setting is another than it was: a pooler's doing, or a configuration's that
                // was read again. The next connection finds out.
                if *refused.code() == SqlState::INVALID_PARAMETER_VALUE {
                    let message = "the settings of the session, which was closed, are not what they were";
                    let error = StoreError::new(ErrorKind::Unavailable, message).with_source(error);
                    return Asked { answer: Err(error.without_effect()), clean: false };
                }
                self.are_shared.store(true, Ordering::Relaxed);
                Asked::refused(is_shared())
            }
            _ if with_settings => Asked::refused(of_begin(error)),
            _ => Asked::refused(of_statement(error)),
        }
    }
}

/// The connection is not used again.
fn is_shared() -> StoreError {
    let message = "a pooler gives the session to others in turn";
    StoreError::new(ErrorKind::Unavailable, message).without_effect()
}

/// Asks in one message, and leaves nothing behind in the session: no setting, and no prepared statement.
pub(crate) async fn ask(client: &Client, limit: &Limit, question: &Question) -> Asked {
    let message = format!("{}; {}", sql::prologue(lock_timeout(limit.left())), question.in_line());
    match client.simple_query(&message).await {
        Ok(messages) => Asked::answered(messages),
        Err(error) => Asked::refused(of_begin(error)),
    }
}

/// Asks in the transaction that is open.
pub(crate) async fn tell(client: &Client, question: &Question) -> Result<Vec<Row>, StoreError> {
    client.simple_query(&question.in_line()).await.map(rows_of_last).map_err(of_statement)
}

impl Asked {
    fn answered(messages: Vec<SimpleQueryMessage>) -> Self {
        Self { answer: Ok(rows_of_last(messages)), clean: true }
    }

    fn refused(error: StoreError) -> Self {
        Self { clean: leaves_connection(&error), answer: Err(error) }
    }

    fn without_effect(self) -> Self {
        Self { answer: self.answer.map_err(StoreError::without_effect), ..self }
    }
}

/// The rows of the last statement in a message.
fn rows_of_last(messages: Vec<SimpleQueryMessage>) -> Vec<Row> {
    let (mut rows, mut has_ended) = (Vec::new(), false);
    for message in messages {
        if has_ended {
            rows.clear();
        }
        has_ended = matches!(message, SimpleQueryMessage::CommandComplete(_));
        if let SimpleQueryMessage::Row(row) = message {
            rows.push(row);
        }
    }
    rows
}

/// Begins a transaction in which no wait for a lock outlasts the limit.
pub(crate) async fn begin(client: &Client, limit: &Limit) -> Result<(), StoreError> {
    client.batch_execute(&sql::begin(lock_timeout(limit.left()))).await.map_err(of_begin)
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
        Some(code)
            if [SqlState::ACTIVE_SQL_TRANSACTION, SqlState::IN_FAILED_SQL_TRANSACTION].contains(code)
                || error.as_db_error().is_some_and(|error| error.message().contains(sql::LEFT_OPEN)) =>
        {
            let message =
                "the pool gave out a connection whose transaction had been left open, and which was closed";
            StoreError::new(ErrorKind::Unavailable, message)
                .with_advice("end every transaction before its connection goes back to the pool")
                .with_source(error)
                .without_effect()
        }
        _ => of_statement(error),
    }
}

pub(crate) fn is_standby() -> StoreError {
    let message = "the server is a standby (in recovery), which takes no writes";
    StoreError::new(ErrorKind::ReadOnly, message).with_advice(USE_PRIMARY).without_effect()
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
