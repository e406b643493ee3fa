//! What the handle of a proxy and its connections share.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::session::Message;
use super::{Direction, Passed};

/// What a test has done when a message comes.
pub(super) type Call = Box<dyn FnOnce() + Send>;

/// How many messages the log remembers.
const LOGGED: usize = 1000;

pub(super) struct Shared {
    faults: watch::Sender<Faults>,
    state: Mutex<State>,
}

/// The faults that last.
#[derive(Clone, Default)]
pub(super) struct Faults {
    /// By direction.
    pub(super) held: [bool; 2],
    pub(super) delay: Duration,
    pub(super) refusing: bool,
    /// How often everything has been cut: a connection ends when this is no longer what it was at its start.
    pub(super) cuts: u64,
    /// How often all connections have been left half open, counted likewise.
    pub(super) strandings: u64,
    pub(super) stopped: bool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) trips: u64,
    pub(super) connections: u64,
    pub(super) open: u64,
    /// Connections to the server that it has not ended.
    pub(super) served: u64,
    /// Plans count the messages of connecting and logging in as well.
    pub(super) counts_logins: bool,
    pub(super) log: VecDeque<Passed>,
    plans: Vec<Plan>,
    /// How many calls are due and have not returned.
    calls_due: usize,
    /// How many connections there have been since the start.
    numbered: u64,
    /// The first connection of which only bytes were seen from some message on, and why.
    opaque: Option<(u64, &'static str)>,
}

/// What is to be done at a message to come.
struct Plan {
    left: u64,
    direction: Direction,
    side: Side,
    act: Act,
}

/// Which side of the forwarding of its message a plan is carried out on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

pub(super) enum Act {
    Cut,
    Call(Call),
}

/// What is due at a message.
#[derive(Default)]
pub(super) struct Due {
    /// By side.
    pub(super) calls: [Vec<Call>; 2],
    pub(super) cut: [bool; 2],
}

impl Shared {
    pub(super) fn new() -> Self {
        Self { faults: watch::Sender::new(Faults::default()), state: Mutex::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Faults)) {
        self.faults.send_modify(change);
    }

    pub(super) fn faults(&self) -> Faults {
        self.faults.borrow().clone()
    }

    /// Returns once the handle is gone.
    pub(super) async fn stopped(&self) {
        self.until(|faults| faults.stopped).await;
    }

    /// Returns once nothing is held this way.
    pub(super) async fn free(&self, direction: Direction) {
        self.until(|faults| !faults.held[direction as usize]).await;
    }

    /// Returns once everything has been cut since.
    pub(super) async fn cut_since(&self, cuts: u64) {
        self.until(|faults| faults.cuts != cuts).await;
    }

    /// Returns once everything has been left half open since.
    pub(super) async fn stranded_since(&self, strandings: u64) {
        self.until(|faults| faults.strandings != strandings).await;
    }

    async fn until(&self, so: impl FnMut(&Faults) -> bool) {
        // The sender is ours: it is there as long as anybody waits.
        let _ = self.faults.subscribe().wait_for(so).await;
    }
}

impl State {
    pub(super) fn reset(&mut self) {
        self.trips = 0;
        self.connections = 0;
        self.log.clear();
    }

    /// Counts a new connection, and gives it its number.
    pub(super) fn opened(&mut self) -> u64 {
        self.connections += 1;
        self.open += 1;
        self.numbered += 1;
        self.numbered
    }

    /// From now on nobody knows what is asked and answered over all connections.
    pub(super) fn lost_sight_of(&mut self, connection: u64, why: &'static str) {
        self.opaque.get_or_insert((connection, why));
    }

    /// Why messages cannot be counted any more, if they cannot.
    pub(super) fn blindness(&self) -> Option<String> {
        let (connection, why) = self.opaque?;
        Some(format!(
            "the proxy saw only bytes on connection #{connection}, so it cannot count messages: {why}"
        ))
    }

    /// Plans an act for the `n`th message from now.
    pub(super) fn plan(&mut self, n: u64, direction: Direction, side: Side, act: Act) {
        self.plans.push(Plan { left: n, direction, side, act });
    }

    /// Gives up the plans that have not been carried out, and says how many they were.
    pub(super) fn forget_planned(&mut self) -> usize {
        std::mem::take(&mut self.plans).len()
    }

    /// How many plans have not been carried out.
    pub(super) fn planned(&self) -> usize {
        self.plans.len() + self.calls_due
    }

    /// A call that was due has returned.
    pub(super) fn called(&mut self) {
        self.calls_due -= 1;
    }

    /// Counts and logs a message that goes through.
    pub(super) fn passes(&mut self, connection: u64, direction: Direction, message: &Message) {
        self.trips += u64::from(message.begins_trip);
        self.log.push_back(Passed { connection, direction, kind: message.kind });
        if self.log.len() > LOGGED {
            self.log.pop_front();
        }
    }

    /// What is due at a message that has come.
    pub(super) fn due(&mut self, direction: Direction, message: &Message) -> Due {
        let mut due = Due::default();
        if message.login && !self.counts_logins {
            return due;
        }
        for plan in self.plans.iter_mut().filter(|plan| plan.direction == direction) {
            plan.left -= 1;
        }
        for Plan { side, act, .. } in self.plans.extract_if(.., |plan| plan.left == 0) {
            match act {
                Act::Cut => due.cut[side as usize] = true,
                Act::Call(call) => {
                    self.calls_due += 1;
                    due.calls[side as usize].push(call);
                }
            }
        }
        due
    }
}
