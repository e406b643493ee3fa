//! What a lease, its tenures, the driver and the watchdog share.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::clock::{Alarm, Clock, Moment};
use crate::events::{Events, Transition};
use crate::good::Good;
use crate::health::Health;
use crate::meter::{Meter, Told};
use crate::randomness::Randomness;
use crate::store::StoreError;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, watch};
use crate::watchdog;
use crate::{ErrorKind, Holder, LeaseName, Term, Timings};

/// Why a lease is no longer held.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LossReason {
    /// The database said so: it expired there, was cleared, or somebody else holds the name.
    Refused,
    /// No renewal succeeded in time.
    Deadline {
        /// Why the last renewal failed, a missing answer included; `None` when none had failed since
        /// the last success: none was sent, because the process or its runtime stood still.
        last_error: Option<Arc<StoreError>>,
    },
    /// This process gave it back.
    Released,
    /// The database behind the store was replaced by another one, which does not know the lease.
    Replaced(Arc<StoreError>),
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("the database says it is no longer held"),
            Self::Deadline { last_error: None } => f.write_str("no renewal was answered before the deadline"),
            Self::Deadline { last_error: Some(error) } => {
                write!(f, "no renewal succeeded before the deadline; the last failed with: {error}")
            }
            Self::Released => f.write_str("it was released"),
            Self::Replaced(error) => write!(f, "the database was replaced: {error}"),
        }
    }
}

/// Work that ran on after its lease was lost and the grace had ended: what the failing hook is told.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stuck {
    /// The lease.
    pub name: LeaseName,
    /// The term under which the work began.
    pub term: Term,
    /// Why the lease was lost.
    pub reason: LossReason,
    /// How long ago, by the local clock.
    pub lost_for: Duration,
}

/// Called from a thread of its own when work is [`Stuck`].
pub(crate) type StuckHook = Arc<dyn Fn(&Stuck) + Send + Sync>;

/// What all leases of one [`Leases`](crate::Leases) have in common.
pub(crate) struct Setup {
    pub(crate) timings: Timings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) on_stuck: StuckHook,
    pub(crate) events: Events,
    pub(crate) meter: Meter,
    pub(crate) randomness: Randomness,
}

/// One lease of this process, from the grant to the end of the process's interest in it.
pub(crate) struct LeaseState {
    pub(crate) id: u64,
    pub(crate) name: LeaseName,
    pub(crate) holder: Holder,
    pub(crate) term: Term,
    /// The round of a slot: it is its owner who says whether it has run to its end, so no shutdown gives it up.
    is_round: bool,
    pub(crate) setup: Arc<Setup>,
    /// When the last successful attempt started.
    good: Good,
    /// Nanoseconds on the clock at which the last attempt started: no statement of ours that moves the expiry is younger.
    sent: AtomicU64,
    lost: AtomicBool,
    status: watch::Sender<Status>,
    last_error: Mutex<Option<Arc<StoreError>>>,
    /// The `Lease` handle is gone (or was released); renewals have ended.
    ended: AtomicBool,
    tenures: AtomicUsize,
    /// Notified when the last tenure has gone.
    idle: Notify,
    work: Mutex<Work>,
    deadline_alarm: Mutex<Option<Alarm>>,
    grace_alarms: Mutex<Option<(Alarm, Alarm)>>,
}

/// The part that others wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    pub(crate) lost: Option<LossReason>,
    /// A step-down was asked, or the future that wanted the work was dropped.
    pub(crate) stopping: bool,
    pub(crate) settled: Settled,
}

/// What became of the row after the lease had ended here.
#[derive(Debug, Clone, Default)]
pub(crate) enum Settled {
    /// Nothing has been done yet.
    #[default]
    No,
    /// The first attempt to give the name back failed; more follow until the row has expired.
    Failed(Arc<StoreError>),
    /// The name is not ours any more: given back, or expired, or taken.
    Done,
}

/// The work that `run` supervises.
#[derive(Default)]
struct Work {
    /// Some work was begun under this lease: from then on a loss is followed by the grace.
    supervised: bool,
    abort: Option<AbortHandle>,
}

