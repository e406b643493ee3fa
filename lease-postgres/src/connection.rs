//! One connection: asked in one flight.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::{join, join3};
use lease_core::ErrorKind;
use lease_core::store::{Effect, Limit, StoreError};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row, Statement};

use crate::error::{self, of_statement};
use crate::row::Question;
use crate::sql;

/// A connection of our own.
pub(crate) struct Connection {
    client: Client,
    prepared: HashMap<String, Statement>,
    pooler: bool,
    /// What the session has, when we have set it.
    lock_timeout: Option<Duration>,
}

/// An answer, and whether the connection can be used again.
pub(crate) struct Asked {
    pub(crate) answer: Result<Vec<Row>, StoreError>,
    pub(crate) clean: bool,
}

impl Connection {
    /// `pooler`: the session is not ours alone.
    pub(crate) fn new(client: Client, pooler: bool) -> Self {
        Self { client, prepared: HashMap::new(), pooler, lock_timeout: None }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Asks in one flight. A statement that is new to the connection is prepared before.
    pub(crate) async fn ask(&mut self, limit: &Limit, question: &Question) -> Asked {
        if self.pooler {
            return ask_in_transaction(&self.client, limit, question).await;
        }
        let changed = changed_timeout(self.lock_timeout, limit.left());
        let client = &self.client;
        let setting = async {
            match changed {
                Some(time) => client.batch_execute(&sql::lock_timeout(millis(time))).await,
                None => Ok(()),
            }
        };
        let prepared = self.prepared.get(&question.sql).cloned();
        let is_new = prepared.is_none();
        let running = async {
            let statement = match prepared {
                Some(statement) => statement,
                None => client.prepare_typed(&question.sql, &question.types()).await?,
            };
            client.query(&statement, &question.values()).await.map(|rows| (statement, rows))
        };
        // Both are under way before either is answered.
        let (set, answer) = join(setting, running).await;
        match (answer, set) {
            (Ok((statement, rows)), Ok(())) => {
                self.lock_timeout = changed.or(self.lock_timeout);
                if is_new {
                    self.prepared.insert(question.sql.clone(), statement);
                }
                Asked { answer: Ok(rows), clean: true }
            }
            (Err(error), set) => failed(of_statement(error), set.is_ok()),
            (Ok(_), Err(error)) => failed(unknown(&of_statement(error)), false),
        }
    }
}

/// What begins a transaction in which no wait for a lock outlasts the limit.
pub(crate) fn begin(limit: &Limit) -> String {
    sql::begin(millis(most_of(limit.left())))
}

/// Asks in one flight that begins and ends a transaction, and leaves nothing behind in the session.
pub(crate) async fn ask_in_transaction(client: &Client, limit: &Limit, question: &Question) -> Asked {
    let (beginning, typed) = (begin(limit), question.typed());
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

fn of_begin(error: tokio_postgres::Error) -> StoreError {
    if error.code() != Some(&SqlState::FEATURE_NOT_SUPPORTED) {
        return of_statement(error);
    }
    // What a standby says to READ WRITE.
    is_standby().with_source(error)
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

/// The bound on a wait for a lock to set, if the one in force (`None`: nobody knows) is longer than the
/// time left, or much shorter. So it is set once where calls are given the same time again and again.
fn changed_timeout(in_force: Option<Duration>, left: Duration) -> Option<Duration> {
    let fits = in_force.is_some_and(|time| time <= left && time >= left / 2);
    (!fits).then(|| most_of(left))
}

fn most_of(left: Duration) -> Duration {
    left / 4 * 3
}

/// At least 1, for 0 would be no bound at all; at most what the setting can hold.
fn millis(time: Duration) -> u128 {
    time.as_millis().clamp(1, i32::MAX as u128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_on_a_lock_is_kept_while_it_is_below_the_time_left_and_not_much_below() {
        let ms = Duration::from_millis;
        assert_eq!(changed_timeout(None, ms(4_000)), Some(ms(3_000)));
        for left in [6_000, 4_000, 3_000] {
            assert_eq!(changed_timeout(Some(ms(3_000)), ms(left)), None, "{left}");
        }
        assert_eq!(changed_timeout(Some(ms(3_000)), ms(2_999)).map(millis), Some(2_249));
        assert_eq!(changed_timeout(Some(ms(3_000)), ms(6_001)).map(millis), Some(4_500));
        assert_eq!(millis(Duration::ZERO), 1);
        assert_eq!(millis(Duration::MAX), 2_147_483_647);
    }
}
