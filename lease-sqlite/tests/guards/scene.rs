//! A lease that is held until the test says otherwise, and a connection of the program's on its file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lease_core::clock::{Alarm, Ring};
use lease_core::store::StoreError;
use lease_core::{
    Clock, ErrorKind, GuardError, GuardedError, Leases, ManualClaimed, ManualLease, Moment, Tenure,
    TimingParts, Timings,
};
use lease_sqlite::SqliteStore;
use lease_testkit::ManualClock;
use rusqlite::Connection;

use crate::support::{Journal, LONG, SHORT, Sandbox, TTL, name};

pub(crate) const INSERT: &str = "INSERT INTO other VALUES ('row')";

/// Does not end by itself.
pub(crate) const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                                  INSERT INTO other SELECT i FROM n";

pub(crate) struct Scene {
    pub(crate) sandbox: Sandbox,
    pub(crate) store: SqliteStore,
    /// The holder's; the database goes by its own.
    pub(crate) clock: Arc<CountingClock>,
    /// Not renewed by anybody but guarded transactions.
    pub(crate) lease: ManualLease,
}

impl Scene {
    pub(crate) async fn new(journal: Journal) -> Self {
        Self::with(journal, timings(LONG)).await
    }

    /// One in which whoever waits for a lock soon gives up.
    pub(crate) async fn impatient(journal: Journal) -> Self {
        Self::with(journal, timings(SHORT)).await
    }

    async fn with(journal: Journal, timings: Timings) -> Self {
        let sandbox = Sandbox::new(journal).await;
        let store = sandbox.store().await;
        let clock = Arc::new(CountingClock { clock: ManualClock::new(), looks: AtomicUsize::new(0) });
        // A claim may wait longer than a transaction is to.
        let claimed = Leases::builder(store.clone()).clock(clock.clone()).timings(timings).build().unwrap();
        let lease = match claimed.claim_manual("a").await.unwrap() {
            ManualClaimed::Granted(lease) => lease,
            ManualClaimed::Held(refusal) => panic!("{refusal:?}"),
        };
        Self { sandbox, store, clock, lease }
    }

    pub(crate) fn tenure(&self) -> Tenure {
        self.lease.tenure()
    }

    /// The program's connection.
    pub(crate) fn connection(&self) -> Connection {
        self.sandbox.other()
    }

    /// Lets the holder's deadline pass.
    pub(crate) fn lose(&self) {
        self.clock.advance(TTL);
    }

    /// Lets somebody else claim the name, whose row the holder is not told of.
    pub(crate) fn take_away(&self) {
        self.sandbox.expire(&name("a"));
        let sql =
            "UPDATE leases SET holder = 'another', term = term + 1, expires_at_ms = 9e12 WHERE name = 'a'";
        assert_eq!(self.sandbox.other().execute(sql, []).unwrap(), 1);
    }

    /// How many rows others see.
    pub(crate) fn rows(&self) -> i64 {
        count(&self.sandbox.other())
    }

    /// Sees to it that others can write, and that the connection can as well, with what it had before.
    #[track_caller]
    pub(crate) fn is_free(&self, connection: &Connection) {
        assert!(connection.is_autocommit(), "a transaction is open");
        let before = self.rows();
        self.sandbox.other().execute(INSERT, []).unwrap();
        connection.execute(INSERT, []).unwrap();
        assert_eq!(self.rows(), before + 2);
        let timeout: i64 = connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0)).unwrap();
        assert_eq!(timeout.unsigned_abs(), LONG.as_secs() * 1_000, "the busy timeout");
    }
}

/// Moved by hand, and counts how often it is looked at.
#[derive(Debug)]
pub(crate) struct CountingClock {
    clock: Arc<ManualClock>,
    looks: AtomicUsize,
}

impl CountingClock {
    pub(crate) fn advance(&self, duration: Duration) {
        self.clock.advance(duration);
    }

    pub(crate) fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }
}

impl Clock for CountingClock {
    fn now(&self) -> Moment {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.clock.now()
    }

    fn alarm(&self, at: Moment, ring: Ring) -> Alarm {
        self.clock.alarm(at, ring)
    }
}

/// Of a lease that outlives the test, with such a wait for locks.
pub(crate) fn timings(attempt: Duration) -> Timings {
    let renew = attempt / 2;
    Timings::new(TimingParts { attempt, renew, ..Timings::from_ttl(TTL).unwrap().parts() }).unwrap()
}

pub(crate) fn count(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM other", [], |row| row.get(0)).unwrap()
}

#[track_caller]
pub(crate) fn is_lost<T: std::fmt::Debug>(answer: &Result<T, GuardError>) {
    assert!(matches!(answer, Err(GuardError::Lost(_))), "{answer:?}");
}

#[track_caller]
pub(crate) fn has_failed<T: std::fmt::Debug>(answer: Result<T, GuardError>, kind: ErrorKind) -> StoreError {
    match answer {
        Err(GuardError::Failed(error)) if error.kind() == kind => {
            assert!(!error.to_string().contains('\n'), "more than one line: {error}");
            error
        }
        other => panic!("should have failed as {kind:?}: {other:?}"),
    }
}

/// The guard's error, out of that of the closure form.
#[track_caller]
pub(crate) fn the_guards<T, E: std::fmt::Debug>(answer: Result<T, GuardedError<E>>) -> Result<T, GuardError> {
    answer.map_err(|error| match error {
        GuardedError::Guard(error) => error,
        GuardedError::Work(error) => panic!("the work's: {error:?}"),
    })
}
