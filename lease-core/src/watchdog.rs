//! The system clock and the one OS thread that waits on it.
//!
//! The thread rings the alarms of every lease of the process, so a blocked async runtime cannot
//! keep a deadline or a grace from ending. It lives as long as the process.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use crate::clock::{Alarm, AlarmBook, Clock, Moment, Ring};
use crate::sync::thread as explored;

/// The clock of production: it goes on while the machine is suspended, which the standard library's
/// and tokio's instants do not on Linux (`clock_gettime(2)`: `CLOCK_BOOTTIME`).
///
/// On Linux and other Unix systems its moments mean the same to every process of the machine. On
/// systems other than Linux, whether it counts suspension is up to the system's monotonic clock.
#[derive(Debug)]
pub struct SystemClock {
    book: Arc<AlarmBook>,
    timer: Mutex<()>,
    wait: platform::Wait,
}

impl SystemClock {
    /// The clock of this process; its thread starts with the first call.
    ///
    /// # Errors
    ///
    /// The operating system refuses a timer or a thread.
    pub fn shared() -> io::Result<Arc<Self>> {
        static SHARED: Mutex<Option<Arc<SystemClock>>> = Mutex::new(None);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clock) = &*shared {
            return Ok(Arc::clone(clock));
        }
        let clock =
            Arc::new(Self { book: Arc::default(), timer: Mutex::new(()), wait: platform::Wait::new()? });
        let ringing = Arc::clone(&clock);
        thread::Builder::new().name("lease-watchdog".to_owned()).spawn(move || ringing.ring_for_ever())?;
        *shared = Some(Arc::clone(&clock));
        Ok(clock)
    }

    fn ring_for_ever(&self) {
        loop {
            while let Some(ring) = self.book.take_due(self.now()) {
                // A ring that panics is a defect of its own lease; the others still need the thread.
                if catch_unwind(AssertUnwindSafe(ring)).is_err() {
                    log_apart(|| tracing::error!("an alarm panicked"));
                }
            }
            self.set_timer();
            self.wait.wait();
        }
    }

    /// Sets the timer to the first alarm. The book is read under the lock, so that of two setters
    /// the later one has seen the earlier one's alarm.
    fn set_timer(&self) {
        let _one_at_a_time = self.timer.lock().unwrap_or_else(PoisonError::into_inner);
        self.wait.set(self.book.next());
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        platform::now()
    }

    fn alarm(&self, at: Moment, ring: Ring) -> Alarm {
        let (alarm, is_first) = self.book.set(at, ring);
        if is_first {
            self.set_timer();
        }
        alarm
    }
}

/// Calls a failing hook on a thread of its own, so that one that blocks does not hold up the alarms of
/// other leases; on this thread if the system refuses another. A hook that panics has not failed the
/// process, so it is aborted.
pub(crate) fn call_apart(hook: Arc<dyn Fn() + Send + Sync>) {
    let or_abort = move || {
        if catch_unwind(AssertUnwindSafe(|| hook())).is_err() {
            process::abort();
        }
    };
    let apart = or_abort.clone();
    // Explored where races are.
    if explored::Builder::new().name("lease-stuck".to_owned()).spawn(apart).is_err() {
        or_abort();
    }
}

/// Writes a line to standard error and aborts the process, also when whoever blocks holds the lock of
/// standard error or nobody reads it.
pub(crate) fn say_and_abort(line: String) -> ! {
    const TIME_TO_SAY_IT: Duration = Duration::from_millis(250);
    let (said, heard) = mpsc::channel();
    let saying = thread::Builder::new().spawn(move || {
        eprintln!("{line}");
        said.send(())
    });
    if saying.is_ok() {
        // An error is a thread that was too slow, or has panicked: there is nothing to wait for.
        let _ = heard.recv_timeout(TIME_TO_SAY_IT);
    }
    process::abort();
}

