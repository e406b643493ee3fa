//! The connection that a guarded transaction owns, and what goes over it.

use mysql_async::consts::StatusFlags;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, QueryResult, TextProtocol};
use tokio::time::timeout;

use crate::connections::Spawner;
use crate::row::Answer;
use crate::sql;

/// How long a connection may take to say that it closes. Then it just does.
const FAREWELL: Duration = Duration::from_secs(10);

const STILL_THERE: &str = "there until it is taken";

/// A connection that is closed for good unless it is taken.
pub(super) struct Held {
    conn: Option<Conn>,
    spawner: Spawner,
}

/// What was answered to a flight: to the statements before the one that failed, if one did.
pub(super) struct Answered {
    pub(super) answers: Vec<Answer>,
    pub(super) error: Option<Error>,
}

impl Held {
    pub(super) fn new(conn: Conn, spawner: Spawner) -> Self {
        Self { conn: Some(conn), spawner }
    }

    pub(super) fn get(&self) -> &Conn {
        self.conn.as_ref().expect(STILL_THERE)
    }

    pub(super) fn get_mut(&mut self) -> &mut Conn {
        self.conn.as_mut().expect(STILL_THERE)
    }

    pub(super) fn take(mut self) -> Conn {
        self.conn.take().expect(STILL_THERE)
    }

    /// Reads what is left of an earlier result, as the driver does before it sends anything.
    ///
    /// Its error is that of a statement of the program's: what was sent in the same text behind that was not run.
    pub(super) async fn read_to_the_end(&mut self) -> Result<(), Error> {
        let conn = self.get_mut();
        // Rows are read with the next command by whoever knows their protocol, which is the driver.
        if !QueryResult::<TextProtocol>::new(&mut *conn).is_empty() {
            conn.ping().await?;
        }
        QueryResult::<TextProtocol>::new(conn).drop_result().await
    }

    /// Sends statements without parameters, in one trip.
    pub(super) async fn send(&mut self, statements: &[String]) -> Answered {
        let mut answers = Vec::with_capacity(statements.len());
        let mut result = match self.get_mut().query_iter(statements.join(";\n")).await {
            Ok(result) => result,
            Err(error) => return Answered { answers, error: Some(error) },
        };
        for _ in statements {
            match result.collect().await {
                Ok(rows) => answers.push(Answer { rows, ..Answer::default() }),
                Err(error) => return Answered { answers, error: Some(error) },
            }
        }
        let error = result.drop_result().await.err();
        Answered { answers, error }
    }

    /// Undoes what is open, and makes the session what it was before the guard, in one trip. Answers whether it is.
    pub(super) async fn undo(&mut self, mark: &str) -> bool {
        self.send(&sql::roll_back_guarded(mark)).await.error.is_none()
    }

    /// Whether a transaction is open, as the server said with its last word; `None` if that was an error.
    pub(super) fn is_open(&self) -> Option<bool> {
        let flags = self.get().last_ok_packet()?.status_flags();
        Some(flags.contains(StatusFlags::SERVER_STATUS_IN_TRANS))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            // Where the store's own statements run: here may be no runtime. In the middle of an answer it is only dropped, which
            // the driver takes for the end of it.
            self.spawner.spawn(async move { drop(timeout(FAREWELL, conn.disconnect()).await) });
        }
    }
}