impl LeaseState {
    pub(crate) fn new(
        id: u64,
        (name, holder, term): (LeaseName, Holder, Term),
        is_round: bool,
        setup: Arc<Setup>,
        claim_started: Moment,
    ) -> Arc<Self> {
        let state = Arc::new(Self {
            id,
            name,
            holder,
            term,
            is_round,
            setup,
            good: Good::new(claim_started),
            sent: AtomicU64::new(nanos(claim_started)),
            lost: AtomicBool::new(false),
            status: watch::Sender::new(Status::default()),
            last_error: Mutex::new(None),
            ended: AtomicBool::new(false),
            tenures: AtomicUsize::new(0),
            idle: Notify::new(),
            work: Mutex::default(),
            deadline_alarm: Mutex::new(None),
            grace_alarms: Mutex::new(None),
        });
        // Before the alarm of a deadline that has passed meanwhile.
        state.tell(Transition::Claimed);
        #[cfg(feature = "metrics")]
        state.setup.meter.tell(|| Told::Granted {
            id,
            name: state.name.clone(),
            term: state.term,
            state: Arc::downgrade(&state),
        });
        state.watch_deadline();
        state
    }

    pub(crate) fn now(&self) -> Moment {
        self.setup.clock.now()
    }

    /// The moment at which the lease is lost unless a renewal succeeds.
    pub(crate) fn deadline(&self) -> Moment {
        self.good() + self.setup.timings.deadline()
    }

    /// When the last successful attempt started.
    pub(crate) fn good(&self) -> Moment {
        self.good.started()
    }

    /// Reads the clock: begun after the deadline it is never true.
    pub(crate) fn check(&self) -> bool {
        !self.lost.load(Ordering::Acquire) && self.good.lasts(self.setup.timings.deadline(), self.now())
    }

    pub(crate) fn health(&self) -> Health {
        let (now, good) = (self.now(), self.good());
        let held = self.check();
        let (renewed_ago, left) = (now.since(good), self.deadline().since(now));
        let well = held && renewed_ago <= self.setup.timings.renew() * 2;
        Health { held, renewed_ago, left: if held { left } else { Duration::ZERO }, well }
    }

    /// A renewal attempt begins.
    pub(crate) fn sent(&self, started: Moment) {
        self.sent.fetch_max(nanos(started), Ordering::AcqRel);
    }

    /// The attempt begun at `started` succeeded. An answer after the deadline changes nothing: the
    /// lease is lost by then whether or not anybody has noticed.
    /// Answers whether it counts.
    pub(crate) fn renewed(self: &Arc<Self>, started: Moment) -> bool {
        if self.held().is_err() {
            return false;
        }
        // Somebody may have seen the deadline pass meanwhile.
        if self.good.renewed(started) {
            *lock(&self.last_error) = None;
        }
        self.held().is_ok()
    }

    /// The attempt begun at `started` moved the expiry of a row whose round is over and not on record yet.
    pub(crate) fn kept(&self, started: Moment) {
        self.good.kept(started);
    }

    /// An attempt failed. A replaced database is a loss at once: what it said of the lease is void.
    pub(crate) fn renewal_failed(self: &Arc<Self>, error: &Arc<StoreError>) {
        *lock(&self.last_error) = Some(Arc::clone(error));
        if error.kind() == ErrorKind::Replaced {
            self.lose(&LossReason::Replaced(Arc::clone(error)));
        }
    }

    /// Until when the row can still carry our token unexpired, by the local clock: the last
    /// statement that may have moved the expiry, its bound, and a ttl.
    pub(crate) fn row_expired_by(&self) -> Moment {
        let timings = &self.setup.timings;
        moment(self.sent.load(Ordering::Acquire)) + timings.attempt() + timings.ttl() + timings.margin()
    }

    /// Whether the lease is held, else why not. Marks the loss when it is the first to see the deadline passed.
    pub(crate) fn held(self: &Arc<Self>) -> Result<(), LossReason> {
        if !self.check() && !self.lost.load(Ordering::Acquire) {
            self.lose_by_deadline();
        }
        self.reason().map_or(Ok(()), Err)
    }

    /// Before this moment the row cannot expire, and by then work has had its grace, whatever ended the lease.
    pub(crate) fn grace_over(&self) -> Moment {
        self.deadline() + self.setup.timings.grace()
    }

    pub(crate) fn reason(&self) -> Option<LossReason> {
        self.status.borrow().lost.clone()
    }

