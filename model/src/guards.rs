//! The model of guarded transactions, one for each kind of fence.
//!
//! It has no time: a lease may expire at any moment, and a holder may believe for as long as it likes. So whatever clocks,
//! pauses, suspends and clock steps can do is among what it goes through: the fence has to hold against all of it.

mod actions;
mod step;
mod words;

use stateright::{Model, Property};

use crate::events::Events;

pub use actions::Action;

/// How many processes there are, and how many transactions at once.
pub const PROCESSES: usize = 3;

/// What excludes a successor's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// A key-share lock on the row, from the first statement to the end: a claim is answered held meanwhile.
    Postgres,
    /// A locking read that fails when the lease is lost, in one flight with the commit.
    Mysql,
    /// The one write lock of the file, from the beginning to the end; the lease is verified and renewed inside.
    Sqlite,
}

/// A defect planted into the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// PostgreSQL: the first statement is a plain select, without a lock.
    PlainSelect,
    /// PostgreSQL: a claim does not change the key, so the lock is not in its way.
    ClaimKeepsTheKey,
    /// MySQL: the lease is verified at the beginning, and no more.
    VerifiedAtBeginOnly,
    /// MySQL: the locking read is a transaction of its own, whose lock is gone before the commit.
    FenceApart,
    /// MySQL: the commit is run though the fence in front of it has failed.
    CommitRunsOn,
    /// SQLite: the lease is verified before the file's lock is taken.
    VerifiedOutside,
    /// SQLite: the lock is taken, and nothing verified in it.
    NotVerified,
    /// What ends sessions does not ask whether the commit is on its way, and says lost.
    KilledWhileCommitting,
    /// A commit without an answer is said to have failed.
    UnknownSaidFailed,
}

/// How far it goes.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Processes.
    pub processes: usize,
    /// Transactions open at once.
    pub transactions: usize,
    /// How often the name is claimed.
    pub terms: u8,
    /// How many transactions there are in all.
    pub begun: u8,
}

/// The model.
pub struct GuardModel {
    /// Whose fence.
    pub fence: Fence,
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
    /// The row's term, which stands for its holder's token as well, for every claim brings both.
    pub term: u8,
    /// The row has not expired.
    pub live: bool,
    /// Of each process.
    pub processes: [Process; PROCESSES],
    /// Transactions.
    pub transactions: [Option<Transaction>; PROCESSES],
    /// Transactions that may be begun.
    pub to_begin: u8,
    /// A guarded transaction was committed after a later claim.
    pub late_commit: bool,
    /// One was said to be lost or failed, and is committed; or the other way round.
    pub lied: bool,
}

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Process {
    /// It is part of the model.
    pub there: bool,
    /// The term it believes to hold, or 0.
    pub lease: u8,
    /// A claim of its is under way.
    pub claiming: bool,
    /// The term that the answer on its way grants, or 0.
    pub granted: u8,
}

/// A transaction under a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transaction {
    /// The process it belongs to.
    pub owner: u8,
    /// The term it was begun under.
    pub term: u8,
    /// On the server.
    pub server: Server,
    /// In the program.
    pub client: Client,
    /// The commit was sent.
    pub sent: bool,
}

/// Where the server is with a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Server {
    /// The flight that begins it has not come.
    Nothing,
    /// SQLite: the lease was seen held, and the lock is not taken yet; only with a planted fault.
    Verified,
    /// Open, with what the fence locks from the beginning.
    Open,
    /// Open, and the business write is in it.
    Written,
    /// The fence in front of the commit has passed.
    Fenced,
    /// Committed.
    Committed,
    /// Rolled back, by the program or with its session.
    Undone,
}

/// Where the program is with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// It works in it.
    Working,
    /// It has sent the commit.
    Committing,
    /// It was told that it is committed.
    ToldCommitted,
    /// It was told that it is lost or has failed, and that nothing is committed.
    ToldUndone,
    /// It is told that nobody knows, or is dead.
    Gone,
}

/// The promise.
pub const NO_LATE_COMMIT: &str = "no guarded commit after a later claim";
/// The answers.
pub const HONEST: &str = "what is said of a commit is true";

impl GuardModel {
    /// A model within bounds.
    pub fn new(fence: Fence, bounds: Bounds, planted: Option<Planted>) -> Self {
        Self { fence, bounds, planted, events: Events::default() }
    }

    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    fn tidied(mut world: World) -> World {
        for transaction in &mut world.transactions {
            // All is said and done.
            if transaction.is_some_and(|transaction| {
                matches!(transaction.server, Server::Committed | Server::Undone)
                    && !matches!(transaction.client, Client::Working | Client::Committing)
            }) {
                *transaction = None;
            }
        }
        // One transaction is like another.
        world.transactions.sort_unstable();
        Self::sort_processes(&mut world);
        world
    }
}

impl GuardModel {
    /// Nor are processes told apart: the order is that of what is theirs.
    fn sort_processes(world: &mut World) {
        let mut order: [u8; PROCESSES] = [0, 1, 2];
        let key = |index: &u8| {
            let of_it = world.transactions.map(|transaction| {
                transaction
                    .filter(|transaction| transaction.owner == *index)
                    .map(|transaction| Transaction { owner: 0, ..transaction })
            });
            (world.processes[usize::from(*index)], of_it)
        };
        order.sort_by_cached_key(key);
        let processes = order.map(|index| world.processes[usize::from(index)]);
        for transaction in world.transactions.iter_mut().flatten() {
            let place = order.iter().position(|index| *index == transaction.owner);
            transaction.owner = u8::try_from(place.unwrap_or_default()).expect("a small index");
        }
        world.processes = processes;
        world.transactions.sort_unstable();
    }
}

impl Model for GuardModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut processes = [Process::default(); PROCESSES];
        for process in processes.iter_mut().take(self.bounds.processes) {
            process.there = true;
        }
        vec![World {
            term: 0,
            live: false,
            processes,
            transactions: [None; PROCESSES],
            to_begin: self.bounds.begun,
            late_commit: false,
            lied: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.possible(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.play(&mut next, action);
        Some(Self::tidied(next))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(NO_LATE_COMMIT, |_, world: &World| !world.late_commit),
            Property::<Self>::always(HONEST, |_, world: &World| !world.lied),
        ]
    }
}
