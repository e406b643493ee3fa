//! One client, from its start to its end: a runtime of its own, so that it can stand still or vanish.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lease_core::{Event, Instance, Leases, LossReason, Transition};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::duties::Duty;
use super::link::Link;
use super::random::Random;
use super::time::{LocalClock, Nanos, nanos};
use super::world::{World, known};

/// How long a thread of the real world may take for what has no virtual time.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Node {
    pub(super) id: usize,
    pub(super) clock: Arc<LocalClock>,
    world: Arc<World>,
    runtime: Runtime,
    leases: Option<Leases>,
    link: Link,
    closing: watch::Sender<bool>,
    closed: Arc<AtomicBool>,
    /// When nothing but the database could still hold up the close.
    close_since: Option<Nanos>,
    records: Records,
}

/// What the hooks of a client are told, on threads of their own.
struct Records {
    events: Arc<Mutex<Vec<Event>>>,
    events_end: Receiver<()>,
    stuck: Arc<Mutex<Vec<StuckWork>>>,
}

/// Of which name and term, and when.
type StuckWork = (&'static str, i64, Duration);

/// What a stall keeps from going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stall {
    /// The process.
    Process,
    /// Its runtime.
    Runtime,
    /// Its machine, unseen by its clock.
    Machine,
}

impl Node {
    pub(super) fn start(world: &Arc<World>, id: usize) -> Self {
        let (drift, offset, seed) = world.with(|state| {
            let most = state.setting.drift;
            let drift = i64::try_from(state.random.below(2 * most.unsigned_abs() + 1)).unwrap_or(0) - most;
            let offset = 100_000_000_000_000 + state.random.below(1_000_000_000_000);
            let standing = &mut state.judge.standings[id];
            standing.runs = true;
            (standing.stalled, standing.closing) = (false, false);
            (standing.well_since, standing.idle_since) = (state.now, state.now);
            state.judge.forget(id);
            state.judge.stuck[id] = super::judge::Stuck::default();
            state.judge.asked_down[id].clear();
            state.note(Some(id), "starts", "-", drift);
            (drift, offset, state.random.next())
        });
        let runtime = runtime(seed);
        let clock = LocalClock::new(&world.time, drift, offset);
        let link = Link::new(world, id);
        let (records, leases) = leases(&runtime, world, &link, &clock, seed);
        let (closing, closed) = (watch::Sender::new(false), Arc::default());
        let node = Self {
            id,
            clock,
            world: Arc::clone(world),
            runtime,
            leases: Some(leases),
            link,
            closing,
            closed,
            close_since: None,
            records,
        };
        let duty = node.duty().expect("it has just started");
        node.runtime.spawn(duty.clone().lead());
        node.runtime.spawn(duty.clone().lock());
        node.runtime.spawn(duty.keep_schedule());
        node
    }

    fn duty(&self) -> Option<Duty> {
        Some(Duty {
            leases: self.leases.clone()?,
            clock: self.clock.clone(),
            link: self.link.clone(),
            closing: self.closing.subscribe(),
        })
    }

    /// Lets its tasks run until each of them waits: paused time moves only then.
    pub(super) fn run(&self) {
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
    }

    pub(super) fn ask_to_step_down(&self) {
        if let Some(duty) = self.duty() {
            self.runtime.spawn(duty.ask_to_step_down());
        }
    }

    pub(super) fn clear(&self) {
        if let Some(duty) = self.duty() {
            self.runtime.spawn(duty.clear());
        }
    }

    /// Ends it in order.
    pub(super) fn close(&mut self) {
        let Some(leases) = self.leases.take() else { return };
        self.closing.send_replace(true);
        self.world.with(|state| state.judge.standings[self.id].closing = true);
        let closed = Arc::clone(&self.closed);
        self.runtime.spawn(async move {
            leases.close().await;
            closed.store(true, Ordering::SeqCst);
        });
    }

    pub(super) fn is_closing(&self) -> bool {
        self.leases.is_none()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst) && self.runtime.metrics().num_alive_tasks() == 0
    }

    /// Holds a close to its bound, which counts from the end of all work.
    pub(super) fn watch_close(&mut self) {
        if !self.is_closing() || self.closed.load(Ordering::SeqCst) {
            return;
        }
        let world = Arc::clone(&self.world);
        world.with(|state| {
            let busy = state.is_carrying(self.id) || state.judge.standings[self.id].stalled;
            let since = if busy { None } else { self.close_since };
            let since = since.unwrap_or(state.now).max(state.judge.standings[self.id].well_since);
            self.close_since = Some(since);
            let timings = state.setting.timings;
            let bound = nanos((timings.ttl() + timings.margin() + timings.attempt() * 3) * 2) / 100 * 106;
            if state.now - since > bound {
                state.violate("a close comes to its end", &format!("client {}", self.id));
                self.close_since = Some(state.now);
            }
        });
    }

    /// It has ended in order: nothing of it may be left.
    pub(super) fn end(self) {
        let (id, world) = (self.id, Arc::clone(&self.world));
        if self.clock.has_alarms() {
            world.with(|state| state.violate("no alarm is left", &format!("client {id}")));
        }
        world.with(|state| state.note(Some(id), "has ended", "-", 0));
        self.vanish(true);
    }

    /// It is gone from one moment to the next.
    pub(super) fn vanish(self, in_order: bool) {
        let Self { id, world, runtime, leases, link, records, .. } = self;
        drop(runtime);
        drop((leases, link));
        world.with(|state| {
            state.judge.standings[id].runs = false;
            state.judge.standings[id].born += 1;
            state.judge.forget(id);
            let sessions: Vec<u64> = state.database.sessions_of(id);
            for session in sessions {
                // The server hears of it soon, or by its own bound.
                let after = state.random.below(state.setting.ttls(40));
                state.after(after, super::world::Event::EndSession(session));
            }
        });
        records.judge(&world, id, in_order);
    }
}

