//! The model of the lease itself: claims, renewals, releases and takeovers of one name, by processes whose statements
//! are late or lost, on clocks that are off.

mod actions;
mod packed;
mod statements;
mod step;
mod words;
pub mod world;

use lease_core::Timings;
use stateright::{Model, Property};

use crate::events::Events;
use crate::machine::Player;
use crate::observer::Watch;
use crate::units::Units;
use world::{Left, Life, PROCESSES, Process, RELEASED, Row, What, World};

pub use actions::Action;

/// How far the model goes.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each switches something of its own on")]
pub struct Bounds {
    /// How many processes there are.
    pub processes: usize,
    /// The timings.
    pub units: Units,
    /// How many statements may be under way together, and of one process (at most two).
    pub flights: [usize; 2],
    /// What may happen, by count.
    pub left: Left,
    /// By how much the database's clock is stepped back.
    pub back: &'static [i8],
    /// It may be stepped back by exactly the time between two writes, to the millisecond, so that they write the same expiry.
    /// Otherwise what is written after such a step never equals what was written before it.
    pub back_exactly: bool,
    /// By how much it is stepped forward.
    pub forward: i8,
    /// Waiters watch the row, and take it from a holder that is dead by what they saw.
    pub observe: bool,
    /// How many of them wait at once.
    pub waiters: usize,
    /// Leases are given back.
    pub release: bool,
    /// Faults end at some moment, and from then on everything goes at once.
    pub heal: bool,
    /// Processes are not told apart. Off where a trace is to be read.
    pub symmetric: bool,
}

/// A defect planted into the model, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// The deadline counts from the answer, not from the start of the attempt.
    DeadlineFromAnswer,
    /// The grace lasts to the very end of the ttl.
    NoMargin,
    /// A release frees whoever holds the name.
    ReleaseOfAnybody,
    /// A claim does not raise the term.
    TermNotRaised,
    /// A claim does not look at the expiry.
    ClaimOfTheLiving,
    /// A row that stands still for less than a holder believes is taken for dead.
    ObserveTooShort,
    /// Waiters go by the database's clock alone.
    NobodyObserves,
    /// A claim that was given up is handed out when it is granted after all, as of then.
    LateGrantHandedOut,
}

/// The model.
pub struct LeaseModel {
    /// How far it goes.
    pub bounds: Bounds,
    /// What is wrong with it.
    pub planted: Option<Planted>,
    /// What has happened.
    pub events: Events,
    player: Player,
    /// Those that waiters go by.
    patience: (Timings, u8),
}

/// The holders there may be at one moment.
pub const ONE_BELIEVER: &str = "at most one healthy believer";
/// As to work.
pub const ONE_WORK: &str = "no claim is granted while work of the lease before may run";
/// As to terms.
pub const TERMS: &str = "terms never repeat";
/// As to what comes of it.
pub const HELD_AGAIN: &str = "held again within ttl, margin and one poll after the last fault";

impl LeaseModel {
    /// A model within bounds.
    ///
    /// # Panics
    ///
    /// When the timings keep no promise.
    pub fn new(bounds: Bounds, planted: Option<Planted>) -> Self {
        let mut bounds = bounds;
        if planted == Some(Planted::NoMargin) {
            bounds.units.grace += bounds.units.margin;
            bounds.units.margin = 0;
        }
        let observed = if planted == Some(Planted::ObserveTooShort) {
            Units { ttl: bounds.units.deadline / 2, deadline: 2, attempt: 1, renew: 0, grace: 1, margin: 0 }
        } else {
            bounds.units
        };
        let patience = if planted == Some(Planted::ObserveTooShort) {
            (Timings::from_ttl(crate::units::seconds(observed.ttl)).expect("a ttl of seconds"), observed.ttl)
        } else {
            (bounds.units.timings(), bounds.units.ttl)
        };
        Self { bounds, planted, events: Events::default(), player: Player::new(bounds.units), patience }
    }

    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    /// After how many units without a fault somebody is to hold the name.
    pub fn patience_of_all(&self) -> u8 {
        self.bounds.units.patience() + 1
    }

    /// Puts what is the same into the same words.
    fn tidied(&self, mut world: World) -> World {
        let left = world.left;
        let most_back = if left.back > 0 { self.bounds.back.iter().copied().max().unwrap_or(0) } else { 0 };
        if world.row.expires != RELEASED && world.row.expires <= 0 {
            // By no step that may still come does it live again.
            if most_back + world.row.expires <= 0 {
                world.row.expires = RELEASED;
            }
        }
        world.row.stepped &= self.bounds.observe && world.row.expires != RELEASED;
        for process in &mut world.all {
            process.odd &= left.odd > 0;
            if !process.has_flight(What::Look) {
                // A holder that has been replaced never comes back, nor does an expiry that was written over, but for one fault.
                let expires = world.row.expires;
                let lasts =
                    |watch: &Watch| watch.current && (self.bounds.back_exactly || watch.expires == expires);
                process.watch = process.watch.filter(lasts).map(|watch| watch.tidied(most_back));
            }
            process.tidy();
        }
        if self.bounds.symmetric {
            world.all.sort_unstable();
        }
        world
    }
}

impl Model for LeaseModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let absent = Process { life: Life::Absent, ..Process::started() };
        let mut all: [Process; PROCESSES] = std::array::from_fn(|_| absent.clone());
        for process in all.iter_mut().take(self.bounds.processes) {
            process.life = Life::Idle;
        }
        let row = Row { expires: RELEASED, born: false, behind: 0, stepped: false };
        let left = self.bounds.left;
        let world = World { row, all, left, healed: None, term_repeated: false };
        vec![self.tidied(world)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.possible(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.play(&mut next, action);
        Some(self.tidied(next))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::<Self>::always(ONE_BELIEVER, |_, world: &World| {
                world.all.iter().filter(|process| process.believes()).count() <= 1
            }),
            Property::<Self>::always(ONE_WORK, |_, world: &World| {
                world.all.iter().map(Process::works).sum::<usize>() <= 1
            }),
            Property::<Self>::always(TERMS, |_, world: &World| !world.term_repeated),
        ];
        if self.bounds.heal {
            all.push(Property::<Self>::always(HELD_AGAIN, |model: &Self, world: &World| {
                let late = world.healed.is_some_and(|since| since > model.patience_of_all());
                !late || world.is_held()
            }));
        }
        all
    }
}

impl World {
    /// Whether somebody holds the name and knows it.
    pub fn is_held(&self) -> bool {
        self.all.iter().any(Process::believes)
    }
}
