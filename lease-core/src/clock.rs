//! The local clock: moments, alarms, and waiting on them.
//!
//! One [`Clock`] drives the renewals, the deadline, the grace and the tests. In production it is
//! [`SystemClock`](crate::SystemClock), which goes on while the machine is suspended.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// A point on a local clock: the time since that clock's own zero. Moments of two clocks do not compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(Duration);

impl Moment {
    /// The moment at which `since_zero` has passed on the clock.
    pub const fn new(since_zero: Duration) -> Self {
        Self(since_zero)
    }

    /// The time since the clock's zero.
    pub const fn since_zero(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this, zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The latest multiple of `tick` that is not after this.
    pub fn floor_to(self, tick: Duration) -> Self {
        match tick.as_nanos() {
            0 => self,
            tick => {
                let floor = self.0.as_nanos() / tick * tick;
                Self(Duration::from_nanos(u64::try_from(floor).unwrap_or(u64::MAX)))
            }
        }
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

/// A local clock that never goes back, with alarms that ring whatever an async runtime is doing.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Moment;

    /// Calls `ring` once, soon after `at` (at once when `at` has passed), from a thread that no
    /// async runtime can block and never from inside this call. `ring` must be short and must not
    /// block. Dropping the [`Alarm`] before it rings cancels it.
    fn alarm(&self, at: Moment, ring: Ring) -> Alarm;
}

/// What an alarm calls.
pub type Ring = Box<dyn FnOnce() + Send>;

/// An alarm that was set; dropping it cancels it.
#[must_use = "dropping an alarm cancels it"]
pub struct Alarm {
    book: Arc<AlarmBook>,
    key: (Moment, u64),
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("at", &self.key.0).finish_non_exhaustive()
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let cancelled = self.book.lock().alarms.remove(&self.key);
        // Dropped outside the lock: what it captured may set or cancel alarms of its own.
        drop(cancelled);
    }
}

/// The alarms that have been set and have not rung yet: what every [`Clock`] keeps inside.
#[derive(Default)]
pub struct AlarmBook {
    inner: Mutex<Alarms>,
}

#[derive(Default)]
struct Alarms {
    alarms: BTreeMap<(Moment, u64), Ring>,
    last_id: u64,
}

impl fmt::Debug for AlarmBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlarmBook").field("next", &self.next()).finish_non_exhaustive()
    }
}

impl AlarmBook {
    /// Enters an alarm. The flag says whether it is now the first to ring.
    pub fn set(self: &Arc<Self>, at: Moment, ring: Ring) -> (Alarm, bool) {
        let mut inner = self.lock();
        inner.last_id += 1;
        let key = (at, inner.last_id);
        inner.alarms.insert(key, ring);
        let first = inner.alarms.first_key_value().is_some_and(|(first, _)| *first == key);
        drop(inner);
        (Alarm { book: Arc::clone(self), key }, first)
    }

    /// When the next alarm is to ring.
    pub fn next(&self) -> Option<Moment> {
        self.lock().alarms.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes out the earliest alarm that is due at `now`. The caller calls it, with no lock held.
    pub fn take_due(&self, now: Moment) -> Option<Ring> {
        let mut inner = self.lock();
        let entry = inner.alarms.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    fn lock(&self) -> MutexGuard<'_, Alarms> {
        // Nothing panics while the lock is held; a poisoned book is still a whole book.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until `clock` reads `at` or later.
pub fn sleep_until(clock: &Arc<dyn Clock>, at: Moment) -> Sleep {
    Sleep { clock: Arc::clone(clock), at, rung: None }
}

/// Waits for `future` until `clock` reads `at`; `None` when that came first. The future is dropped then.
pub(crate) async fn timeout_at<F: Future>(
    clock: &Arc<dyn Clock>,
    at: Moment,
    future: F,
) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = sleep_until(clock, at) => None,
    }
}

/// The future of [`sleep_until`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    clock: Arc<dyn Clock>,
    at: Moment,
    rung: Option<(Arc<Bell>, Alarm)>,
}

#[derive(Debug, Default)]
struct Bell {
    rung: AtomicBool,
    waker: AtomicWaker,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.at {
            return Poll::Ready(());
        }
        if self.rung.is_none() {
            let bell = Arc::new(Bell::default());
            bell.waker.register(cx.waker());
            let ringer = Arc::clone(&bell);
            let ring = move || {
                ringer.rung.store(true, Ordering::Release);
                ringer.waker.wake();
            };
            let alarm = self.clock.alarm(self.at, Box::new(ring));
            self.rung = Some((bell, alarm));
        } else if let Some((bell, _)) = &self.rung {
            bell.waker.register(cx.waker());
        }
        match &self.rung {
            Some((bell, _)) if bell.rung.load(Ordering::Acquire) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::new(Duration::from_millis(ms))
    }

    #[test]
    fn moments_floor_to_a_grid_and_never_overflow() {
        assert_eq!(at(1_234).floor_to(Duration::from_millis(100)), at(1_200));
        assert_eq!(at(1_200).floor_to(Duration::from_millis(100)), at(1_200));
        assert_eq!(at(7).floor_to(Duration::ZERO), at(7));
        assert_eq!(at(7) - Duration::MAX, at(0));
        assert_eq!((at(7) + Duration::MAX).since_zero(), Duration::MAX);
        assert_eq!(at(7).since(at(9)), Duration::ZERO);
    }

    #[test]
    fn alarms_come_out_in_the_order_of_their_times_and_not_before() {
        let book = Arc::new(AlarmBook::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        let ring = |n: u32| {
            let order = Arc::clone(&order);
            Box::new(move || order.lock().unwrap().push(n)) as Ring
        };
        let (_b, first) = book.set(at(20), ring(2));
        assert!(first);
        let (_a, first) = book.set(at(10), ring(1));
        assert!(first);
        let (_c, first) = book.set(at(20), ring(3));
        assert!(!first);
        assert!(book.take_due(at(9)).is_none());
        while let Some(ring) = book.take_due(at(20)) {
            ring();
        }
        assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
        assert_eq!(book.next(), None);
    }

    #[test]
    fn a_dropped_alarm_does_not_ring() {
        let book = Arc::new(AlarmBook::default());
        let (alarm, _) = book.set(at(10), Box::new(|| panic!("rang")));
        drop(alarm);
        assert!(book.take_due(at(10)).is_none());
    }
}
