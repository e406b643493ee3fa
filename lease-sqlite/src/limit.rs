//! How long a caller waits, and what the thread may do meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_core::clock::sleep_until;
use lease_core::store::StoreError;
use lease_core::{Clock, ErrorKind, Moment};
use tokio::sync::oneshot;

use crate::queue::{Kind, Order};

/// The time for one call, counted from its start over all its statements.
#[derive(Clone)]
pub(crate) struct Limit {
    /// The thread begins nothing and waits for no lock after this: a tenth before the caller leaves,
    /// so that it still hears why.
    until: Instant,
    /// The call ends here whatever the thread is doing (a disk may hang).
    give_up: Moment,
    clock: Arc<dyn Clock>,
}

/// Longer than anybody waits, and short enough to be added to any instant.
const FOREVER: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

impl Limit {
    pub(crate) fn new(clock: &Arc<dyn Clock>, within: Duration) -> Self {
        let within = within.min(FOREVER);
        let until = Instant::now() + within / 10 * 9;
        Self { until, give_up: clock.now() + within, clock: Arc::clone(clock) }
    }

    /// An order for a statement within this time.
    pub(crate) fn order(&self, kind: Kind) -> Order {
        Order { kind, until: self.until }
    }

    /// Waits for the thread's answer. The statement may be running when this gives up.
    pub(crate) async fn answer<T>(
        &self,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        tokio::select! {
            biased;
            answer = answer => answer.unwrap_or_else(|_| Err(thread_ended())),
            () = sleep_until(&self.clock, self.give_up) => Err(hung()),
        }
    }
}

fn hung() -> StoreError {
    StoreError::new(ErrorKind::Timeout, "the file did not answer in time")
}

fn thread_ended() -> StoreError {
    StoreError::new(ErrorKind::Other, "the store's thread has ended, which is a bug")
}
