//! The line before a connection: urgent work first, and waiting for a lock only while it is worth it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lease_core::store::{Limit, StoreError};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::Failure;

/// What a statement is for, by which its place in line and its treatment are settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A renewal, or what frees a name: before everything that waits, so that a thousand claims
    /// cannot starve it.
    Renewal,
    /// A claim, or any other change of rows.
    Write,
    /// Whether a lease is held, before other questions.
    Verify,
    /// A question that concerns no lease that is held.
    Read,
    /// Whether the file is fit.
    Check,
    /// Whatever it takes to have a file and a table.
    Make,
}

impl Kind {
    fn is_urgent(self) -> bool {
        matches!(self, Self::Renewal | Self::Verify)
    }

    /// Whether it runs in a transaction of the thread's, together with its neighbours in line: a burst
    /// of claims costs a few commits. Others run alone, and see to their transactions themselves.
    pub(crate) fn joins(self) -> bool {
        matches!(self, Self::Renewal | Self::Write)
    }

    /// Whether a file that was replaced is simply asked anew, rather than the replacement told.
    pub(crate) fn follows(self) -> bool {
        matches!(self, Self::Read | Self::Make)
    }
}

/// What a statement is for, and until when it may begin and wait for a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) kind: Kind,
    pub(crate) until: Instant,
}

impl Order {
    /// An order for a statement within this time.
    pub(crate) fn within(limit: &Limit, kind: Kind) -> Self {
        Self { kind, until: Instant::now() + limit.left() }
    }
}

/// A statement in line, and the way back to whoever asked.
pub(crate) struct Job {
    pub(crate) order: Order,
    pub(crate) work: Box<dyn Work>,
    /// Why an earlier attempt could not have the lock.
    pub(crate) contention: Option<StoreError>,
    /// An earlier attempt failed, perhaps by the fault of a neighbour.
    pub(crate) alone: bool,
}

impl Job {
    pub(crate) fn new(order: Order, work: Box<dyn Work>) -> Self {
        Self { order, work, contention: None, alone: false }
    }
}

pub(crate) trait Work: Send {
    /// Whether somebody still waits for the answer.
    fn wanted(&self) -> bool;

    /// Runs the statement and keeps its answer. May be repeated after everything was undone.
    fn attempt(&mut self, connection: &mut Connection) -> Result<(), Failure>;

    /// Hands over the answer kept by the last attempt, or the error.
    fn settle(&mut self, result: Result<(), StoreError>);
}

/// A statement of any answer.
pub(crate) struct Asked<T, F> {
    pub(crate) statement: F,
    pub(crate) answer: Option<T>,
    pub(crate) sender: Option<oneshot::Sender<Result<T, StoreError>>>,
}

impl<T, F> Work for Asked<T, F>
where
    T: Send,
    F: FnMut(&mut Connection) -> Result<T, Failure> + Send,
{
    fn wanted(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| !sender.is_closed())
    }

    fn attempt(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        self.answer = Some((self.statement)(connection)?);
        Ok(())
    }

    fn settle(&mut self, result: Result<(), StoreError>) {
        let answer = match (result, self.answer.take()) {
            (Ok(()), None) => return,
            (Ok(()), Some(answer)) => Ok(answer),
            (Err(error), _) => Err(error),
        };
        if let Some(sender) = self.sender.take() {
            // Whoever asked may have left meanwhile.
            let _ = sender.send(answer);
        }
    }
}

/// What the thread that takes from a queue does next.
pub(crate) enum Turn {
    /// These jobs, which somebody waits for; one at least.
    Jobs(Vec<Job>),
    /// A look at the file.
    Look,
    /// Nobody can ask any more.
    End,
}

#[derive(Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    arrival: Condvar,
}

#[derive(Default)]
struct Inner {
    urgent: VecDeque<Job>,
    ordinary: VecDeque<Job>,
    closed: bool,
}

/// So many statements take a few milliseconds, no longer than the commit that they share.
const GROUP_MAX: usize = 256;

impl Inner {
    fn line(&mut self, order: Order) -> &mut VecDeque<Job> {
        if order.kind.is_urgent() { &mut self.urgent } else { &mut self.ordinary }
    }

    /// The next job, and those behind it that may run in one transaction with it.
    fn next_group(&mut self) -> Vec<Job> {
        let mut group = Vec::new();
        while group.len() < GROUP_MAX {
            let line = if self.urgent.is_empty() { &mut self.ordinary } else { &mut self.urgent };
            let Some(next) = line.front() else { break };
            let joins = next.order.kind.joins() && !next.alone;
            if !next.work.wanted() {
                line.pop_front();
            } else if joins || group.is_empty() {
                group.extend(line.pop_front());
                if !joins {
                    break;
                }
            } else {
                break;
            }
        }
        group
    }
}

impl Queue {
    /// Puts a job at the end of its line.
    pub(crate) fn push(&self, job: Job) {
        let mut inner = self.lock();
        let line = inner.line(job.order);
        // While a disk hangs, callers give up and ask again; what they gave up must not pile up.
        while line.front().is_some_and(|job| !job.work.wanted()) {
            line.pop_front();
        }
        line.push_back(job);
        drop(inner);
        self.arrival.notify_one();
    }

