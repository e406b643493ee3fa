//! Time: the true one, which nobody in a cluster sees, and the clocks that go by it in their own ways.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_core::clock::{Alarm, AlarmBook, Ring};
use lease_core::{Clock, Moment};

/// Nanoseconds of true time.
pub(super) type Nanos = u64;

pub(super) fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The true time of a cluster.
#[derive(Debug, Default)]
pub(super) struct TrueTime(AtomicU64);

impl TrueTime {
    pub(super) fn now(&self) -> Nanos {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, now: Nanos) {
        self.0.store(now, Ordering::Relaxed);
    }
}

/// The clock by which the database's goes, its steps apart.
#[derive(Debug)]
pub(super) struct ServerClock(pub(super) Arc<TrueTime>);

impl Clock for ServerClock {
    fn now(&self) -> Moment {
        Moment::new(Duration::from_nanos(self.0.now()))
    }

    fn alarm(&self, _at: Moment, _ring: Ring) -> Alarm {
        unreachable!("nothing waits by the clock of the database")
    }
}

/// The local clock of one client. It drifts, and in the mode with holes it stands still while the machine is suspended.
#[derive(Debug)]
pub(super) struct LocalClock {
    time: Arc<TrueTime>,
    /// How much faster than true time it goes, in millionths.
    drift: i64,
    /// The local time less what has passed since the start of all.
    offset: Nanos,
    /// How much true time it has missed, and since when it stands still.
    missed: Mutex<(Nanos, Option<Nanos>)>,
    book: Arc<AlarmBook>,
}

const MILLION: u64 = 1_000_000;

impl LocalClock {
    pub(super) fn new(time: &Arc<TrueTime>, drift: i64, offset: Nanos) -> Arc<Self> {
        let (time, missed) = (Arc::clone(time), Mutex::default());
        Arc::new(Self { time, drift, offset, missed, book: Arc::default() })
    }

    /// When the next alarm is to ring, in true time.
    pub(super) fn next_alarm(&self) -> Option<Nanos> {
        let at = nanos(self.book.next()?.since_zero()).saturating_sub(self.offset);
        // The first true moment at which this clock reads so much.
        let rate = MILLION.saturating_add_signed(self.drift);
        let passed = (u128::from(at) * u128::from(MILLION)).div_ceil(u128::from(rate));
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        Some(passed.saturating_add(self.lock().0))
    }

    /// Rings what is due, but no more than `most`. Answers whether that was all.
    pub(super) fn ring(&self, most: u64) -> bool {
        for _ in 0..most {
            let Some(ring) = self.book.take_due(self.now()) else { return true };
            ring();
        }
        false
    }

    pub(super) fn stand_still(&self) {
        self.lock().1 = Some(self.time.now());
    }

    pub(super) fn go_on(&self) {
        let mut missed = self.lock();
        if let Some(since) = missed.1.take() {
            missed.0 += self.time.now() - since;
        }
    }

    pub(super) fn has_alarms(&self) -> bool {
        self.book.next().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, (Nanos, Option<Nanos>)> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for LocalClock {
    fn now(&self) -> Moment {
        let (missed, standing) = *self.lock();
        let passed = standing.unwrap_or_else(|| self.time.now()) - missed;
        let rate = u128::from(MILLION.saturating_add_signed(self.drift));
        let passed = u64::try_from(u128::from(passed) * rate / u128::from(MILLION)).unwrap_or(u64::MAX);
        Moment::new(Duration::from_nanos(self.offset + passed))
    }

    fn alarm(&self, at: Moment, ring: Ring) -> Alarm {
        self.book.set(at, ring).0
    }
}
