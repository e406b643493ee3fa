//! One statement, asked once: with a bound, and with a store's panic turned into an error.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use crate::clock::{Moment, timeout_at};
use crate::meter::Told;
use crate::panicked::message;
use crate::state::LeaseState;
use crate::store::{RenewAnswer, StoreError};
use crate::{Clock, ErrorKind, LeaseStore};

/// Waits for a statement's answer until `give_up`. The statement's future is dropped then.
pub(crate) async fn attempt<T>(
    clock: &Arc<dyn Clock>,
    give_up: Moment,
    statement: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout_at(clock, give_up, caught(statement)).await.unwrap_or_else(|| Err(no_answer()))
}

/// A statement whose panic is an error like others: one defect of a store must not end the task that
/// renews all leases. Nobody knows what it did before.
pub(crate) async fn caught<T>(
    statement: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    AssertUnwindSafe(statement).catch_unwind().await.unwrap_or_else(|payload| {
        let message = format!("the store panicked: {}", message(payload.as_ref()));
        Err(StoreError::new(ErrorKind::Other, message))
    })
}

/// The error of a statement whose answer is not waited for any longer.
pub(crate) fn no_answer() -> StoreError {
    StoreError::new(ErrorKind::Timeout, "no answer within the attempt")
}

/// Renews one lease alone, as part of the attempt begun at `started`: for at most an attempt, and
/// never past the deadline.
pub(crate) async fn renew(
    store: &dyn LeaseStore,
    state: &LeaseState,
    started: Moment,
) -> Result<RenewAnswer, StoreError> {
    let (clock, timings) = (&state.setup.clock, &state.setup.timings);
    let give_up = (started + timings.attempt()).min(state.deadline());
    let within = give_up.since(clock.now());
    let renewal = store.renew(&state.name, &state.holder, timings.ttl(), within);
    let answer = attempt(clock, give_up, renewal).await;
    state.setup.meter.tell(|| {
        let answer = match answer {
            Ok(RenewAnswer::Renewed(_)) => "renewed",
            Ok(RenewAnswer::Lost) => "lost",
            Err(_) => "failed",
        };
        Told::Renewal { leases: 1, answer, took: clock.now().since(started) }
    });
    answer
}
