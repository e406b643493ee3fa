//! The way from a client to the database and back, on which statements and answers are late, lost, or outlive their client.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use lease_core::ErrorKind;
use lease_core::store::StoreError;
use lease_testkit::Op;
use tokio::sync::oneshot;

use super::database::Service;
use super::faults::Weather;
use super::time::{Nanos, nanos};
use super::world::{Event, State, World};

const MS: Nanos = 1_000_000;

/// What a client's store sends its statements by.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) world: Arc<World>,
    pub(super) node: usize,
}

/// What becomes of a statement and its answer.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// The connection is refused.
    Refused,
    /// It never arrives.
    Gone,
    Arrives {
        after: Nanos,
        answer: Answer,
    },
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Comes {
        after: Nanos,
    },
    /// The connection breaks.
    Breaks {
        after: Nanos,
    },
    Never,
}

impl Link {
    pub(super) fn new(world: &Arc<World>, node: usize) -> Self {
        Self { world: Arc::clone(world), node }
    }

    /// Sends a statement and waits for its answer.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        op: Op,
        within: Duration,
        statement: impl FnOnce(&mut State) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let fate = self.world.with(|state| state.fate(self.node, nanos(within)));
        self.send(op, fate, statement).await
    }

    /// Sends a statement that arrives after its client has given it up.
    pub(super) async fn call_late<T: Send + 'static>(
        &self,
        after: Nanos,
        statement: impl FnOnce(&mut State) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.send(Op::Check, Fate::Arrives { after, answer: Answer::Never }, statement).await
    }

    async fn send<T: Send + 'static>(
        &self,
        op: Op,
        fate: Fate,
        statement: impl FnOnce(&mut State) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answered) = oneshot::channel();
        let node = self.node;
        let (after, answer) = match fate {
            Fate::Refused => {
                return Err(StoreError::new(ErrorKind::Unavailable, "no connection").without_effect());
            }
            Fate::Gone => return pending().await,
            Fate::Arrives { after, answer } => (after, answer),
        };
        let is_stray = matches!(answer, Answer::Never);
        let arrival = move |state: &mut State| {
            state.strays -= usize::from(is_stray);
            if state.database.service == Service::Silent {
                return;
            }
            let result = state.database.refusal(op).map_or_else(|| statement(state), Err);
            let (after, result) = match answer {
                Answer::Comes { after } => (after, result),
                Answer::Breaks { after } => {
                    (after, Err(StoreError::new(ErrorKind::Unavailable, "the connection broke")))
                }
                Answer::Never => return,
            };
            state.after(after, Event::Answer(node, Box::new(move || drop(reply.send(result)))));
        };
        self.world.with(|state| {
            state.strays += usize::from(is_stray);
            state.after(after, Event::Arrive(Box::new(arrival)));
        });
        match answered.await {
            Ok(answer) => answer,
            Err(_) => pending().await,
        }
    }
}

impl State {
    fn fate(&mut self, node: usize, within: Nanos) -> Fate {
        let quick = |state: &mut Self| state.random.within(MS / 10..8 * MS);
        let fair = |state: &mut Self| Fate::Arrives {
            after: quick(state),
            answer: Answer::Comes { after: quick(state) },
        };
        match self.weather[node] {
            Weather::Fair => fair(self),
            Weather::Cut => {
                self.count("statements cut off");
                if self.random.percent(50) { Fate::Gone } else { Fate::Refused }
            }
            Weather::HalfOpen => {
                self.count("answers that never came");
                Fate::Arrives { after: quick(self), answer: Answer::Never }
            }
            Weather::Slow => {
                self.count("slow statements");
                let (after, back) = (self.random.below(within), self.random.below(within));
                Fate::Arrives { after, answer: Answer::Comes { after: back } }
            }
            Weather::Lossy => match self.random.below(10) {
                0 | 1 => {
                    self.count("lost answers");
                    Fate::Arrives { after: quick(self), answer: Answer::Breaks { after: quick(self) } }
                }
                2 => {
                    self.count("hangs");
                    Fate::Gone
                }
                3 | 4 => {
                    self.count("ghosts");
                    Fate::Arrives { after: self.random.below(within), answer: Answer::Never }
                }
                5 => {
                    self.count("late lost answers");
                    let back = self.random.below(within);
                    Fate::Arrives { after: quick(self), answer: Answer::Breaks { after: back } }
                }
                6 => {
                    self.count("statements not sent");
                    Fate::Refused
                }
                _ => fair(self),
            },
        }
    }
}
