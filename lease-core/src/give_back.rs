//! The end of a lease as the database is told of it: the name released or, where a round ran to its end,
//! that recorded with it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::attempt::attempt;
use crate::clock::{Moment, sleep_until};
use crate::state::{LeaseState, Settled, Setup};
use crate::store::{FinishAnswer, ReleaseAnswer, SlotEnd, StoreError};
use crate::{LeaseName, LeaseStore, Slot};

/// Releases a name under which nothing of ours acts any more, again and again until its row has surely expired. Answers
/// whether it is free by that, and not by its expiry.
pub(crate) async fn release(store: &dyn LeaseStore, setup: &Setup, state: &LeaseState) -> bool {
    let until = state.row_expired_by();
    let mut is_free = false;
    if setup.clock.now() < until {
        let ask = |within| store.release(&state.name, &state.holder, within);
        let answer = again_until(until, "release failed", setup, state, ask).await;
        if let Ok(answer) = answer {
            tracing::info!(lease = %state.name, term = %state.term, ?answer, "released");
            is_free = answer == ReleaseAnswer::Released;
        }
    }
    if is_free {
        state.given_back();
    }
    state.settled(Settled::Done);
    is_free
}

/// Tells those who wait for a name that was given back, here and elsewhere. Best effort, and for at most an attempt: without
/// it they look a little later.
pub(crate) async fn announce(store: &dyn LeaseStore, setup: &Setup, name: &LeaseName) {
    let within = setup.timings.attempt();
    let told = attempt(&setup.clock, setup.clock.now() + within, store.announce(name, within)).await;
    if let Err(error) = told {
        tracing::debug!(lease = %name, %error, "release was not announced");
    }
}

/// The end of a round, to be recorded.
pub(crate) struct Finish {
    pub(crate) slot: Slot,
    pub(crate) passed: Option<Slot>,
    pub(crate) reply: Reply,
}

type Reply = oneshot::Sender<Result<FinishAnswer, Arc<StoreError>>>;

/// What came of it, before anybody is told.
pub(crate) struct Recorded {
    pub(crate) answer: Result<FinishAnswer, Arc<StoreError>>,
    reply: Reply,
}

impl Finish {
    /// Records it, again and again for as long as the row lasts by now, and at least once: it is worth
    /// recording however long ago the lease was lost.
    pub(crate) async fn record(self, store: &dyn LeaseStore, setup: &Setup, state: &LeaseState) -> Recorded {
        let Self { slot, passed, reply } = self;
        let ask = async |within| {
            let (name, holder) = (state.name.clone(), state.holder);
            let end = SlotEnd { name, holder, slot, passed, lost: state.is_gone() };
            store.finish_slot(&end, within).await
        };
        let answer = again_until(state.row_expired_by(), "finish failed", setup, state, ask).await;
        if let Ok(answer) = answer {
            tracing::info!(lease = %state.name, term = %state.term, %slot, ?answer, "finished");
        }
        Recorded { answer, reply }
    }
}

impl Recorded {
    /// Whoever wanted to know may have gone.
    pub(crate) fn tell(self) {
        drop(self.reply.send(self.answer));
    }
}

/// Asks until there is an answer, or the next attempt would begin at `until` or later. Answers the last error then.
async fn again_until<T, F>(
    until: Moment,
    failed: &'static str,
    setup: &Setup,
    state: &LeaseState,
    ask: impl Fn(Duration) -> F,
) -> Result<T, Arc<StoreError>>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let (clock, within) = (&setup.clock, setup.timings.attempt());
    loop {
        let started = clock.now();
        let error = match attempt(clock, started + within, ask(within)).await {
            Ok(answer) => return Ok(answer),
            Err(error) => Arc::new(error),
        };
        tracing::warn!(lease = %state.name, term = %state.term, %error, "{failed}");
        state.settled(Settled::Failed(Arc::clone(&error)));
        let again = clock.now().max(started + setup.timings.retry_interval());
        if again >= until {
            return Err(error);
        }
        sleep_until(clock, again).await;
    }
}
