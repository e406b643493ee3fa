//! Whether this instance leads, and what only a leader has.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lease_core::Tenure;

/// What the election says to those who answer requests.
#[derive(Clone, Default)]
pub(crate) struct Leadership(Arc<Mutex<Option<Arc<Seat>>>>);

/// What the leader has while it leads. Who answers a request holds it until the answer is made, and its tenure
/// with it: so the name is not given back, and nobody else leads, while a request is being served.
pub(crate) struct Seat {
    tenure: Tenure,
    issued: AtomicU64,
}

/// A number that comes once in the life of the service. Those of a later term are greater.
pub(crate) struct Ticket {
    pub(crate) term: i64,
    pub(crate) number: u64,
}

impl Leadership {
    /// The work of the election: to be there until it is asked to end, or the lease is lost.
    pub(crate) async fn lead(self, tenure: Tenure) -> Result<(), Infallible> {
        *self.lock() = Some(Arc::new(Seat { tenure: tenure.clone(), issued: AtomicU64::new(0) }));
        let _until_it_ends = Leaves(self);
        tenure.stopping().await;
        Ok(())
    }

    /// What the leader has; `None` when this instance does not lead.
    pub(crate) fn seat(&self) -> Option<Arc<Seat>> {
        self.lock().as_ref().filter(|seat| seat.tenure.check()).map(Arc::clone)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Seat>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// The term, and how well the lease is held.
    pub(crate) fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// The next number. No database is asked: the term says that nobody else counts under it.
    pub(crate) fn next_ticket(&self) -> Ticket {
        let before = self.issued.fetch_add(1, Ordering::Relaxed);
        Ticket { term: self.tenure.term().get(), number: before + 1 }
    }
}

/// Leaves the seat also when the work is aborted: a tenure that stays behind would keep the name.
struct Leaves(Leadership);

impl Drop for Leaves {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}
