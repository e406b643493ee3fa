//! The parts of the model, their bounds in each tier, and what came of running them.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use stateright::Checker;

use crate::events::{Event, Events};
use crate::guards::{self, Fence, GuardModel};
use crate::lease::world::Left;
use crate::lease::{self, LeaseModel};
use crate::run::{Told, all_states};
use crate::slots::{self, SlotModel};
use crate::units::Units;

/// How far a run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Tier {
    /// What is run for each commit: about two minutes on two cores.
    Commit,
    /// What is run each night.
    Nightly,
    /// What is run before a release: the same as each night.
    Release,
}

/// A model of its own with bounds of its own.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// By which it is asked for.
    pub name: &'static str,
    /// What it is a model of.
    pub what: What,
    /// Fewer states than this, and it was not what it says.
    pub floor: usize,
    /// What has to have happened in it.
    pub events: &'static [Event],
}

/// What a part is a model of.
#[derive(Debug, Clone, Copy)]
pub enum What {
    /// The lease.
    Lease(lease::Bounds),
    /// Guarded transactions.
    Guards(Fence, guards::Bounds),
    /// Slots.
    Slots(slots::Bounds),
}

/// What came of a part.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The part.
    pub part: Part,
    /// States, each counted once.
    pub states: usize,
    /// How many steps the farthest is away.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// The properties that were looked at.
    pub properties: Vec<&'static str>,
    /// Those that do not hold, with the way there.
    pub broken: Vec<(&'static str, Vec<String>)>,
    /// What has not happened, and should have.
    pub missing: Vec<&'static str>,
}

impl Outcome {
    /// Whether every property holds, in as many states as there have to be.
    pub fn is_good(&self) -> bool {
        self.broken.is_empty() && self.missing.is_empty() && self.states >= self.part.floor
    }

    /// In a few words.
    pub fn verdict(&self) -> String {
        if !self.broken.is_empty() {
            "BROKEN".to_owned()
        } else if self.states < self.part.floor {
            format!("TOO FEW STATES, not {}", self.part.floor)
        } else if self.missing.is_empty() {
            "holds".to_owned()
        } else {
            format!("IDLE, no: {}", self.missing.join(", "))
        }
    }
}

impl Part {
    /// Goes through all of its states.
    pub fn run(self, threads: usize, progress: impl Fn(usize)) -> Outcome {
        match self.what {
            What::Lease(bounds) => {
                let model = LeaseModel::new(bounds, None);
                self.of(model, |model| &model.events, threads, progress)
            }
            What::Guards(fence, bounds) => {
                let model = GuardModel::new(fence, bounds, None);
                self.of(model, |model| &model.events, threads, progress)
            }
            What::Slots(bounds) => {
                let model = SlotModel::new(bounds, None);
                self.of(model, |model| &model.events, threads, progress)
            }
        }
    }

    fn of<M>(self, model: M, events: fn(&M) -> &Events, threads: usize, progress: impl Fn(usize)) -> Outcome
    where
        M: Told + Send + Sync + 'static,
        M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
        M::Action: Clone + PartialEq,
    {
        let properties = model.properties().iter().map(|property| property.name).collect();
        let (figures, checker) = all_states(model, threads, progress);
        let model = checker.model();
        let missing = self.events.iter().filter(|event| !events(model).has(**event));
        let missing = missing.map(|event| event.words()).collect();
        let broken =
            checker.discoveries().into_iter().map(|(name, path)| (name, crate::run::told(model, path)));
        Outcome {
            part: self,
            states: figures.states,
            depth: figures.depth,
            took: figures.took,
            properties,
            broken: broken.collect(),
            missing,
        }
    }

    /// Its bounds in words.
    pub fn bounds(self) -> String {
        match self.what {
            What::Lease(bounds) => {
                let lease::Bounds { processes, units, flights, left, back, .. } = bounds;
                let mut words = vec![
                    format!("{processes} processes"),
                    format!("ttl {}, deadline {}, grace {}", units.ttl, units.deadline, units.grace),
                    format!("{} statements under way, {} of one", flights[0], flights[1]),
                    match left.claims {
                        u8::MAX => "any number of claims".to_owned(),
                        claims => format!("{claims} claims"),
                    },
                ];
                let counts = [
                    (left.crashes, "killed"),
                    (left.odd, "units of drift"),
                    (left.suspends, "unseen suspends"),
                ];
                words.extend(
                    counts
                        .iter()
                        .filter(|(count, _)| *count > 0)
                        .map(|(count, what)| format!("{count} {what}")),
                );
                if left.back > 0 {
                    words.push(format!("{} clock steps back of {back:?}", left.back));
                }
                if left.forward > 0 {
                    words.push(format!("{} clock steps forward of {}", left.forward, bounds.forward));
                }
                words.join(", ")
            }
            What::Guards(_, bounds) => format!(
                "{} processes, {} terms, {} transactions, {} at once, no time",
                bounds.processes, bounds.terms, bounds.begun, bounds.transactions
            ),
            What::Slots(bounds) => format!(
                "{} processes, {} instants, {} claims, {} clock steps back, {} ghost ends, no time",
                bounds.processes, bounds.instants, bounds.terms, bounds.back, bounds.ghosts
            ),
        }
    }
}

