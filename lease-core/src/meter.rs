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
#[cfg(feature = "metrics")]
use crate::state::LeaseState;
use crate::state::LossReason;
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
    /// The holder was asked to step down.
    StepDownAsked(LeaseName),
    /// The lease with this number is held no more.
    Lost { id: u64, name: LeaseName, reason: LossReason },
    /// Work runs on after the grace.
    Stuck(LeaseName),
    /// The name was given back.
    GivenBack(LeaseName),
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
            .spawn(move || record(&heard, period, figures::Figures::new(labels)))?;
        Ok(Self { told: Some(Arc::new(told)) })
    }
}

/// The period is one of real time, whatever the clock of the leases: a clock that is moved by hand has nothing to wait for here.
#[cfg(feature = "metrics")]
fn record(heard: &mpsc::Receiver<Told>, period: Duration, mut figures: figures::Figures) {
    let mut next = Instant::now() + period;
    loop {
        let told = match heard.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(told) => Some(told),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        };
        // A recorder that panics has missed one figure, not all that follow.
        let recorded = catch_unwind(AssertUnwindSafe(|| match told {
            Some(told) => figures.record(told),
            None => figures.look(),
        }));
        drop(recorded);
        if Instant::now() >= next {
            next = Instant::now() + period;
        }
    }
}
