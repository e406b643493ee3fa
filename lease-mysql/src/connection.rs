//! A connection that is out of its pool, and what goes over it.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use deadpool::managed::Object;
use lease_core::ErrorKind;
use lease_core::store::{Identifier, StoreError};
use mysql_async::prelude::{Protocol, Queryable};
use mysql_async::{BinaryProtocol, Conn, DriverError, Error, Params, QueryResult, TextProtocol, Value};
use tokio::time::timeout;

use crate::error::{self, Failure};
use crate::opener::Opener;
use crate::row::{Answer, Flight};
use crate::sql;

/// What is done on one connection, about one table.
pub(crate) type Work = for<'a> fn(
    &'a mut Lent,
    &'a Identifier,
) -> Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send + 'a>>;

/// A connection that is out for a flight or more. Dropped before it is given back, it is closed, and if it was in the middle of a
/// flight none as old as it is lent any more.
pub(crate) struct Lent {
    out: Option<Out>,
    /// What the last flight says of it.
    state: State,
}

enum Out {
    Own(Object<Opener>),
    Borrowed(Conn),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// In order, and as its owner had it.
    Sound,
    /// In order, but a session of the user's is not as it was.
    Altered,
    /// In the middle of an answer, broken, or refused by the server.
    Broken,
}

impl Lent {
    pub(crate) fn own(object: Object<Opener>) -> Self {
        Self { out: Some(Out::Own(object)), state: State::Sound }
    }

    pub(crate) fn borrowed(conn: Conn) -> Self {
        Self { out: Some(Out::Borrowed(conn)), state: State::Sound }
    }

    /// Sends one flight; the answers, one for each statement.
    pub(crate) async fn ask(&mut self, flight: &Flight) -> Result<Vec<Answer>, StoreError> {
        // Until the answer is there: this future may be dropped.
        self.state = State::Broken;
        let (answers, undone) = match &mut self.out {
            Some(Out::Own(connection)) => (send(&mut connection.conn, flight).await, true),
            Some(Out::Borrowed(conn)) => match send_borrowed(conn, flight).await {
                Err(Error::Server(error)) => {
                    let undone = error.code != error::IN_TRANSACTION
                        && send_many(conn, &sql::UNDO.map(str::to_owned)).await.is_ok();
                    (Err(Error::Server(error)), undone)
                }
                answers => (answers, true),
            },
            None => (Err(DriverError::ConnectionClosed.into()), false),
        };
        let answers = match answers {
            Err(Error::Server(error)) if flight.is_refusal(error.code) => Ok(vec![Answer::default()]),
            answers => answers.map_err(|error| StoreError::from(Failure::from(error))),
        };
        self.state = match &answers {
            Err(error) if !leaves_it_sound(error) => State::Broken,
            _ if undone => State::Sound,
            _ => State::Altered,
        };
        answers
    }

    /// Whether a connection of the store's own answers within this time.
    pub(crate) async fn lives(&mut self, within: Duration) -> bool {
        self.state = State::Broken;
        if let Some(Out::Own(connection)) = &mut self.out
            && let Ok(Ok(())) = timeout(within, connection.conn.ping()).await
        {
            self.state = State::Sound;
        }
        self.state == State::Sound
    }

    /// For the next flight of somebody else, or to be closed, as the last flight ended.
    pub(crate) fn give_back(mut self) {
        if self.state == State::Sound {
            if let Some(Out::Own(connection)) = &mut self.out {
                connection.rest();
            }
            self.out = None;
        }
    }
}

/// Whether the server has refused a statement and would take another on the same connection.
fn leaves_it_sound(error: &StoreError) -> bool {
    error::number(error).is_some()
        && !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::ReadOnly | ErrorKind::Timeout)
}

impl Drop for Lent {
    fn drop(&mut self) {
        match self.out.take() {
            // Out of its pool the connection is closed by the driver, when the server has answered.
            Some(Out::Own(object)) => {
                if self.state == State::Broken {
                    object.condemn();
                }
                drop(Object::take(object));
            }
            // Without a runtime nothing can be sent on it any more.
            Some(Out::Borrowed(conn)) => {
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(conn.disconnect());
                }
            }
            None => {}
        }
    }
}

async fn send(conn: &mut Conn, flight: &Flight) -> Result<Vec<Answer>, Error> {
    let (sql, values) = match flight {
        Flight::Many(statements) => return send_many(conn, statements).await,
        Flight::One { sql, values, .. } => (sql, values),
    };
    let values = values.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.clone()));
    let values: HashMap<Vec<u8>, Value> = values.collect();
    let params = if values.is_empty() { Params::Empty } else { Params::Named(values) };
    let result: QueryResult<'_, '_, BinaryProtocol> = conn.exec_iter(sql.as_str(), params).await?;
    collect(result, 1).await
}

/// On a connection of the user's: nothing is prepared there, and nothing of ours stays.
async fn send_borrowed(conn: &mut Conn, flight: &Flight) -> Result<Vec<Answer>, Error> {
    let (before, ours, after) = (sql::BORROW, flight.written_out(), sql::RETURN);
    let all: Vec<String> =
        before.map(str::to_owned).into_iter().chain(ours).chain(after.map(str::to_owned)).collect();
    let mut answers = send_many(conn, &all).await?;
    answers.truncate(all.len() - after.len());
    Ok(answers.split_off(before.len()))
}

/// Sends statements without parameters, in one trip.
pub(crate) async fn send_many(conn: &mut Conn, statements: &[String]) -> Result<Vec<Answer>, Error> {
    let result: QueryResult<'_, '_, TextProtocol> = conn.query_iter(statements.join(";\n")).await?;
    collect(result, statements.len()).await
}

/// Reads the answers to so many statements. What an answer says beside its rows has come when the
/// one before it has been read.
async fn collect<P: Protocol>(
    mut result: QueryResult<'_, '_, P>,
    statements: usize,
) -> Result<Vec<Answer>, Error> {
    let mut answers = Vec::with_capacity(statements);
    for _ in 0..statements {
        let (id, rows_affected) = (result.last_insert_id().unwrap_or(0), result.affected_rows());
        answers.push(Answer { rows: result.collect().await?, id, rows_affected });
    }
    result.drop_result().await?;
    Ok(answers)
}