/// Nothing may go wrong but what any network does.
pub const NOTHING_LEFT: Left = Left { claims: u8::MAX, crashes: 0, odd: 0, back: 0, forward: 0, suspends: 0 };

/// The least of a lease: two processes, a statement each.
pub const SMALL: lease::Bounds = lease::Bounds {
    processes: 2,
    units: Units::SHORTEST,
    flights: [2, 1],
    left: NOTHING_LEFT,
    back: &[3],
    back_exactly: false,
    forward: 0,
    observe: false,
    waiters: 1,
    release: false,
    heal: false,
    symmetric: true,
};

const LEASE_EVENTS: &[Event] = &[
    Event::HandedOver,
    Event::GhostClaim,
    Event::GhostReleased,
    Event::GhostRenewal,
    Event::LateAnswer,
    Event::DeadlinePassed,
    Event::GrantedTooLate,
];

const OBSERVE_EVENTS: &[Event] = &[Event::HandedOver, Event::Taken, Event::Moved, Event::DeadlinePassed];

const LOCKED_EVENTS: &[Event] =
    &[Event::HandedOver, Event::Committed, Event::GhostCommit, Event::BegunInVain, Event::ClaimKeptOff];

const MYSQL_EVENTS: &[Event] = &[
    Event::HandedOver,
    Event::Committed,
    Event::GhostCommit,
    Event::BegunInVain,
    Event::ClaimKeptOff,
    Event::CommitRefused,
    Event::OlderTransaction,
    Event::OwnOlderTransaction,
];

const SLOT_EVENTS: &[Event] = &[
    Event::GhostClaim,
    Event::Finished,
    Event::LostEndRecorded,
    Event::GhostEnd,
    Event::Passed,
    Event::Rerun,
    Event::GaveUp,
    Event::Moved,
];

/// The parts of a tier.
pub fn parts(tier: Tier) -> Vec<Part> {
    let more = usize::from(tier != Tier::Commit);
    let lease = |name, bounds, floor, events| Part { name, what: What::Lease(bounds), floor, events };
    let guards = |name, fence, bounds, events| Part {
        name,
        what: What::Guards(fence, bounds),
        floor: 100_000,
        events,
    };
    let (claims, drifts) = if tier == Tier::Commit { (5, 0) } else { (4, 1) };
    let three = lease::Bounds { processes: 3, flights: [3, 2], release: true, ..SMALL };
    let transactions =
        guards::Bounds { processes: 3, transactions: 2 + more, terms: 3 + u8::from(more > 0), begun: 3 };
    vec![
        lease(
            "lease",
            lease::Bounds {
                left: Left { claims, crashes: drifts, odd: 1 + drifts, ..NOTHING_LEFT },
                ..three
            },
            10_000_000,
            LEASE_EVENTS,
        ),
        lease(
            "clock",
            lease::Bounds {
                left: Left { crashes: 1, back: 1, ..NOTHING_LEFT },
                back: &[1, 3],
                release: true,
                ..SMALL
            },
            100_000,
            &[Event::HandedOver, Event::Revived, Event::GhostClaim],
        ),
        lease(
            "observe",
            lease::Bounds {
                left: Left { claims: 2, odd: 1 + drifts, back: 1, ..NOTHING_LEFT },
                back: &[2],
                observe: true,
                ..SMALL
            },
            50_000,
            OBSERVE_EVENTS,
        ),
        lease(
            "observe-clock",
            lease::Bounds {
                left: Left { claims: 2, back: 1, ..NOTHING_LEFT },
                back: &[1, 2, 3],
                observe: true,
                ..SMALL
            },
            50_000,
            OBSERVE_EVENTS,
        ),
        lease(
            "heal",
            lease::Bounds {
                processes: 3,
                left: Left { claims: 1, crashes: 1, back: 1, ..NOTHING_LEFT },
                back: &[3, 9],
                observe: true,
                heal: true,
                ..SMALL
            },
            4_000,
            &[Event::HeldAgain, Event::Taken],
        ),
        guards("postgres", Fence::Postgres, transactions, LOCKED_EVENTS),
        guards("mysql", Fence::Mysql, transactions, MYSQL_EVENTS),
        guards("sqlite", Fence::Sqlite, transactions, LOCKED_EVENTS),
        Part {
            name: "slots",
            what: What::Slots(slots::Bounds {
                processes: 2 + more,
                instants: 3,
                terms: 4,
                back: 1,
                ghosts: 1,
            }),
            floor: 100_000,
            events: SLOT_EVENTS,
        },
    ]
}
