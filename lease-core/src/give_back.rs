//! The end of a lease as the database is told of it: the name released or, where a round ran to its end,
//! that recorded with it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::attempt::attempt;
use crate::client::Open;
use crate::clock::{Moment, sleep_until};
use crate::state::{LeaseState, Settled, Setup};
use crate::store::{FinishAnswer, SlotEnd, StoreError};
use crate::{LeaseStore, Slot};

/// A lease under which nothing of ours acts any more.
pub(crate) struct GiveBack {
    pub(crate) state: Arc<LeaseState>,
    /// The round that ran to its end; `None`: the name is released, no more.
    pub(crate) finish: Option<Finish>,
    /// Dropped when the database has been told.
    pub(crate) open: Open,
}

/// The end of a round, to be recorded.
pub(crate) struct Finish {
    pub(crate) slot: Slot,
    pub(crate) passed: Option<Slot>,
    pub(crate) reply: oneshot::Sender<Result<FinishAnswer, Arc<StoreError>>>,
}

impl GiveBack {
    /// Tells the database, again and again until the row has surely expired.
    pub(crate) async fn tell(self, store: &dyn LeaseStore, setup: &Setup) {
        let Self { state, finish, open } = self;
        match finish {
            None => release(store, setup, &state).await,
            Some(finish) => record(store, setup, &state, finish).await,
        }
        state.settled(Settled::Done);
        drop(open);
    }
}

async fn release(store: &dyn LeaseStore, setup: &Setup, state: &LeaseState) {
    let until = state.row_expired_by();
    if setup.clock.now() >= until {
        return;
    }
    let ask = |within| store.release(&state.name, &state.holder, within);
    if again_until(until, "release failed", setup, state, ask).await.is_ok() {
        tracing::info!(lease = %state.name, term = %state.term, "released");
    }
}

/// Tells of the end at least once: it is worth recording however long ago the lease was lost.
async fn record(store: &dyn LeaseStore, setup: &Setup, state: &LeaseState, finish: Finish) {
    let Finish { slot, passed, reply } = finish;
    let (name, holder) = (state.name.clone(), state.holder);
    let end = SlotEnd { name, holder, slot, passed, lost: state.is_gone() };
    let ask = |within| store.finish_slot(&end, within);
    let answer = again_until(state.row_expired_by(), "finish failed", setup, state, ask).await;
    if let Ok(answer) = answer {
        tracing::info!(lease = %state.name, term = %state.term, %slot, ?answer, "finished");
    }
    // Whoever wanted to know may have gone.
    drop(reply.send(answer));
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
