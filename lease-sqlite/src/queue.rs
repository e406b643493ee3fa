//! The line before a connection: urgent work first, and waiting for a lock only while it is worth it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lease_core::store::StoreError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::Failure;

/// When and how a statement may run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// Renewals and releases go before everything that waits, so that a thousand claims cannot starve them.
    pub(crate) urgent: bool,
    /// Not begun after this, and no lock waited for.
    pub(crate) until: Instant,
    /// The file may be made if it is missing.
    pub(crate) create: bool,
    /// The question concerns no lease that is held, so a file that was replaced is simply asked anew.
    pub(crate) follow: bool,
}

/// A statement in line, and the way back to whoever asked.
pub(crate) struct Job {
    pub(crate) order: Order,
    pub(crate) work: Box<dyn Work>,
    /// Why an earlier attempt could not have the lock.
    pub(crate) contention: Option<StoreError>,
}

pub(crate) trait Work: Send {
    /// Whether somebody still waits for the answer.
    fn wanted(&self) -> bool;

    /// Runs the statement and keeps its answer. Repeated after contention.
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

impl Inner {
    fn line(&mut self, order: Order) -> &mut VecDeque<Job> {
        if order.urgent { &mut self.urgent } else { &mut self.ordinary }
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

    /// Puts a job that could not have the lock back in front of its line, after a short wait.
    pub(crate) fn put_back(&self, job: Job) {
        self.wait_a_little(job.order, 0);
        self.lock().line(job.order).push_front(job);
    }

    /// The next job; waits for one. `None` when nobody can ask any more.
    pub(crate) fn take(&self) -> Option<Job> {
        let mut inner = self.lock();
        loop {
            if inner.closed {
                return None;
            }
            if let Some(job) = inner.urgent.pop_front().or_else(|| inner.ordinary.pop_front()) {
                return Some(job);
            }
            inner = self.arrival.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the thread that takes from this queue end.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrival.notify_one();
    }

    /// Waits until it is worth asking for the lock again; `false` when it no longer is: the time is
    /// over, nobody asks any more, or this is ordinary work and urgent work has come, which is to try first.
    fn wait_a_little(&self, order: Order, tries: i32) -> bool {
        let left = order.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        // Short, for the file is often free for a moment only between two transactions of another
        // writer; SQLite's own busy timeout sleeps up to 100 ms and misses most of them.
        let nap = left.min(Duration::from_millis(if tries < 20 { 1 } else { 3 }));
        let inner = self.lock();
        let in_vain = |inner: &Inner| inner.closed || (!order.urgent && !inner.urgent.is_empty());
        if in_vain(&inner) {
            return false;
        }
        // Whatever arrives meanwhile ends the nap, which does no harm.
        let (inner, _) = self.arrival.wait_timeout(inner, nap).unwrap_or_else(PoisonError::into_inner);
        !in_vain(&inner)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while the lock is held; a poisoned queue is still a whole queue.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    static PATIENCE: RefCell<Option<(Arc<Queue>, Order)>> = const { RefCell::new(None) };
}

/// Lets [`busy_handler`], on this thread, wait as the order allows.
pub(crate) fn set_patience(queue: &Arc<Queue>, order: Order) {
    PATIENCE.set(Some((Arc::clone(queue), order)));
}

/// What SQLite calls while another connection has the lock. A plain function with its state in the
/// thread, for that is all that the older drivers take.
pub(crate) fn busy_handler(tries: i32) -> bool {
    PATIENCE.with_borrow(|patience| {
        patience.as_ref().is_some_and(|(queue, order)| queue.wait_a_little(*order, tries))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(urgent: bool) -> Order {
        Order { urgent, until: Instant::now() + Duration::from_secs(60), create: false, follow: false }
    }

    fn job(urgent: bool) -> (Job, oneshot::Receiver<Result<i32, StoreError>>) {
        let (sender, receiver) = oneshot::channel();
        let work = Asked { statement: |_: &mut Connection| Ok(1), answer: None, sender: Some(sender) };
        (Job { order: order(urgent), work: Box::new(work), contention: None }, receiver)
    }

    fn ordinary_in_line(queue: &Queue) -> usize {
        queue.lock().ordinary.len()
    }

    #[test]
    fn urgent_work_is_taken_first_and_each_line_keeps_its_order() {
        let queue = Queue::default();
        let mut receivers = Vec::new();
        for urgent in [false, false, true, false, true] {
            let (job, receiver) = job(urgent);
            receivers.push(receiver);
            queue.push(job);
        }
        let taken: Vec<bool> = (0..5).map(|_| queue.take().unwrap().order.urgent).collect();
        assert_eq!(taken, [true, true, false, false, false]);
    }

    #[test]
    fn what_could_not_have_the_lock_goes_back_in_front() {
        let queue = Queue::default();
        let (mut first, _keep) = job(false);
        first.contention = Some(StoreError::new(lease_core::ErrorKind::Busy, "x"));
        let (second, _keep_too) = job(false);
        queue.push(second);
        queue.put_back(first);
        assert!(queue.take().unwrap().contention.is_some());
    }

    #[test]
    fn work_nobody_waits_for_any_more_does_not_pile_up() {
        let queue = Queue::default();
        for _ in 0..100 {
            let (job, receiver) = job(false);
            queue.push(job);
            drop(receiver);
        }
        assert_eq!(ordinary_in_line(&queue), 1);
    }

    #[test]
    fn ordinary_work_stops_waiting_for_the_lock_when_urgent_work_arrives() {
        let queue = Queue::default();
        assert!(queue.wait_a_little(order(false), 0));
        let (job, _keep) = job(true);
        queue.push(job);
        assert!(!queue.wait_a_little(order(false), 0));
        assert!(queue.wait_a_little(order(true), 0));
    }

    #[test]
    fn nothing_waits_for_the_lock_past_its_time() {
        let queue = Queue::default();
        let over = Order { until: Instant::now(), ..order(true) };
        assert!(!queue.wait_a_little(over, 0));
    }
}