    /// Puts jobs back in front of their lines, in the order in which they were taken.
    pub(crate) fn put_back(&self, jobs: Vec<Job>) {
        let mut inner = self.lock();
        for job in jobs.into_iter().rev() {
            inner.line(job.order).push_front(job);
        }
    }

    /// Waits for what to do next. `look_due` says when to look at the file, which comes before all jobs, for it is
    /// short and seldom.
    pub(crate) fn take(&self, look_due: impl Fn() -> Option<Instant>) -> Turn {
        let mut inner = self.lock();
        while !inner.closed {
            let left = look_due().map(|due| due.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Turn::Look;
            }
            let group = inner.next_group();
            if !group.is_empty() {
                return Turn::Jobs(group);
            }
            inner = match left {
                None => self.arrival.wait(inner).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    self.arrival.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        Turn::End
    }

    /// Has the thread ask anew when to look at the file.
    pub(crate) fn look_due_has_changed(&self) {
        // Locked, so that the thread is either before its question or waiting already.
        drop(self.lock());
        self.arrival.notify_one();
    }

    /// Lets the thread that takes from this queue end.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrival.notify_one();
    }

    /// Waits until it is worth asking for the lock again; `false` when it no longer is: the time is
    /// over, nobody asks any more, or this is ordinary work and urgent work has come, which is to try first.
    pub(crate) fn wait_a_little(&self, patience: Patience) -> bool {
        let left = patience.until.saturating_duration_since(Instant::now());
        let in_vain = |inner: &Inner| inner.closed || (!patience.urgent && !inner.urgent.is_empty());
        let inner = self.lock();
        if left.is_zero() || in_vain(&inner) {
            return false;
        }
        // Whatever arrives meanwhile ends the nap, which does no harm.
        let nap = left.min(LOCK_POLL);
        let (inner, _) = self.arrival.wait_timeout(inner, nap).unwrap_or_else(PoisonError::into_inner);
        !in_vain(&inner)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while the lock is held; a poisoned queue is still a whole queue.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a lock that others have is asked for. The file is often free for a moment only, between
/// two transactions of another writer; SQLite's own busy timeout sleeps up to 100 ms and misses most of them.
pub(crate) const LOCK_POLL: Duration = Duration::from_millis(1);

/// How long a group of jobs waits for the lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    urgent: bool,
    until: Instant,
}

impl Patience {
    /// Not at all.
    pub(crate) fn none() -> Self {
        Self { urgent: false, until: Instant::now() }
    }

    /// As long as all of them would.
    pub(crate) fn of(jobs: &[Job]) -> Self {
        let urgent = jobs.iter().any(|job| job.order.kind.is_urgent());
        let until = jobs.iter().map(|job| job.order.until).min().unwrap_or_else(Instant::now);
        Self { urgent, until }
    }
}

thread_local! {
    static PATIENCE: RefCell<Option<(Arc<Queue>, Patience)>> = const { RefCell::new(None) };
}

/// Lets [`busy_handler`], on this thread, wait so long.
pub(crate) fn set_patience(queue: &Arc<Queue>, patience: Patience) {
    PATIENCE.set(Some((Arc::clone(queue), patience)));
}

/// What SQLite calls while another connection has the lock. A plain function with its state in the
/// thread, for that is all that the older drivers take.
pub(crate) fn busy_handler(_tries: i32) -> bool {
    PATIENCE.with_borrow(|patience| {
        patience.as_ref().is_some_and(|(queue, patience)| queue.wait_a_little(*patience))
    })
}

#[cfg(test)]
mod tests {
    use super::Kind::{Check, Read, Renewal, Verify, Write};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use super::*;

    type Receiver = oneshot::Receiver<Result<i32, StoreError>>;

    fn job(kind: Kind) -> (Job, Receiver) {
        let (sender, receiver) = oneshot::channel();
        let work = Asked { statement: |_: &mut Connection| Ok(1), answer: None, sender: Some(sender) };
        let until = Instant::now() + Duration::from_secs(60);
        (Job::new(Order { kind, until }, Box::new(work)), receiver)
    }

    /// A queue with such jobs, whose callers wait while the receivers are kept.
    fn queue(kinds: &[Kind]) -> (Queue, Vec<Receiver>) {
        let queue = Queue::default();
        let push = |&kind| {
            let (job, receiver) = job(kind);
            queue.push(job);
            receiver
        };
        let receivers = kinds.iter().map(push).collect();
        (queue, receivers)
    }

    fn take(queue: &Queue) -> Vec<Job> {
        match queue.take(|| None) {
            Turn::Jobs(jobs) => jobs,
            Turn::Look | Turn::End => panic!("no jobs"),
        }
    }

    fn kinds(group: &[Job]) -> Vec<Kind> {
        group.iter().map(|job| job.order.kind).collect()
    }

    #[test]
    fn urgent_work_is_taken_first_and_each_line_keeps_its_order() {
        let (queue, _keep) = queue(&[Read, Check, Verify, Read, Verify]);
        let taken: Vec<_> = (0..5).flat_map(|_| kinds(&take(&queue))).collect();
        assert_eq!(taken, [Verify, Verify, Read, Check, Read]);
    }

    #[test]
    fn what_may_share_a_transaction_is_taken_together_and_nothing_overtakes() {
        let (queue, _keep) = queue(&[Write, Write, Check, Write, Renewal]);
        let mut groups = (0..3).map(|_| kinds(&take(&queue)));
        assert_eq!(groups.next().unwrap(), [Renewal, Write, Write]);
        assert_eq!(groups.next().unwrap(), [Check]);
        assert_eq!(groups.next().unwrap(), [Write]);
    }

    #[test]
    fn a_group_has_an_end() {
        let (queue, _keep) = queue(&[Write; GROUP_MAX + 1]);
        assert_eq!(take(&queue).len(), GROUP_MAX);
        assert_eq!(take(&queue).len(), 1);
    }

    #[test]
    fn what_was_taken_in_vain_goes_back_in_front_in_its_order() {
        let (queue, _keep) = queue(&[Write, Write, Renewal]);
        let mut taken = take(&queue);
        let (late, _keep_too) = job(Check);
        queue.push(late);
        for (n, job) in taken.iter_mut().enumerate() {
            job.contention = Some(StoreError::new(lease_core::ErrorKind::Busy, n.to_string()));
        }
        queue.put_back(taken);
        let again = take(&queue);
        let numbers = again.iter().map(|job| job.contention.as_ref().unwrap().to_string());
        assert_eq!(numbers.collect::<Vec<_>>(), ["0", "1", "2"]);
    }

    #[test]
    fn what_failed_in_company_is_taken_alone() {
        let (queue, _keep) = queue(&[Write; 3]);
        let mut taken = take(&queue);
        taken[1].alone = true;
        queue.put_back(taken);
        let sizes: Vec<_> = (0..3).map(|_| take(&queue).len()).collect();
        assert_eq!(sizes, [1, 1, 1]);
    }

    #[test]
    fn work_nobody_waits_for_any_more_is_not_taken_and_does_not_pile_up() {
        let (queue, receivers) = queue(&[Write; 3]);
        drop(receivers);
        let (wanted, _keep) = job(Write);
        queue.push(wanted);
        assert_eq!(queue.lock().ordinary.len(), 1);

        let (first, _keep_too) = job(Write);
        queue.put_back(vec![first]);
        let (left, receiver) = job(Write);
        queue.push(left);
        drop(receiver);
        assert_eq!(take(&queue).len(), 2);
    }

    #[test]
    fn ordinary_work_stops_waiting_for_the_lock_when_urgent_work_arrives() {
        let (ordinary, _keep) = job(Write);
        let (urgent, _keep_too) = job(Renewal);
        let waits = |job: &Job| Patience::of(std::slice::from_ref(job));
        let (ordinary, hurried) = (waits(&ordinary), waits(&urgent));
        let queue = Queue::default();
        assert!(queue.wait_a_little(ordinary));
        queue.push(urgent);
        assert!(!queue.wait_a_little(ordinary));
        assert!(queue.wait_a_little(hurried));
    }

    #[test]
    fn nothing_waits_for_the_lock_past_its_time_or_for_nobody() {
        let queue = Queue::default();
        assert!(!queue.wait_a_little(Patience { urgent: true, until: Instant::now() }));
        queue.close();
        let long = Instant::now() + Duration::from_secs(60);
        assert!(!queue.wait_a_little(Patience { urgent: true, until: long }));
    }

    #[test]
    fn a_look_that_is_due_comes_before_jobs_and_one_that_is_not_waits_for_its_time() {
        let (queue, _keep) = queue(&[Read]);
        assert!(matches!(queue.take(|| Some(Instant::now())), Turn::Look));
        let in_an_hour = Instant::now() + Duration::from_secs(3600);
        assert!(matches!(queue.take(|| Some(in_an_hour)), Turn::Jobs(_)));
        let soon = Instant::now() + Duration::from_millis(20);
        assert!(matches!(queue.take(|| Some(soon)), Turn::Look));
        assert!(Instant::now() >= soon);
    }

    #[test]
    fn a_thread_that_waits_without_looking_begins_when_somebody_listens() {
        let (queue, asked, heard) = (Queue::default(), AtomicBool::new(false), AtomicBool::new(false));
        let due = || {
            asked.store(true, SeqCst);
            heard.load(SeqCst).then(Instant::now)
        };
        let wait_for = |holds: &dyn Fn() -> bool| {
            let give_up = Instant::now() + Duration::from_secs(60);
            while !holds() && Instant::now() < give_up {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| queue.take(due));
            wait_for(&|| asked.load(SeqCst));
            heard.store(true, SeqCst);
            queue.look_due_has_changed();
            wait_for(&|| taken.is_finished());
            queue.close();
            assert!(matches!(taken.join(), Ok(Turn::Look)));
        });
    }
}
