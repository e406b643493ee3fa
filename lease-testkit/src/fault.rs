//! A store that fails on purpose, by plan.

mod statements;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{Future, pending};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_core::clock::sleep_until;
use lease_core::store::StoreError;
use lease_core::{Clock, ErrorKind, LeaseName, LeaseStore, Moment};

/// A method of [`LeaseStore`] that sends a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is named after its method")]
pub enum Op {
    Migrate,
    Check,
    Claim,
    Renew,
    RenewMany,
    Verify,
    Release,
    ClaimObserved,
    Inspect,
    List,
    Clear,
    Resign,
    ClaimSlot,
    FinishSlot,
    UnfinishedSlots,
    ClaimRerun,
    LastSlot,
    Announce,
}

/// What goes wrong with one call. Durations are by the clock of the [`FaultStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The statement is not sent. The answer is an error of this kind, surely without effect.
    FailBefore(ErrorKind),
    /// The statement takes place, and its answer is lost: an error of this kind and unknown effect.
    FailAfter(ErrorKind),
    /// The statement takes place at once, and this much later its answer is lost: an error of this
    /// kind and unknown effect.
    FailLate(Duration, ErrorKind),
    /// The statement is sent this much later; not at all if the future is dropped before.
    DelayBefore(Duration),
    /// The statement takes place at once; its answer comes this much later.
    DelayAfter(Duration),
    /// The statement is not sent and no answer ever comes.
    HangBefore,
    /// The statement takes place at once and no answer ever comes.
    HangAfter,
    /// No answer ever comes; the statement takes place this much later, on a task of its own,
    /// whether or not the future has been dropped.
    Ghost(Duration),
}

/// A call that a [`FaultStore`] has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The method.
    pub op: Op,
    /// Which call of this method it is, from 1.
    pub number: usize,
    /// The name asked about; the first one of a batch.
    pub name: Option<LeaseName>,
    /// How many leases or names it is about.
    pub size: usize,
    /// When it was made, by the store's clock.
    pub at: Moment,
}

/// Wraps a store; calls go through to it unless a plan has a fault for them.
///
/// A fault is looked for in this order: [`next`](Self::next), [`plan`](Self::plan),
/// [`always`](Self::always). Every call is counted, also one that was never sent. Clones share the
/// plans and counts, so a test keeps one and gives one to the code it tests.
///
/// ```
/// use lease_core::{ErrorKind, LeaseStore};
/// use lease_testkit::{Fault, FaultStore, ManualClock, MemoryStore, Op};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = FaultStore::new(MemoryStore::new(), ManualClock::new());
/// store.next(Op::Check, Fault::FailBefore(ErrorKind::Unavailable));
/// assert_eq!(store.check().await.unwrap_err().kind(), ErrorKind::Unavailable);
/// assert!(store.check().await.is_ok());
/// assert_eq!(store.calls(Op::Check), 2);
/// # });
/// ```
#[derive(Clone)]
pub struct FaultStore {
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
    flights: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    next: HashMap<Op, VecDeque<Fault>>,
    plan: Option<Plan>,
    always: HashMap<Op, Fault>,
    counts: HashMap<Op, usize>,
    log: Vec<Call>,
    is_deaf: bool,
}

type Plan = Arc<dyn Fn(&Call) -> Option<Fault> + Send + Sync>;

impl FaultStore {
    /// Wraps `store`. Delays go by `clock`.
    pub fn new(store: impl LeaseStore, clock: Arc<dyn Clock>) -> Self {
        Self::shared(Arc::new(store), clock)
    }

