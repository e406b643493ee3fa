//! One connection: asked in one flight.

use std::time::Duration;

use futures_util::future::join3;
use lease_core::ErrorKind;
use lease_core::store::{Effect, Limit, StoreError};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row};

use crate::error::{self, of_statement};
use crate::row::Question;
use crate::sql;

/// A connection of our own.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// Which it was when it was made.
    pub(crate) generation: u64,
}

/// An answer, and whether the connection can be used again.
pub(crate) struct Asked {
    pub(crate) answer: Result<Vec<Row>, StoreError>,
    pub(crate) clean: bool,
}

/// Asks in one flight that begins and ends a transaction, and leaves nothing behind in the session: no
/// setting, and no prepared statement, which has a name that another process behind the same pooler gives to
/// another statement.
pub(crate) async fn ask(client: &Client, limit: &Limit, question: &Question) -> Asked {
    let (beginning, typed) = (beginning(limit), question.typed());
    let (begun, answer, ended) = join3(
        client.batch_execute(&beginning),
        client.query_typed(&question.sql, &typed),
        client.batch_execute(sql::COMMIT),
    )
    .await;
    match (begun, answer, ended) {
        (Ok(()), Ok(rows), Ok(())) => Asked { answer: Ok(rows), clean: true },
        // The commit of a transaction that has failed is its end.
        (Ok(()), Err(error), ended) => failed(of_statement(error), ended.is_ok()),
        (Ok(()), Ok(_), Err(error)) => failed(of_statement(error), true),
        // Where the transaction could not begin, the statement stood alone, or among what had failed.
        (Err(error), answer, _) => {
            let stood_alone = answer.map_err(of_statement);
            let error = of_begin(error);
            let harmless = stood_alone.is_err_and(|error| error.effect() == Effect::None);
            failed(if harmless { error } else { unknown(&error) }, false)
        }
    }
}

/// Begins a transaction in which no wait for a lock outlasts the limit.
pub(crate) async fn begin(client: &Client, limit: &Limit) -> Result<(), StoreError> {
    client.batch_execute(&beginning(limit)).await.map_err(of_begin)
}

fn beginning(limit: &Limit) -> String {
    sql::begin(lock_timeout(limit.left()))
}

/// In milliseconds: below the time left, at least 1, for 0 would be no bound at all, and at most what the setting
/// can hold.
fn lock_timeout(left: Duration) -> u128 {
    (left / 4 * 3).as_millis().clamp(1, i32::MAX as u128)
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

fn failed(error: StoreError, clean: bool) -> Asked {
    let clean = clean && error::leaves_connection(&error);
    Asked { answer: Err(error), clean }
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
        assert_eq!(lock_timeout(Duration::MAX), 2_147_483_647);
    }
}
