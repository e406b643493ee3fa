//! One process with leases, a database and a clock that moves only by hand.
#![expect(dead_code, reason = "each test file uses a part")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lease_core::store::Inspection;
use lease_core::{Claimed, Lease, LeaseName, LeaseStore, Leases, Stuck, Term};
use lease_testkit::{FaultStore, ManualClock, MemoryStore};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) database: MemoryStore,
    pub(crate) store: FaultStore,
    pub(crate) leases: Leases,
    pub(crate) stuck: Arc<Mutex<Vec<Stuck>>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let database = MemoryStore::with_clock(clock.clone());
        let store = FaultStore::new(database.clone(), clock.clone());
        let stuck: Arc<Mutex<Vec<Stuck>>> = Arc::default();
        let noted = Arc::clone(&stuck);
        let leases = Leases::builder(store.clone())
            .clock(clock.clone())
            .on_stuck(move |stuck| noted.lock().unwrap().push(stuck.clone()))
            .build()
            .unwrap();
        Self { clock, database, store, leases, stuck }
    }

    /// Another process on the same database, without faults.
    pub(crate) fn other(&self) -> Leases {
        Leases::builder(self.database.clone()).clock(self.clock.clone()).build().unwrap()
    }

    pub(crate) async fn play(&self, duration: Duration) {
        self.clock.play(duration).await;
    }

    pub(crate) async fn claim(&self, text: &str) -> Lease {
        granted(self.leases.claim(text).await.unwrap())
    }

    pub(crate) async fn inspect(&self, text: &str) -> Inspection {
        self.database.inspect(&name(text), SECOND).await.unwrap()
    }

    /// Whether the database would let somebody else claim the name.
    pub(crate) async fn is_free(&self, text: &str) -> bool {
        let seen = self.inspect(text).await;
        !seen.row.is_some_and(|row| row.is_live(seen.now))
    }

    /// Waits, in real time, for the failing hook, which runs on a thread of its own.
    pub(crate) fn wait_for_stuck(&self) -> Stuck {
        let start = Instant::now();
        loop {
            if let Some(stuck) = self.stuck.lock().unwrap().first() {
                return stuck.clone();
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the failing hook was not called");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

pub(crate) fn name(text: &str) -> LeaseName {
    text.parse().unwrap()
}

#[track_caller]
pub(crate) fn granted(claimed: Claimed) -> Lease {
    match claimed {
        Claimed::Granted(lease) => lease,
        Claimed::Held(refusal) => panic!("{refusal:?}"),
    }
}

#[track_caller]
pub(crate) fn term(claimed: Claimed) -> Option<Term> {
    match claimed {
        Claimed::Granted(lease) => Some(lease.term()),
        Claimed::Held(_) => None,
    }
}
