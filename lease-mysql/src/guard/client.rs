//! The connection that a guarded transaction owns, and what goes over it.

use mysql_async::consts::StatusFlags;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, QueryResult, TextProtocol};
use tokio::time::timeout;

use crate::connections::Spawner;
use crate::product::has_snapshot_isolation;
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
        self.send(&sql::roll_back_guarded(mark, self.has_snapshot())).await.error.is_none()
    }

    /// Whether the fence has to turn off `innodb_snapshot_isolation`.
    pub(super) fn has_snapshot(&self) -> bool {
        has_snapshot_isolation(self.get().server_version())
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

/// How statements begin that commit nothing: not by themselves, nor by functions and triggers, in which the server refuses all
/// that commits. (A procedure can, so `CALL` is none of them; nor is `SET`, for the sake of `autocommit`.)
const HARMLESS: [&str; 13] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "REPLACE",
    "WITH",
    "VALUES",
    "TABLE",
    "DO",
    "SHOW",
    "EXPLAIN",
    "SAVEPOINT",
    "RELEASE",
];

/// Whether a text can commit, as far as is known: one that has a second statement, or begins with a comment, can.
pub(super) fn can_commit(text: &[u8]) -> bool {
    let end = text.iter().rposition(|byte| !byte.is_ascii_whitespace() && *byte != b';');
    let text = &text[..end.map_or(0, |last| last + 1)];
    text.contains(&b';') || begins_otherwise(text)
}

fn begins_otherwise(text: &[u8]) -> bool {
    let begin = text.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b'(');
    let text = &text[begin.unwrap_or(text.len())..];
    let end = text.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
    let rest = rest.trim_ascii_start();
    let back_to = is("ROLLBACK") && rest.len() > 3 && rest[..3].eq_ignore_ascii_case(b"TO ");
    !back_to && !HARMLESS.into_iter().any(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_commit_nothing_is_taken_for_it() {
        for text in [
            "SELECT 1",
            " (select 1) union (select 2);\n ",
            "insert INTO t VALUES (1)",
            "\n\tUPDATE t SET a = 1",
            "WITH a AS (SELECT 1) DELETE FROM t",
            "ROLLBACK TO SAVEPOINT mine",
            "RELEASE SAVEPOINT mine",
        ] {
            assert!(!can_commit(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            ";",
            "COMMIT",
            "ROLLBACK",
            "ROLLBACK AND CHAIN",
            "CALL p()",
            "SET autocommit = 1",
            "SELECT 1; COMMIT",
            "UPDATED",
            "SELECTED FROM t",
            "/* note */ SELECT 1",
            "/*! COMMIT */",
            "CREATE TABLE t (a INT)",
            "BEGIN NOT ATOMIC COMMIT; END",
            "XA START 'a'",
        ] {
            assert!(can_commit(text.as_bytes()), "{text}");
        }
    }
}
