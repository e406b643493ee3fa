//! The model of slots: instants of a schedule, each claimed once per cluster.
//!
//! As that of guards it has no time but the database's clock: a lease may expire at any moment, so no rule of slots can lean on a
//! holder's health. What a claim of an instant is answered is judged by the library's own [`SlotState::judge`].
//!
//! [`SlotState::judge`]: lease_core::store::SlotState::judge

mod actions;
mod step;
mod words;

use stateright::{Model, Property};

use crate::events::Events;

pub use actions::Action;

/// How many processes there are.
pub const PROCESSES: usize = 3;
/// Instants come at 1, 2, ... by the database's clock; there are at most so many.
pub const INSTANTS: usize = 4;

/// A defect planted into the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// The end of a round is recorded on a row whoever holds it.
    FinishOfAnybody,
    /// A claim of an instant writes on a row that has moved since it was judged.
    ClaimWithoutComparing,
    /// It compares the term, but not whether a round has ended meanwhile.
    ClaimComparesTheTermOnly,
    /// A claim of a rerun compares the term, but not whether the round has ended meanwhile. (The other way round nothing breaks: the
    /// instants on record say as much as the term, for none of its claims leaves them as they were.)
    RerunComparesTheTermOnly,
    /// A rerun is not recorded.
    RerunNotRecorded,
    /// An instant is claimed though it has not come by the database's clock.
    ClaimedEarly,
    /// The end of a round records as passed what has not come by the database's clock.
    PassedEarly,
    /// The end of a lost round is not compared with the instant on record.
    LostEndClearsAny,
    /// A finished round stays unfinished on record.
    FinishForgets,
}

/// How far it goes.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Processes.
    pub processes: usize,
    /// Instants.
    pub instants: u8,
    /// How often the name is claimed.
    pub terms: u8,
    /// How often the database's clock is stepped back by one instant.
    pub back: u8,
    /// Ends of rounds that are under way without a client, at once.
    pub ghosts: usize,
}

/// The model.
pub struct SlotModel {
    /// How far it goes.
    pub bounds: Bounds,
    /// What is wrong with it.
    pub planted: Option<Planted>,
    /// What has happened.
    pub events: Events,
}

/// One moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The row.
    pub row: Row,
    /// The database's clock.
    pub now: u8,
    /// How often it may still be stepped back.
    pub back: u8,
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// Ends that nobody waits for any more, and which may come any time.
    pub ghosts: [Option<End>; 2],
    /// What has become of each instant.
    pub instants: [Instant; INSTANTS],
    /// What has gone wrong.
    pub wrong: Wrong,
}

/// The row: instants by their number, 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Row {
    /// Stands for the holder as well.
    pub term: u8,
    /// Not expired, nor released.
    pub live: bool,
    /// The last instant claimed or skipped.
    pub last: u8,
    /// The one cut short.
    pub unfinished: u8,
    /// The one claimed again.
    pub rerun: u8,
}

/// What a process is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Process {
    /// It is not part of the model.
    Absent,
    /// Nothing.
    Idle,
    /// It has read the row, may claim this instant, and is about to.
    Judged {
        /// The instant.
        slot: u8,
        /// What the row was like.
        seen: Seen,
        /// The instant that it was told to give up.
        gives_up: u8,
    },
    /// It has seen that this round was cut short, and is about to claim its rerun.
    Rerunning {
        /// The instant.
        slot: u8,
        /// The term that it has seen.
        term: u8,
    },
    /// The work of this round runs.
    Running {
        /// The instant.
        slot: u8,
        /// By this term.
        term: u8,
    },
    /// It has run to its end, and that is being told.
    Ending {
        /// What is told.
        end: End,
        /// The first step has found that the lease is lost.
        second: bool,
    },
}

/// What a claim of an instant has read of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seen {
    /// Its term.
    pub term: u8,
    /// The last instant.
    pub last: u8,
    /// The one cut short.
    pub unfinished: u8,
}

/// The end of a round, to be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The instant.
    pub slot: u8,
    /// By which term it ran.
    pub term: u8,
    /// The latest instant that has come meanwhile, by the local clock.
    pub passed: u8,
    /// The lease is known to be lost.
    pub lost: bool,
}

/// What has become of an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Instant {
    /// How often it was granted.
    pub granted: u8,
    /// Its end is on record, or has been.
    pub ended: bool,
}

/// What has gone wrong, noted as it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub struct Wrong {
    /// An instant was granted after a later one.
    pub out_of_order: bool,
    /// It was granted, or recorded as passed, before it had come.
    pub early: bool,
    /// It was granted though its end was on record.
    pub after_its_end: bool,
    /// A grant gave up an instant whose end was on record.
    pub gave_up_ended: bool,
    /// An end freed the name of another holder.
    pub freed_another: bool,
}

/// Each instant is granted ...
pub const ONCE_AND_A_RERUN: &str = "an instant is granted at most once, and one rerun";
/// ...
pub const IN_ORDER: &str = "instants are granted in order";
/// ...
pub const NOT_EARLY: &str = "none is granted or passed before it has come by the database's clock";
/// ...
pub const NEVER_AGAIN: &str = "a round whose end is on record never runs again";
/// ...
pub const NONE_FORGOTTEN: &str = "a round cut short is on record until its end or a later instant";
/// ...
pub const GIVEN_UP_RIGHTLY: &str = "what is told as given up had not ended";
/// ...
pub const OWN_NAME_ONLY: &str = "the end of a round frees no name of another";

impl SlotModel {
    /// A model within bounds.
    pub fn new(bounds: Bounds, planted: Option<Planted>) -> Self {
        Self { bounds, planted, events: Events::default() }
    }

    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }
}

impl Model for SlotModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut processes = [Process::Absent; PROCESSES];
        processes[PROCESSES - self.bounds.processes..].fill(Process::Idle);
        vec![World {
            row: Row { term: 0, live: false, last: 0, unfinished: 0, rerun: 0 },
            now: 0,
            back: self.bounds.back,
            processes,
            ghosts: [None; 2],
            instants: [Instant::default(); INSTANTS],
            wrong: Wrong::default(),
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.possible(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.play(&mut next, action);
        // Processes are not told apart, nor ghosts.
        next.processes.sort_unstable();
        next.ghosts.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(ONCE_AND_A_RERUN, |_, world: &World| {
                world.instants.iter().all(|instant| instant.granted <= 2)
            }),
            Property::<Self>::always(IN_ORDER, |_, world: &World| !world.wrong.out_of_order),
            Property::<Self>::always(NOT_EARLY, |_, world: &World| !world.wrong.early),
            Property::<Self>::always(NEVER_AGAIN, |_, world: &World| !world.wrong.after_its_end),
            Property::<Self>::always(GIVEN_UP_RIGHTLY, |_, world: &World| !world.wrong.gave_up_ended),
            Property::<Self>::always(OWN_NAME_ONLY, |_, world: &World| !world.wrong.freed_another),
            Property::<Self>::always(NONE_FORGOTTEN, |_, world: &World| {
                let last = usize::from(world.row.last);
                let Some(instant) = last.checked_sub(1).and_then(|last| world.instants.get(last)) else {
                    return true;
                };
                instant.granted == 0 || (world.row.unfinished == world.row.last) != instant.ended
            }),
        ]
    }
}
