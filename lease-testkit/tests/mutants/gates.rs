//! Where statements meet that are wrong only when they interleave.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// Where the statements of all processes meet that are wrong only when they interleave: they wait
/// for each other rather than for luck. The tasks of a case take turns on one thread, so they wait for turns and not for
/// time, and meet on the slowest machine.
pub(crate) struct Gates {
    pub(crate) processes: AtomicUsize,
    arrived: AtomicUsize,
    pub(crate) others: AtomicUsize,
    pub(crate) connections: Semaphore,
    crowd: AtomicUsize,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            processes: AtomicUsize::new(0),
            arrived: AtomicUsize::new(0),
            others: AtomicUsize::new(0),
            connections: Semaphore::new(4),
            crowd: AtomicUsize::new(0),
        }
    }
}

/// How many turns of all others a statement waits at a gate when nobody comes. In as many, who can come has come.
const ALONE: usize = 1_000;

/// More than come at once where a case has no crowd.
const CROWD: usize = 32;

impl Gates {
    /// Waits until a crowd is at this gate. Says whether it is.
    pub(crate) async fn crowd(&self) -> bool {
        self.crowd.fetch_add(1, Ordering::SeqCst);
        self.until(|| self.crowd.load(Ordering::SeqCst) >= CROWD).await;
        self.crowd.load(Ordering::SeqCst) >= CROWD
    }

    /// Waits until two statements are at this gate. Says whether this one came second.
    pub(crate) async fn meet(&self) -> bool {
        let ticket = self.arrived.fetch_add(1, Ordering::SeqCst);
        let second = ticket | 1;
        self.until(|| self.arrived.load(Ordering::SeqCst) > second).await;
        ticket == second
    }

    /// Waits until another statement has ended.
    pub(crate) async fn let_another_pass(&self) {
        let before = self.others.load(Ordering::SeqCst);
        self.until(|| self.others.load(Ordering::SeqCst) != before).await;
    }

    async fn until(&self, open: impl Fn() -> bool) {
        for _ in 0..ALONE {
            if open() {
                return;
            }
            yield_now().await;
        }
        // Nobody else is there: the statement goes on alone.
    }
}