    /// Whether the work is asked to end, by a request that concerns this lease or by its loss.
    pub(crate) fn is_stopping(&self) -> bool {
        let status = self.status.borrow();
        status.stopping || status.lost.is_some()
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Somebody asked this term to step down.
    pub(crate) fn ask_step_down(&self) {
        self.status.send_if_modified(|status| {
            let first = status.lost.is_none() && !std::mem::replace(&mut status.stopping, true);
            if first {
                // Under the lock, as that of the loss, so that they are told in the order in which they came.
                self.tell(Transition::StepDownAsked);
            }
            first
        });
    }

    fn tell(&self, what: Transition) {
        let changed = || Told::Changed { id: self.id, name: self.name.clone(), what: what.clone() };
        self.setup.meter.tell(changed);
        self.setup.events.tell(&self.name, self.term, what);
    }

    pub(crate) fn ask_stop(&self) {
        self.status.send_if_modified(|status| !std::mem::replace(&mut status.stopping, true));
    }

    /// The name was given back, which is told once, however often the database is.
    pub(crate) fn given_back(&self) {
        self.status.send_if_modified(|status| {
            let first = !matches!(status.settled, Settled::Done);
            if first {
                status.settled = Settled::Done;
                self.tell(Transition::GivenBack);
            }
            first
        });
    }

    /// [`Settled::Done`] is final: an end of a round that is told after it, and fails, is told of a name given back.
    pub(crate) fn settled(&self, settled: Settled) {
        self.status.send_if_modified(|status| {
            let open = !matches!(status.settled, Settled::Done);
            if open {
                status.settled = settled;
            }
            open
        });
    }

    /// Marks the loss. Only the first call counts; the grace counts from now, or from the deadline
    /// if that has passed unnoticed.
    pub(crate) fn lose(self: &Arc<Self>, reason: &LossReason) {
        let at = self.now().min(self.deadline());
        if self.mark_lost(reason) {
            self.after_loss(reason, at);
        }
    }

    /// Marks the lease as given up, unless work may run under it, or a supervisor will end it. Answers
    /// whether it is lost now.
    pub(crate) fn lose_if_idle(self: &Arc<Self>) -> bool {
        let at = self.now().min(self.deadline());
        // Work that begins meanwhile sees the mark, or has its tenure by now and is seen.
        let work = lock(&self.work);
        if self.is_round || work.supervised || self.work_may_run() {
            return false;
        }
        let first = self.mark_lost(&LossReason::Released);
        drop(work);
        if first {
            self.after_loss(&LossReason::Released, at);
        }
        true
    }

    fn mark_lost(&self, reason: &LossReason) -> bool {
        self.status.send_if_modified(|status| {
            let first = status.lost.is_none();
            if first {
                self.lost.store(true, Ordering::Release);
                status.lost = Some(reason.clone());
                self.tell(Transition::Lost(reason.clone()));
            }
            first
        })
    }

    fn after_loss(self: &Arc<Self>, reason: &LossReason, at: Moment) {
        drop(lock(&self.deadline_alarm).take());
        let supervised = lock(&self.work).supervised;
        if supervised && self.work_may_run() {
            self.start_grace(at);
        }
        // After all that matters, and apart: a log can block or panic.
        let (name, term, reason) = (self.name.clone(), self.term, reason.clone());
        watchdog::log_apart(move || {
            if matches!(reason, LossReason::Released) {
                tracing::debug!(lease = %name, term = %term, "given up");
            } else {
                tracing::error!(lease = %name, term = %term, %reason, "lost");
            }
        });
    }

    fn lose_by_deadline(self: &Arc<Self>) {
        let last_error = lock(&self.last_error).clone();
        self.lose(&LossReason::Deadline { last_error });
    }

    /// Sets the alarm that marks the loss. It rings once per deadline, not per renewal: a lease
    /// renewed meanwhile is given the alarm of its new deadline.
    fn watch_deadline(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        let ring = move || {
            let Some(state) = weak.upgrade() else { return };
            if state.held().is_ok() {
                state.watch_deadline();
            }
        };
        let alarm = self.setup.clock.alarm(self.deadline(), Box::new(ring));
        let earlier = lock(&self.deadline_alarm).replace(alarm);
        drop(earlier);
    }

    /// Begins supervised work, unless the lease is lost already. The caller has the work's tenure by
    /// now: the work runs for as long as any tenure is out.
    pub(crate) fn begin_work(&self) -> Result<(), LossReason> {
        let mut work = lock(&self.work);
        // Under the lock that a loss takes after marking: either we see the mark, or it sees the work.
        self.held_unlocked()?;
        work.supervised = true;
        Ok(())
    }

    /// [`held`](Self::held) for a caller that holds the lock of `work`, which `lose` would take.
    fn held_unlocked(&self) -> Result<(), LossReason> {
        match self.reason() {
            Some(reason) => Err(reason),
            None if self.check() => Ok(()),
            None => Err(LossReason::Deadline { last_error: lock(&self.last_error).clone() }),
        }
    }

    pub(crate) fn work_can_be_aborted_by(&self, abort: AbortHandle) {
        lock(&self.work).abort = Some(abort);
    }

    /// Whether a tenure is out.
    pub(crate) fn work_may_run(&self) -> bool {
        self.tenures.load(Ordering::SeqCst) > 0
    }

    /// Waits until every tenure has gone: that of the work's future, and the clones of it.
    pub(crate) async fn work_gone(&self) {
        loop {
            let notified = self.idle.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if !self.work_may_run() {
                return;
            }
            notified.await;
        }
    }

    /// After a loss: an abort when nine tenths of the grace have passed, the failing hook at its end.
    /// If the loss is noticed later than that (the machine was suspended), the abort comes at once
    /// and the hook a tenth of the grace later, so that work which an abort ends can end by it.
    fn start_grace(self: &Arc<Self>, lost_at: Moment) {
        let tenth = self.setup.timings.grace() / 10;
        let clock = &self.setup.clock;
        let abort_at = (lost_at + tenth * 9).max(clock.now());
        let fail_at = (lost_at + self.setup.timings.grace()).max(abort_at + tenth);
        let abort = Arc::downgrade(self);
        let abort = clock.alarm(
            abort_at,
            Box::new(move || {
                if let Some(abort) = abort.upgrade().and_then(|state| lock(&state.work).abort.clone()) {
                    abort.abort();
                }
            }),
        );
        let fail = Arc::downgrade(self);
        let fail = clock.alarm(
            fail_at,
            Box::new(move || {
                if let Some(state) = fail.upgrade().filter(|state| state.work_may_run()) {
                    state.fail(lost_at);
                }
            }),
        );
        *lock(&self.grace_alarms) = Some((abort, fail));
    }

    fn fail(&self, lost_at: Moment) {
        let stuck = Stuck {
            name: self.name.clone(),
            term: self.term,
            reason: self.reason().unwrap_or(LossReason::Refused),
            lost_for: self.now().since(lost_at),
        };
        self.status.send_if_modified(|status| {
            // Under the lock, as the others: the last tenure may have gone by now, and the name with it.
            if !matches!(status.settled, Settled::Done) {
                self.tell(Transition::Stuck);
            }
            false
        });
        let (hook, told) = (Arc::clone(&self.setup.on_stuck), stuck.clone());
        watchdog::call_apart(Arc::new(move || hook(&told)));
        watchdog::log_apart(move || {
            tracing::error!(lease = %stuck.name, term = %stuck.term, reason = %stuck.reason, "stuck: work runs on after the grace");
        });
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Whether the row is known to be ours no more.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.reason(), Some(LossReason::Refused | LossReason::Replaced(_)))
    }

    pub(crate) fn tenure_begins(&self) {
        self.tenures.fetch_add(1, Ordering::SeqCst);
    }

    /// Answers whether it was the last one, of which the driver is to be told.
    pub(crate) fn tenure_ends(&self) -> bool {
        let last = self.tenures.fetch_sub(1, Ordering::SeqCst) == 1;
        if last {
            self.idle.notify_waiters();
        }
        last
    }
}

impl fmt::Debug for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseState")
            .field("name", &self.name)
            .field("term", &self.term)
            .field("lost", &self.reason())
            .finish_non_exhaustive()
    }
}

/// Locks what no panic can leave half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.since_zero().as_nanos()).unwrap_or(u64::MAX)
}

fn moment(nanos: u64) -> Moment {
    Moment::new(Duration::from_nanos(nanos))
}
