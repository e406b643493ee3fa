//! What the handle of a proxy and its connections share.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::session::Message;
use super::{Direction, Passed};

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
    pub(super) stopped: bool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) trips: u64,
    pub(super) connections: u64,
    pub(super) open: u64,
    pub(super) log: VecDeque<Passed>,
    pub(super) plans: Vec<Plan>,
    /// How many connections there have been since the start.
    numbered: u64,
    /// The first connection of which only bytes were seen from some message on, and why.
    opaque: Option<(u64, &'static str)>,
}

/// A cut to come.
pub(super) struct Plan {
    pub(super) left: u64,
    pub(super) direction: Direction,
    /// Whether the last message counted still goes through.
    pub(super) forward: bool,
}

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Forward,
    ForwardThenCut,
    Cut,
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

    /// Says what becomes of a message, and counts and logs it if it goes through.
    pub(super) fn judge(&mut self, connection: u64, direction: Direction, message: &Message) -> Verdict {
        let verdict = if message.login { Verdict::Forward } else { self.planned(direction) };
        if verdict != Verdict::Cut {
            self.trips += u64::from(message.begins_trip);
            self.log.push_back(Passed { connection, direction, kind: message.kind });
            if self.log.len() > LOGGED {
                self.log.pop_front();
            }
        }
        verdict
    }

    fn planned(&mut self, direction: Direction) -> Verdict {
        let mut verdict = Verdict::Forward;
        self.plans.retain_mut(|plan| {
            if plan.direction != direction {
                return true;
            }
            plan.left -= 1;
            if plan.left == 0 {
                verdict = match (verdict, plan.forward) {
                    (Verdict::Cut, _) | (_, false) => Verdict::Cut,
                    (_, true) => Verdict::ForwardThenCut,
                };
            }
            plan.left > 0
        });
        verdict
    }
}
