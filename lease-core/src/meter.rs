//! What becomes of the leases of this process, as figures: the way to the thread that records them.
//!
//! Without the feature `metrics` there is no such thread, and nothing is told.

use std::time::Duration;
#[cfg(feature = "metrics")]
use std::{io, sync::Arc, sync::Weak};

use crate::LeaseName;
#[cfg(feature = "metrics")]
use crate::clock::{Alarm, Clock, Moment};
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
    Granted(Weak<LeaseState>),
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
    /// It is time to look at what is held.
    #[cfg(feature = "metrics")]
    Look,
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
            // A recorder that panicked has ended the thread.
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
    pub(crate) fn start(
        clock: Arc<dyn Clock>,
        period: Duration,
        labels: Vec<metrics::Label>,
    ) -> io::Result<Self> {
        let (told, heard) = mpsc::channel();
        let told = Arc::new(told);
        let weak = Arc::downgrade(&told);
        thread::Builder::new().name("lease-metrics".to_owned()).spawn(move || {
            let mut figures = figures::Figures::new(labels);
            let mut at = clock.now() + period;
            let mut next = look_at(&clock, at, &weak);
            for told in heard {
                if matches!(told, Told::Look) {
                    figures.look();
                    // Not before this look is over: a slow recorder is not asked for more.
                    at = (at + period).max(clock.now());
                    next = look_at(&clock, at, &weak);
                } else {
                    figures.record(told);
                }
            }
            drop(next);
        })?;
        Ok(Self { told: Some(told) })
    }
}

/// Does not keep the thread from ending.
#[cfg(feature = "metrics")]
fn look_at(clock: &Arc<dyn Clock>, at: Moment, meter: &Weak<mpsc::Sender<Told>>) -> Alarm {
    let meter = Weak::clone(meter);
    let ring = move || {
        if let Some(meter) = meter.upgrade() {
            drop(meter.send(Told::Look));
        }
    };
    clock.alarm(at, Box::new(ring))
}
