//! A clock that moves only when the test says so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_core::clock::{Alarm, AlarmBook, Ring};
use lease_core::{Clock, Moment};

/// Where a new clock stands: far enough from its zero that "an hour ago" is a moment too.
const START: Moment = Moment::new(Duration::from_secs(100_000));

/// How often [`ManualClock::play`] lets the other tasks run before time moves on. One round is
/// enough for a task that only has to be polled; what passes through channels and tasks of its own
/// (a driver that spawns a claim that answers a caller that spawns its work) takes some more.
const ROUNDS: usize = 32;

/// A [`Clock`] that a test moves by hand: a protocol of minutes plays in milliseconds.
///
/// Alarms ring inside [`advance`](Self::advance) and [`play`](Self::play), in order of time and with
/// no lock held, on the thread that calls these; never inside [`alarm`](Clock::alarm). An alarm set
/// for a moment that has passed rings with the next `advance`, be it by nothing:
/// `advance(Duration::ZERO)`. ([`lease_core::clock::sleep_until`] needs no ring then: it looks at the clock first.)
///
/// ```
/// use std::time::Duration;
/// use lease_core::Clock;
/// use lease_core::clock::sleep_until;
/// use lease_testkit::ManualClock;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::new();
/// let hour = Duration::from_secs(3_600);
/// let shared: std::sync::Arc<dyn Clock> = clock.clone();
/// let sleeper = tokio::spawn(async move { sleep_until(&shared, shared.now() + hour).await });
/// clock.play(hour).await;
/// assert!(sleeper.is_finished());
/// # });
/// ```
#[derive(Debug)]
pub struct ManualClock {
    times: Mutex<Times>,
    alarms: Arc<AlarmBook>,
}

#[derive(Debug)]
struct Times {
    now: Moment,
    /// Where all calls of `advance` so far end; `now` is on its way there.
    end: Moment,
}

impl ManualClock {
    /// A clock that stands still.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { times: Mutex::new(Times { now: START, end: START }), alarms: Arc::default() })
    }

    /// Moves the clock forward by `duration`, from alarm to alarm: each rings when the clock reads
    /// its moment, also one that a ring has set meanwhile.
    ///
    /// Calls from several threads add up; each returns once the clock has passed its own end, though
    /// another of them may still be in a ring. Tasks that a ring has woken run when the caller gives
    /// way to them, so the clock may have moved on by then: [`play`](Self::play) waits for them.
    pub fn advance(&self, duration: Duration) {
        let end = self.add(duration);
        while let Some(ring) = self.step(end) {
            ring();
        }
    }

    /// Moves the clock forward by `duration` and lets the runtime's other tasks run first and after
    /// each alarm, so that a task woken by an alarm acts (and sets its next alarm) before time moves on.
    ///
    /// For a current-thread runtime (`#[tokio::test]`'s default): there, all tasks that are ready run
    /// until they wait for an alarm or for something outside the runtime.
    pub async fn play(&self, duration: Duration) {
        let_tasks_run().await;
        let end = self.add(duration);
        while let Some(ring) = self.step(end) {
            ring();
            let_tasks_run().await;
        }
    }

    /// Moves the clock forward by `duration` at once, as when the machine was suspended: nothing rings
    /// meanwhile. Alarms that are due then ring late, with the next `advance` or `play`.
    pub fn jump(&self, duration: Duration) {
        let mut times = self.lock();
        times.now = times.now + duration;
        times.end = times.end.max(times.now);
    }

    /// Adds to the end of all calls; the answer is this call's own end.
    fn add(&self, duration: Duration) -> Moment {
        let mut times = self.lock();
        times.end = times.end + duration;
        times.end
    }

    /// Moves to the next alarm that is not after `end` and takes it out; with none left, moves to `end`.
    fn step(&self, end: Moment) -> Option<Ring> {
        loop {
            let mut times = self.lock();
            let next = self.alarms.next().filter(|at| *at <= end);
            times.now = times.now.max(next.unwrap_or(end));
            let now = times.now;
            drop(times);
            next?;
            if let Some(ring) = self.alarms.take_due(now) {
                return Some(ring);
            }
            // Cancelled, or rung by another call, between the two looks at the book: look again.
        }
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        self.lock().now
    }

    fn alarm(&self, at: Moment, ring: Ring) -> Alarm {
        self.alarms.set(at, ring).0
    }
}