/// Tokio wakes those who wait for one thing in an order of its own choice. What it chooses by can only be told where what is
/// unstable of it is compiled in; without, a seed is not always the same run.
fn runtime(seed: u64) -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
    #[cfg(not(tokio_unstable))]
    let _ = seed;
    builder.build().expect("a runtime needs nothing")
}

fn leases(
    runtime: &Runtime,
    world: &Arc<World>,
    link: &Link,
    clock: &Arc<LocalClock>,
    seed: u64,
) -> (Records, Leases) {
    let _inside = runtime.enter();
    let (events, stuck) = (Arc::<Mutex<Vec<Event>>>::default(), Arc::<Mutex<Vec<_>>>::default());
    let (alive, events_end) = channel::<()>();
    let (told, tripped, random) = (Arc::clone(&events), Arc::clone(&stuck), Mutex::new(Random::new(seed)));
    let builder = Leases::builder(link.clone())
        .timings(world.setting.timings)
        .clock(clock.clone())
        .instance(Instance::named(&format!("client {}", link.node)))
        .randomness(move |bytes| lock(&random).fill(bytes))
        .on_stuck(move |stuck| {
            lock(&tripped).push((known(stuck.name.as_str()), stuck.term.get(), stuck.lost_for));
        })
        .on_event(move |event| {
            let _alive = &alive;
            lock(&told).push(event.clone());
        });
    let leases = builder.build().expect("it is built inside a runtime");
    (Records { events, events_end, stuck }, leases)
}

impl Records {
    /// All that the hooks were told, held against the rules; the threads that called them have ended by then.
    fn judge(self, world: &World, node: usize, in_order: bool) {
        let ended = self.events_end.recv_timeout(PATIENCE);
        if ended == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            world.with(|state| state.violate("no lease is left", &format!("client {node}")));
        }
        let events = std::mem::take(&mut *lock(&self.events));
        let expected = events.iter().filter(|event| matches!(event.what, Transition::Stuck)).count();
        let since = Instant::now();
        while lock(&self.stuck).len() < expected && since.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        let mut stuck = std::mem::take(&mut *lock(&self.stuck));
        stuck.sort_unstable();
        world.with(|state| {
            if stuck.len() != expected {
                state.violate("the failing hook is called when work is stuck", &format!("client {node}"));
            }
            let grace = state.setting.timings.grace();
            if let Some((name, term, early)) = stuck.iter().find(|(.., lost_for)| *lost_for < grace) {
                let detail = format!("{name} {term}: {early:?} after the loss");
                state.violate("no process is failed before the end of the grace", &detail);
            }
            let stuck: Vec<_> = stuck.iter().map(|(name, term, _)| (*name, *term)).collect();
            let due = state.judge.stuck[node].clone();
            if let Some(missing) = due.must.iter().find(|lease| !stuck.contains(lease)) {
                state.violate("work that outlives the grace fails the process", &format!("{missing:?}"));
            }
            if let Some(wrong) = due.may_not.iter().find(|lease| stuck.contains(lease)) {
                state.violate("no process is failed before the end of the grace", &format!("{wrong:?}"));
            }
            for _ in &stuck {
                state.count("grace failures");
            }
            state.judge_events(node, &events, in_order);
        });
    }
}

impl super::world::State {
    fn judge_events(&mut self, node: usize, events: &[Event], in_order: bool) {
        let mut ranks = std::collections::BTreeMap::new();
        let (mut lost, mut asked) = (BTreeSet::new(), BTreeSet::new());
        for event in events {
            let (rank, what) = match &event.what {
                Transition::Claimed => (0, "told: claimed"),
                Transition::StepDownAsked => (1, "step-downs"),
                Transition::Lost(LossReason::Released) => (2, "told: given up"),
                Transition::Lost(_) => (2, "losses"),
                Transition::Stuck => (3, "told: stuck"),
                _ => (4, "told: given back"),
            };
            self.count(what);
            let name = known(event.name.as_str());
            self.note(Some(node), what, name, event.term.get());
            let lease = (name, event.term.get());
            match what {
                "losses" => drop(lost.insert(lease)),
                "step-downs" => drop(asked.insert(lease)),
                _ => {}
            }
            let before = ranks.insert(lease, rank);
            if before.map_or(rank != 0, |before| before >= rank) {
                self.violate("events come in order", &format!("client {node}: {name}: {what}"));
            }
        }
        if !in_order {
            return;
        }
        if let Some(untold) =
            self.judge.asked_down[node].iter().find(|lease| !asked.contains(*lease)).copied()
        {
            self.violate("a step-down that was asked is told", &format!("client {node}: {untold:?}"));
        }
        self.has_given_back(node, &lost);
        if ranks.values().any(|rank| *rank < 2) {
            self.violate("every lease has its end", &format!("client {node}"));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
