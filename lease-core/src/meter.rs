//! What becomes of the leases of this process, as figures: the way to the thread that records them.
//!
//! Without the feature `metrics` there is no such thread, and nothing is told.

use std::time::Duration;
#[cfg(feature = "metrics")]
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::Instant,
};

use crate::LeaseName;
#[cfg(feature = "metrics")]
use crate::Term;
use crate::events::Transition;
#[cfg(feature = "metrics")]
use crate::state::LeaseState;
#[cfg(feature = "metrics")]
use crate::sync::{mpsc, thread};

#[cfg(feature = "metrics")]
mod figures;

/// What there is to record, in the order in which it happened.
#[derive(Debug)]
#[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "nobody is told"))]
pub(crate) enum Told {
    /// A claim is about to be sent: from now on there is a figure for whether the name is held.
    Wanted(LeaseName),
    /// A claim was answered, or not in time.
    Claim { name: LeaseName, answer: &'static str, took: Duration },
    /// A name was taken from a holder that is proven dead.
    TakenOver(LeaseName),
    /// A lease was granted.
    #[cfg(feature = "metrics")]
    Granted { id: u64, name: LeaseName, term: Term, state: Weak<LeaseState> },
    /// A statement that renews was answered, or not in time.
    Renewal { leases: usize, answer: &'static str, took: Duration },
    /// Something has happened to the lease with this number.
    Changed { id: u64, name: LeaseName, what: Transition },
    /// Somebody begins to wait for a name.
    WaitBegins(LeaseName),
    /// It waits no more.
    WaitEnds { name: LeaseName, end: &'static str, took: Duration },
}

/// The way to the thread that records.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    #[cfg(feature = "metrics")]
    told: Option<Arc<mpsc::Sender<Told>>>,
}

impl Meter {
    /// Never waits: a recorder that is slow or blocks is behind, and holds up nothing.
    #[cfg(feature = "metrics")]
    pub(crate) fn tell(&self, told: impl FnOnce() -> Told) {
        if let Some(meter) = &self.told {
            // The thread lives for as long as this.
            drop(meter.send(told()));
        }
    }

    /// There is nobody to tell.
    #[cfg(not(feature = "metrics"))]
    #[expect(clippy::unused_self, reason = "as where somebody is told")]
    pub(crate) fn tell(&self, _: impl FnOnce() -> Told) {}
}

#[cfg(feature = "metrics")]
impl Meter {
    /// Starts the thread, which looks at what is held once in a `period` too. It ends when the last lease and handle of the
    /// client have gone.
    pub(crate) fn start(period: Duration, labels: Vec<metrics::Label>) -> io::Result<Self> {
        let (told, heard) = mpsc::channel();
        thread::Builder::new()
            .name("lease-metrics".to_owned())
            .spawn(move || record(&heard, period, &mut figures::Figures::new(labels)))?;
        Ok(Self { told: Some(Arc::new(told)) })
    }
}

/// The period is one of real time, whatever the clock of the leases: a clock that is moved by hand has nothing to wait for here.
#[cfg(feature = "metrics")]
fn record(heard: &mpsc::Receiver<Told>, period: Duration, figures: &mut figures::Figures) {
    // A recorder that panics has missed what it was told then, and not all that follows.
    let mut guarded = |record: &mut dyn FnMut(&mut figures::Figures)| {
        drop(catch_unwind(AssertUnwindSafe(|| record(figures))));
    };
    guarded(&mut |_| figures::describe());
    let mut next = Instant::now() + period;
    loop {
        let left = next.saturating_duration_since(Instant::now());
        // Also when there is always something to be told.
        if left.is_zero() {
            guarded(&mut figures::Figures::look);
            next = Instant::now() + period;
            continue;
        }
        match heard.recv_timeout(left) {
            Ok(told) => guarded(&mut |figures| figures.record(&told)),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return guarded(&mut figures::Figures::end),
        }
    }
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use metrics::{
        Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
        set_global_recorder,
    };

    use super::{Meter, Told};
    use crate::Transition;

    /// A recorder that takes its time for one figure, and panics at another and at every description.
    #[derive(Clone, Default)]
    struct Hostile(Arc<Mutex<HashMap<String, f64>>>);

    struct Noted(Hostile, String);

    impl GaugeFn for Noted {
        fn increment(&self, _: f64) {}

        fn decrement(&self, _: f64) {}

        fn set(&self, value: f64) {
            self.0.0.lock().unwrap().insert(self.1.clone(), value);
        }
    }

    impl Recorder for Hostile {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
            panic!("a planted panic of the recorder");
        }

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
            panic!("a planted panic of the recorder");
        }

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            assert_ne!(key.name(), "lease_stuck_total", "a planted panic of the recorder");
            Counter::noop()
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            let labels: Vec<_> = key.labels().map(|label| label.value().to_owned()).collect();
            Gauge::from_arc(Arc::new(Noted(self.clone(), format!("{} {}", key.name(), labels.join(" ")))))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            std::thread::sleep(Duration::from_millis(1));
            Histogram::noop()
        }
    }

    impl Hostile {
        fn until(&self, what: &str, is_so: impl Fn(Option<f64>) -> bool) {
            let start = Instant::now();
            while !is_so(self.0.lock().unwrap().get(what).copied()) {
                assert!(start.elapsed() < Duration::from_secs(60), "{what}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// One test, for a process has one recorder.
    #[test]
    fn a_recorder_that_panics_misses_what_it_was_told_and_one_that_is_slow_is_shown_what_is_held_all_the_same()
     {
        let seen = Hostile::default();
        assert!(set_global_recorder(seen.clone()).is_ok());
        let meter = Meter::start(Duration::from_millis(20), Vec::new()).unwrap();
        meter.tell(|| Told::Changed { id: 1, name: "a".parse().unwrap(), what: Transition::Stuck });
        meter.tell(|| Told::WaitBegins("a".parse().unwrap()));
        seen.until("lease_waiting a", |waiting| waiting == Some(1.0));

        // More than it takes within the time of this test, and a look in the middle of it puts right what somebody else has set.
        for _ in 0..100_000 {
            meter.tell(|| Told::Renewal { leases: 1, answer: "renewed", took: Duration::ZERO });
        }
        seen.0.lock().unwrap().insert("lease_waiting a".to_owned(), 7.0);
        seen.until("lease_waiting a", |waiting| waiting == Some(1.0));
    }
}