async fn let_tasks_run() {
    for _ in 0..ROUNDS {
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use lease_core::clock::sleep_until;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Sets alarms that note their label and the time at which they rang.
    #[derive(Clone)]
    struct Bells {
        clock: Arc<ManualClock>,
        start: Moment,
        rung: Arc<Mutex<Vec<(&'static str, Duration)>>>,
    }

    impl Bells {
        fn new() -> Self {
            let clock = ManualClock::new();
            Self { start: clock.now(), clock, rung: Arc::default() }
        }

        fn ring(&self, label: &'static str) -> Ring {
            let bells = self.clone();
            Box::new(move || {
                let at = bells.clock.now().since(bells.start);
                bells.rung.lock().unwrap().push((label, at));
            })
        }

        fn set(&self, label: &'static str, after: Duration) -> Alarm {
            self.clock.alarm(self.start + after, self.ring(label))
        }

        fn rung(&self) -> Vec<(&'static str, Duration)> {
            self.rung.lock().unwrap().clone()
        }
    }

    #[test]
    fn alarms_ring_in_order_of_time_each_at_its_own_moment() {
        let bells = Bells::new();
        let _late = bells.set("late", SECOND * 3);
        let _early = bells.set("early", SECOND);
        let _beyond = bells.set("beyond", SECOND * 6);
        bells.clock.advance(SECOND * 5);
        assert_eq!(bells.rung(), [("early", SECOND), ("late", SECOND * 3)]);
        assert_eq!(bells.clock.now().since(bells.start), SECOND * 5);
    }

    #[test]
    fn an_alarm_set_by_a_ring_rings_in_the_same_advance_if_it_is_due() {
        let bells = Bells::new();
        let (inner, kept) = (bells.clone(), Arc::new(Mutex::new(None)));
        let keep = Arc::clone(&kept);
        let _first = bells.clock.alarm(
            bells.start + SECOND,
            Box::new(move || *keep.lock().unwrap() = Some(inner.set("second", SECOND * 2))),
        );
        bells.clock.advance(SECOND * 5);
        assert_eq!(bells.rung(), [("second", SECOND * 2)]);
    }

    #[test]
    fn an_alarm_for_a_past_moment_rings_with_the_next_advance_and_not_before() {
        let bells = Bells::new();
        bells.clock.advance(SECOND * 2);
        let _past = bells.set("past", SECOND);
        assert_eq!(bells.rung(), []);
        bells.clock.advance(Duration::ZERO);
        assert_eq!(bells.rung(), [("past", SECOND * 2)]);
    }

    #[test]
    fn after_a_jump_due_alarms_ring_late_and_the_others_at_their_time() {
        let bells = Bells::new();
        let _late = bells.set("late", SECOND);
        let _timely = bells.set("timely", SECOND * 6);
        bells.clock.jump(SECOND * 5);
        assert_eq!(bells.rung(), []);
        bells.clock.advance(SECOND * 2);
        assert_eq!(bells.rung(), [("late", SECOND * 5), ("timely", SECOND * 6)]);
    }

    #[test]
    fn a_dropped_alarm_never_rings() {
        let bells = Bells::new();
        drop(bells.set("dropped", SECOND));
        bells.clock.advance(SECOND * 2);
        assert_eq!(bells.rung(), []);
    }

    #[test]
    fn a_ring_may_use_the_clock_it_rings_for() {
        let bells = Bells::new();
        let (clock, past) = (Arc::clone(&bells.clock), bells.ring("past"));
        let kept = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&kept);
        let _alarm = bells.clock.alarm(
            bells.start + SECOND,
            Box::new(move || {
                *keep.lock().unwrap() = Some(clock.alarm(Moment::new(Duration::ZERO), past));
                clock.advance(SECOND);
            }),
        );
        bells.clock.advance(SECOND * 2);
        assert_eq!(bells.rung(), [("past", SECOND)]);
        assert_eq!(bells.clock.now().since(bells.start), SECOND * 3);
    }

    #[test]
    fn advances_on_several_threads_add_up_and_ring_each_alarm_once() {
        let clock = ManualClock::new();
        let (start, rung) = (clock.now(), Arc::new(AtomicUsize::new(0)));
        let alarms: Vec<Alarm> = (1..=1_000)
            .map(|n| {
                let rung = Arc::clone(&rung);
                let count = move || {
                    rung.fetch_add(1, Ordering::SeqCst);
                };
                clock.alarm(start + Duration::from_millis(n), Box::new(count))
            })
            .collect();
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| (0..250).for_each(|_| clock.advance(Duration::from_millis(1))));
            }
        });
        assert_eq!(clock.now().since(start), SECOND);
        assert_eq!(rung.load(Ordering::SeqCst), 1_000);
        drop(alarms);
    }

    #[tokio::test]
    async fn tasks_that_sleep_in_turns_each_wake_at_their_own_moment() {
        let clock = ManualClock::new();
        let shared: Arc<dyn Clock> = clock.clone();
        let start = shared.now();
        let task = tokio::spawn(async move {
            let mut woken = Vec::new();
            for _ in 0..100 {
                sleep_until(&shared, shared.now() + SECOND).await;
                // Through a task of its own, as a driver's statement goes.
                let reader = Arc::clone(&shared);
                woken.push(tokio::spawn(async move { reader.now().since(start) }).await.unwrap());
            }
            woken
        });
        clock.play(SECOND * 100).await;
        assert!(task.is_finished(), "the task did not wake at each moment");
        let woken = task.await.unwrap();
        assert_eq!(woken, (1..=100).map(|n| SECOND * n).collect::<Vec<_>>());
    }
}