    /// Wraps a store that is shared already.
    pub fn shared(store: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, state: Arc::default(), flights: Arc::default() }
    }

    /// Queues a fault for the next call of `op` that has none queued yet.
    pub fn next(&self, op: Op, fault: Fault) {
        self.lock().next.entry(op).or_default().push_back(fault);
    }

    /// Gives every call of `op` this fault.
    pub fn always(&self, op: Op, fault: Fault) {
        self.lock().always.insert(op, fault);
    }

    /// Asks `plan` about every call. It replaces a former plan, and is called with no lock held.
    pub fn plan(&self, plan: impl Fn(&Call) -> Option<Fault> + Send + Sync + 'static) {
        self.lock().plan = Some(Arc::new(plan));
    }

    /// Hears of no name given back from now on, as on an engine that tells nothing: who begins to wait has to look.
    pub fn deafen(&self) {
        self.lock().is_deaf = true;
    }

    /// Forgets all faults that are still to come. Calls that hang go on hanging; counts stay.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.next.clear();
        state.always.clear();
        let plan = state.plan.take();
        drop(state);
        // Dropped outside the lock: what it captured may be a clone of this store.
        drop(plan);
    }

    /// How many calls of `op` have been made.
    pub fn calls(&self, op: Op) -> usize {
        self.lock().counts.get(&op).copied().unwrap_or(0)
    }

    /// How many calls have neither been answered nor dropped.
    pub fn in_flight(&self) -> usize {
        self.flights.load(Ordering::SeqCst)
    }

    /// All calls made so far, in order.
    pub fn log(&self) -> Vec<Call> {
        self.lock().log.clone()
    }

    /// Notes the call and runs its statement as the plans have it.
    ///
    /// The statement owns all it needs, so that a ghost can outlive its caller.
    async fn call<T: Send + 'static>(
        &self,
        op: Op,
        name: Option<&LeaseName>,
        size: usize,
        statement: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _flight = Flight::begin(&self.flights);
        let at = self.clock.now();
        match self.fault(op, name, size, at) {
            None => statement.await,
            Some(Fault::FailBefore(kind)) => {
                Err(StoreError::new(kind, format!("{op:?} failed on purpose before it was sent"))
                    .without_effect())
            }
            Some(Fault::FailAfter(kind)) => {
                statement.await?;
                Err(StoreError::new(kind, format!("the answer to {op:?} was lost on purpose")))
            }
            Some(Fault::FailLate(delay, kind)) => {
                statement.await?;
                sleep_until(&self.clock, at + delay).await;
                Err(StoreError::new(kind, format!("the answer to {op:?} was lost on purpose")))
            }
            Some(Fault::DelayBefore(delay)) => {
                sleep_until(&self.clock, at + delay).await;
                statement.await
            }
            Some(Fault::DelayAfter(delay)) => {
                let answer = statement.await;
                sleep_until(&self.clock, at + delay).await;
                answer
            }
            Some(Fault::HangBefore) => pending().await,
            Some(Fault::HangAfter) => {
                // What it answers is what nobody gets to know.
                let _ = statement.await;
                pending().await
            }
            Some(Fault::Ghost(delay)) => {
                let clock = Arc::clone(&self.clock);
                tokio::spawn(async move {
                    sleep_until(&clock, at + delay).await;
                    // Nobody is there to be told.
                    let _ = statement.await;
                });
                pending().await
            }
        }
    }

    fn fault(&self, op: Op, name: Option<&LeaseName>, size: usize, at: Moment) -> Option<Fault> {
        let mut state = self.lock();
        let count = state.counts.entry(op).or_default();
        *count += 1;
        let call = Call { op, number: *count, name: name.cloned(), size, at };
        state.log.push(call.clone());
        let next = state.next.get_mut(&op).and_then(VecDeque::pop_front);
        let always = state.always.get(&op).copied();
        let plan = state.plan.clone();
        drop(state);
        next.or_else(|| plan.and_then(|plan| plan(&call))).or(always)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call under way.
struct Flight(Arc<AtomicUsize>);

impl Flight {
    fn begin(flights: &Arc<AtomicUsize>) -> Self {
        flights.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(flights))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore").field("store", &self.store.describe()).finish_non_exhaustive()
    }
}
