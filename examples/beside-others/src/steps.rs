//! The steps that are the same whatever the library.

use std::time::Duration;

use lease_core::{Tenure, Timings};

use crate::NotDone;
use crate::not_done::Cause;

/// All up to the commit, which a loss of the lease drops, also in the middle of a statement that takes its time.
pub(crate) async fn beside_loss<T>(
    tenure: &Tenure,
    work: impl Future<Output = Result<T, NotDone>>,
) -> Result<T, NotDone> {
    tokio::select! {
        biased;
        _ = tenure.lost() => Err(NotDone::Lost),
        outcome = work => outcome,
    }
}

/// The commit. Its answer is not awaited for longer than the lease gives after a loss. Here every answer but a good one leaves it
/// unknown; which of them are refusals differs (see `with_sqlx/postgres.rs` for PostgreSQL's).
pub(crate) async fn commit<T, E: Into<Cause>>(
    tenure: &Tenure,
    commit: impl Future<Output = Result<T, E>>,
) -> Result<T, NotDone> {
    let too_late = async {
        tenure.lost().await;
        tokio::time::sleep(tenure.timings().grace() / 2).await;
    };
    tokio::select! {
        committed = commit => committed.map_err(|error| NotDone::Unknown(error.into())),
        () = too_late => Err(NotDone::Unknown("no answer to the commit".into())),
    }
}

/// PostgreSQL: the level does not depend on the role's default, and the fence does not wait for long.
pub(crate) const BEGIN_POSTGRES: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '2s'";

/// MySQL and MariaDB: the settings of a session that is for guarded transactions alone. What would be committed by itself is not,
/// and the server ends a session whose client is paused, or waits for a lock, for longer than a ttl.
pub(crate) fn mysql_session(ttl: Duration) -> [String; 2] {
    let seconds = ttl.as_secs().max(1);
    let bounds = [
        "wait_timeout",
        "net_read_timeout",
        "net_write_timeout",
        "innodb_lock_wait_timeout",
        "lock_wait_timeout",
    ]
    .map(|setting| format!(", {setting} = {seconds}"));
    [
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE".to_owned(),
        format!("SET SESSION autocommit = 0{}", bounds.concat()),
    ]
}

/// SQLite: the write lock is waited for within an attempt of the lease's, so that its renewals are never late for it.
pub(crate) fn busy_timeout(timings: &Timings) -> Duration {
    timings.attempt() / 2
}

/// As a statement.
pub(crate) fn set_busy_timeout(timings: &Timings) -> String {
    format!("PRAGMA busy_timeout = {}", busy_timeout(timings).as_millis())
}