/// Writes to the log from a thread of its own: a subscriber that blocks or panics must not stop the
/// watchdog, which marks losses and calls failing hooks. Lines keep their order.
pub(crate) fn log_apart(line: impl FnOnce() + Send + 'static) {
    static LOG: OnceLock<Option<mpsc::Sender<Line>>> = OnceLock::new();
    let log = LOG.get_or_init(|| {
        let (log, lines) = mpsc::channel::<Line>();
        let write = move || {
            for line in lines {
                // There is nowhere left to say it.
                let _ = catch_unwind(AssertUnwindSafe(line));
            }
        };
        thread::Builder::new().name("lease-log".to_owned()).spawn(write).ok().map(|_| log)
    });
    if let Some(log) = log {
        let _ = log.send(Box::new(line));
    }
}

type Line = Box<dyn FnOnce() + Send>;

#[cfg(target_os = "linux")]
mod platform {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
        timerfd_create, timerfd_settime,
    };

    use crate::clock::Moment;

    pub(super) fn now() -> Moment {
        Moment::new(Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default())
    }

    /// A timer on `CLOCK_BOOTTIME`: it also ends at the right moment when the machine was suspended meanwhile.
    #[derive(Debug)]
    pub(super) struct Wait(OwnedFd);

    impl Wait {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?))
        }

        pub(super) fn set(&self, first: Option<Moment>) {
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            let it_value = first.map_or(never, |at| {
                // A timer set to zero would be switched off.
                let at = at.since_zero().max(Duration::from_nanos(1));
                Timespec::try_from(at).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
            });
            let once = Itimerspec { it_interval: never, it_value };
            if let Err(error) = timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once) {
                tracing::error!(%error, "cannot set the timer of the watchdog");
            }
        }

        pub(super) fn wait(&self) {
            let mut expirations = [0; 8];
            // An interrupted read is a spurious wake-up, which is harmless.
            let _ = rustix::io::read(&self.0, &mut expirations);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::io;
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::Duration;

    use crate::clock::Moment;

    #[cfg(unix)]
    pub(super) fn now() -> Moment {
        use rustix::time::{ClockId, clock_gettime};
        Moment::new(Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default())
    }

    #[cfg(not(unix))]
    pub(super) fn now() -> Moment {
        use std::sync::OnceLock;
        use std::time::Instant;
        static ZERO: OnceLock<Instant> = OnceLock::new();
        Moment::new(ZERO.get_or_init(Instant::now).elapsed())
    }

    /// The longest wait in one piece, so that a wait that does not count suspension ends soon after it.
    const SLICE: Duration = Duration::from_millis(250);

    #[derive(Debug)]
    pub(super) struct Wait {
        at: Mutex<Option<Moment>>,
        changed: Condvar,
    }

    impl Wait {
        #[expect(clippy::unnecessary_wraps, reason = "the Linux form can fail")]
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self { at: Mutex::new(None), changed: Condvar::new() })
        }

        pub(super) fn set(&self, first: Option<Moment>) {
            *self.at.lock().unwrap_or_else(PoisonError::into_inner) = first;
            self.changed.notify_one();
        }

        pub(super) fn wait(&self) {
            let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
            match *at {
                None => drop(self.changed.wait(at)),
                Some(until) => drop(self.changed.wait_timeout(at, until.since(now()).min(SLICE))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_ring_in_order_and_an_earlier_one_set_later_is_not_missed() {
        let clock = SystemClock::shared().unwrap();
        let (rang, ringing) = mpsc::channel();
        let alarm = |ms: u64, n: u32| {
            let rang = rang.clone();
            clock.alarm(clock.now() + Duration::from_millis(ms), Box::new(move || rang.send(n).unwrap()))
        };
        let _later = alarm(60_000, 3);
        let _second = alarm(200, 2);
        let _first = alarm(1, 1);
        let wait = || ringing.recv_timeout(Duration::from_secs(30));
        assert_eq!((wait(), wait()), (Ok(1), Ok(2)));
        assert!(ringing.try_recv().is_err());
    }

    #[test]
    fn an_alarm_in_the_past_rings_and_one_that_panics_does_not_end_the_others() {
        let clock = SystemClock::shared().unwrap();
        let (rang, ringing) = mpsc::channel();
        let _broken = clock.alarm(Moment::default(), Box::new(|| panic!("a planted panic")));
        let _sound = clock.alarm(Moment::default(), Box::new(move || rang.send(()).unwrap()));
        assert_eq!(ringing.recv_timeout(Duration::from_secs(30)), Ok(()));
    }
}
