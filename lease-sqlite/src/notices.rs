//! Hints that something in the file has changed, for those who wait for a name.
//!
//! Nothing tells a process that another one has committed. So the thread that reads asks SQLite for the file's
//! version, between its statements and for as long as anybody listens. It never writes, so no commit is its own,
//! and it sees those of this process's other connections, too. No transaction is open between two looks, and
//! nothing more is open than without them: neither a checkpoint nor the end of a deleted file waits for a waiter.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_core::ErrorKind;
use lease_core::store::{Notifier, StoreError};

use crate::connection::{Open, Place};
use crate::error::Failure;
use crate::sql;
use crate::worker::{compare, leaves_the_connection_sound, let_go};

/// When to look at the file, and what was seen.
pub(crate) struct Lookout {
    notifier: Arc<Notifier>,
    looked: Instant,
    /// When the file at the path was last compared with the open one.
    compared: Option<Instant>,
    /// How long to wait after the last look.
    pause: Duration,
    /// How long the statements after it took together.
    served: Duration,
}

/// How often the file is looked at: a hand-over takes half of this longer, on average. A look costs little more than to wake up.
const POLL: Duration = Duration::from_millis(5);

/// How soon at most after a commit was seen. A file to which others write all the time hints all the time, and every hint
/// costs every waiter a statement.
const POLL_BUSY: Duration = Duration::from_millis(10);

/// How often the path is compared, and a file opened that could not be.
const COMPARE: Duration = Duration::from_millis(500);

/// With very many waiters the thread would do nothing but answer them. So it leaves so many times the time that they took ...
const REST: u32 = 4;

/// ... but no longer than this.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// What of the time that a statement took counts at most. The rest was a wait for a lock, most likely, which is no work.
const LONGEST_WORK: Duration = Duration::from_millis(25);

impl Lookout {
    pub(crate) fn new(notifier: Arc<Notifier>) -> Self {
        Self {
            notifier,
            looked: Instant::now(),
            compared: None,
            pause: Duration::ZERO,
            served: Duration::ZERO,
        }
    }

    /// When to look next; `None`: nobody listens.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.notifier.is_heard().then(|| self.looked + self.pause)
    }

    /// To be told how long each statement took.
    pub(crate) fn served(&mut self, took: Duration) {
        self.served += took.min(LONGEST_WORK);
        self.pause = self.pause.max((self.served * REST).min(LONGEST_REST));
    }

    /// Looks, and says so if anything has been committed since the last time.
    pub(crate) fn look(&mut self, place: &Place, open: &mut Option<Open>) {
        let seen = self.has_changed(place, open);
        let is_replaced = seen.as_ref().is_err_and(|error| error.kind() == ErrorKind::Replaced);
        self.pause = match seen {
            Ok(true) => POLL_BUSY,
            Ok(false) => POLL,
            // What is at the path now is opened next.
            Err(_) if is_replaced => POLL,
            // Locked, most likely, and free in a moment.
            Err(_) if open.is_some() => POLL,
            Err(_) => COMPARE,
        };
        if is_replaced || matches!(seen, Ok(true)) {
            self.notifier.given_back(None);
        }
        (self.looked, self.served) = (Instant::now(), Duration::ZERO);
    }

    /// Whether anybody has committed since the last look. At the first one on a connection nobody knows: then it is so.
    fn has_changed(&mut self, place: &Place, open: &mut Option<Open>) -> Result<bool, StoreError> {
        if self.compared.is_none_or(|at| at.elapsed() >= COMPARE) {
            self.compared = Some(Instant::now());
            compare(place, open)?;
        }
        let opened = match open {
            Some(opened) => opened,
            None => open.insert(place.open(false)?),
        };
        match version(opened) {
            Ok(version) => Ok(opened.version.replace(version) != Some(version)),
            Err(failure) => {
                let error = StoreError::from(failure);
                if !leaves_the_connection_sound(error.kind()) {
                    let_go(place, open);
                }
                Err(error)
            }
        }
    }
}

fn version(opened: &Open) -> Result<i64, Failure> {
    let mut statement = opened.connection.prepare_cached(sql::DATA_VERSION)?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Role;
    use crate::files::Known;
    use crate::options::Table;

    const MS: Duration = Duration::from_millis(1);

    fn pause(lookout: &Lookout) -> Duration {
        lookout.due().expect("somebody listens") - lookout.looked
    }

    #[test]
    fn the_file_is_left_alone_for_four_times_as_long_as_statements_took_and_no_longer_than_a_second() {
        let notifier = Arc::new(Notifier::new());
        let mut lookout = Lookout::new(Arc::clone(&notifier));
        assert_eq!(lookout.due(), None, "nobody listens");
        let _listens = notifier.listen();
        assert_eq!(pause(&lookout), Duration::ZERO);
        lookout.pause = POLL;
        lookout.served(MS);
        assert_eq!(pause(&lookout), POLL, "it rests for as long anyway");
        lookout.served(2 * MS);
        assert_eq!(pause(&lookout), 12 * MS);
        for _ in 0..500 {
            lookout.served(MS);
        }
        assert_eq!(pause(&lookout), LONGEST_REST);
    }

    #[test]
    fn a_statement_that_waited_for_a_lock_makes_nobody_deaf_for_long() {
        let notifier = Arc::new(Notifier::new());
        let _listens = notifier.listen();
        let mut lookout = Lookout::new(notifier);
        lookout.served(Duration::from_secs(10));
        assert_eq!(pause(&lookout), 100 * MS);
    }

    #[test]
    fn after_a_commit_was_seen_the_next_look_comes_later_and_what_was_rested_for_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            path: folder.path().join("leases.db"),
            table: Table::new("leases").unwrap(),
            role: Role::Write,
            known: Known::default(),
        };
        let writer = place.open(true).unwrap().connection;
        let notifier = Arc::new(Notifier::new());
        let _listens = notifier.listen();
        let (mut lookout, mut open) = (Lookout::new(notifier), None);
        lookout.look(&place, &mut open);
        for _ in 0..2 {
            lookout.served(20 * MS);
            assert_eq!(pause(&lookout), 80 * MS);
            lookout.look(&place, &mut open);
            assert_eq!(pause(&lookout), POLL);
            writer.execute_batch("CREATE TABLE written (n); DROP TABLE written").unwrap();
            lookout.look(&place, &mut open);
            assert_eq!(pause(&lookout), POLL_BUSY);
        }
    }
}
