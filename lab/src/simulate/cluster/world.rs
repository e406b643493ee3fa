//! What all of a cluster share: true time, what is to happen when, and everybody who must know of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::database::Database;
use super::faults::{Fault, Weather};
use super::journal::Journal;
use super::judge::Judge;
use super::plan::{Plan, Setting};
use super::random::Random;
use super::time::{Nanos, TrueTime};

/// The names that a cluster contends for.
pub(super) const LEADER: &str = "leader";
pub(super) const LOCK: &str = "lock";
pub(super) const CRON: &str = "cron";

/// A name, as a constant text.
pub(super) fn known(name: &str) -> &'static str {
    [LEADER, LOCK, CRON].into_iter().find(|known| *known == name).unwrap_or("-")
}

/// What is to happen.
pub(super) enum Event {
    /// A statement reaches the database.
    Arrive(Arrival),
    /// An answer reaches a client.
    Answer(usize, Box<dyn FnOnce() + Send>),
    /// Something befalls the cluster.
    Strike,
    /// What a fault has done ends.
    End(Fault),
    /// A client starts.
    Start(usize),
    /// The server notices that the client of a session has gone.
    EndSession(u64),
}

pub(super) type Arrival = Box<dyn FnOnce(&mut State) + Send>;

pub(super) struct World {
    pub(super) time: Arc<TrueTime>,
    pub(super) setting: Setting,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) now: Nanos,
    pub(super) random: Random,
    pub(super) setting: Setting,
    pub(super) database: Database,
    pub(super) judge: Judge,
    pub(super) journal: Journal,
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// What lies between each client and the database.
    pub(super) weather: Vec<Weather>,
    /// Statements whose client has given them up, and that arrive all the same.
    pub(super) strays: usize,
    /// Whoever listens has something to hear.
    pub(super) announced: bool,
    /// When the database's clock was stepped forward last.
    pub(super) stepped_forward: Nanos,
    /// Whoever ends does not start again.
    pub(super) ending: bool,
    agenda: BTreeMap<(Nanos, u64), Event>,
    sent: u64,
}

impl World {
    pub(super) fn new(plan: &Plan) -> Arc<Self> {
        let mut random = Random::new(plan.seed);
        let setting = Setting::draw(&mut random);
        let time = Arc::new(TrueTime::default());
        let state = State {
            now: 0,
            database: Database::new(&time, setting.fence, plan.broken),
            judge: Judge::new(plan, &setting),
            journal: Journal::default(),
            counts: BTreeMap::new(),
            weather: vec![Weather::Fair; setting.clients],
            strays: 0,
            announced: false,
            stepped_forward: 0,
            ending: false,
            agenda: BTreeMap::new(),
            sent: 0,
            random,
            setting: setting.clone(),
        };
        Arc::new(Self { time, setting, state: Mutex::new(state) })
    }

    /// Looks at the state, or changes it. Nothing in it is called back from inside.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut state)
    }

    pub(super) fn go_to(&self, at: Nanos) {
        self.time.set(at);
        self.with(|state| state.now = at);
    }
}

impl State {
    pub(super) fn at(&mut self, at: Nanos, event: Event) {
        self.sent += 1;
        self.agenda.insert((at.max(self.now), self.sent), event);
    }

    pub(super) fn after(&mut self, delay: Nanos, event: Event) {
        self.at(self.now.saturating_add(delay), event);
    }

    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.agenda.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn take_next(&mut self) -> Option<Event> {
        self.agenda.pop_first().map(|(_, event)| event)
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(super) fn note(&mut self, node: Option<usize>, what: &'static str, name: &str, number: i64) {
        self.journal.note(self.now, node, what, known(name), number);
    }
}

impl State {
    /// Nothing more befalls the cluster, and nobody starts again.
    pub(super) fn drop_strikes(&mut self) {
        self.agenda
            .retain(|_, event| matches!(event, Event::Arrive(_) | Event::Answer(..) | Event::EndSession(_)));
        self.ending = true;
    }
}
