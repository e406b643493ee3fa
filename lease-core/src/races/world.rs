//! What a scenario is played in: a clock that it moves, a client without a runtime, and the record of what it was told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use shuttle::sync::atomic::AtomicU64;
use shuttle::sync::mpsc;
use shuttle::thread::{self, JoinHandle};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::store::RowStore;
use crate::client::Client;
use crate::clock::{Alarm, AlarmBook, Clock, Moment, Ring};
use crate::driver::Command;
use crate::events::{EventHook, Events, Transition};
use crate::state::{LeaseState, Setup};
use crate::{Instance, Lease, LossReason, Term, Timings};

/// When the lease of a world was claimed.
pub(super) const CLAIMED: Duration = Duration::from_secs(100);

pub(super) struct World {
    pub(super) clock: Arc<TestClock>,
    pub(super) client: Arc<Client>,
    pub(super) store: Arc<RowStore>,
    /// What the driver would hear.
    pub(super) orders: UnboundedReceiver<Command>,
    told: Arc<Mutex<Vec<Transition>>>,
    all_told: mpsc::Receiver<()>,
    stuck: Arc<AtomicUsize>,
}

/// What was told of the one lease of a world that has come to its end.
pub(super) struct Told {
    pub(super) events: Vec<Transition>,
    /// How often the failing hook was called.
    pub(super) stuck: usize,
}

impl World {
    pub(super) fn new() -> Self {
        Self::made(true)
    }

    /// With fewer steps in it.
    pub(super) fn without_events() -> Self {
        Self::made(false)
    }

    fn made(with_events: bool) -> Self {
        let clock = Arc::new(TestClock { now: AtomicU64::new(nanos(CLAIMED)), book: Arc::default() });
        let told = Arc::new(Mutex::new(Vec::new()));
        let (until_gone, all_told) = mpsc::channel::<()>();
        let until_failed = until_gone.clone();
        let tell = Arc::clone(&told);
        let hook: EventHook = Arc::new(move |event| {
            let _until_gone = &until_gone;
            tell.lock().unwrap().push(event.what.clone());
        });
        let events = if with_events { Events::start(hook).unwrap() } else { Events::default() };
        let stuck = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&stuck);
        let setup = Arc::new(Setup {
            timings: Timings::default(),
            clock: Arc::<TestClock>::clone(&clock),
            on_stuck: Arc::new(move |_| {
                let _until_failed = &until_failed;
                count.fetch_add(1, Ordering::SeqCst);
            }),
            events,
            meter: crate::meter::Meter::default(),
            randomness: crate::randomness::Randomness::default(),
        });
        let (commands, orders) = unbounded_channel();
        let store = Arc::new(RowStore::default());
        let client = Client::new(
            Arc::<RowStore>::clone(&store),
            setup,
            Instance::default(),
            None,
            (runtime().handle().clone(), commands),
        );
        Self { clock, client: Arc::new(client), store, orders, told, all_told, stuck }
    }

    /// The lease, granted at [`CLAIMED`], as its owner and as all others have it.
    pub(super) fn lease(&self, is_round: bool) -> (Lease, Arc<LeaseState>) {
        let name = ("raced".parse().unwrap(), "0".repeat(32).parse().unwrap(), Term::FIRST);
        let state = LeaseState::new(1, name, is_round, Arc::clone(&self.client.setup), Moment::new(CLAIMED));
        (Lease::new(Arc::clone(&state), Arc::clone(&self.client)), state)
    }

    /// Lets what is due ring, drops all that is left of the world, and says what was told in it. Events must have come in
    /// their order, each once.
    pub(super) fn end(self) -> Told {
        let Self { clock, client, store, orders, told, all_told, stuck } = self;
        clock.ring();
        drop((clock, client, store, orders));
        // Both hooks have gone, so nothing more is told.
        all_told.recv().unwrap_err();
        let events = std::mem::take(&mut *told.lock().unwrap());
        let ranks: Vec<u32> = events.iter().map(rank).collect();
        assert!(ranks.is_sorted_by(|earlier, later| earlier < later), "out of order, or twice: {events:?}");
        Told { events, stuck: stuck.load(Ordering::SeqCst) }
    }
}

impl Told {
    /// Why the lease was lost, as it was told.
    pub(super) fn loss(&self) -> Option<&LossReason> {
        self.events.iter().find_map(|event| match event {
            Transition::Lost(reason) => Some(reason),
            _ => None,
        })
    }

    pub(super) fn has(&self, is_meant: impl Fn(&Transition) -> bool) -> bool {
        self.events.iter().any(is_meant)
    }
}

fn rank(event: &Transition) -> u32 {
    match event {
        Transition::Claimed => 0,
        Transition::StepDownAsked => 1,
        Transition::Lost(_) => 2,
        Transition::Stuck => 3,
        Transition::GivenBack => 4,
    }
}

/// A clock that stands still until a scenario moves it, with a watchdog in whichever thread does.
#[derive(Debug)]
pub(super) struct TestClock {
    now: AtomicU64,
    book: Arc<AlarmBook>,
}

impl TestClock {
    /// Moves to this long after the claim, and rings what is due by then.
    pub(super) fn advance(&self, since_claim: Duration) {
        self.now.fetch_max(nanos(CLAIMED + since_claim), Ordering::SeqCst);
        self.ring();
    }

    pub(super) fn ring(&self) {
        while let Some(ring) = self.book.take_due(self.now()) {
            ring();
        }
    }
}

impl Clock for TestClock {
    fn now(&self) -> Moment {
        Moment::new(Duration::from_nanos(self.now.load(Ordering::SeqCst)))
    }

    fn alarm(&self, at: Moment, ring: Ring) -> Alarm {
        self.book.set(at, ring).0
    }
}

/// A moment this long after the claim.
pub(super) fn after_claim(since: Duration) -> Moment {
    Moment::new(CLAIMED + since)
}

pub(super) fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::spawn(f)
}

pub(super) fn join<const N: usize>(threads: [JoinHandle<()>; N]) {
    for thread in threads {
        thread.join().unwrap();
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

/// Of which nothing but the handle is needed: what would be spawned on it never runs.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_current_thread().build().unwrap())
}
