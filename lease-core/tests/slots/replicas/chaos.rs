//! What goes wrong, by a seed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_core::{Clock, ErrorKind, Moment};
use lease_testkit::{Call, Fault, ManualClock};

use crate::common::{MS, SECOND};

#[derive(Clone)]
pub(crate) struct Chaos {
    clock: Arc<ManualClock>,
    random: Arc<Mutex<u64>>,
    ended: Arc<AtomicBool>,
    answers_lost: Arc<AtomicUsize>,
}

impl Chaos {
    pub(crate) fn new(seed: u64, clock: Arc<ManualClock>) -> Self {
        Self {
            clock,
            random: Arc::new(Mutex::new(seed)),
            ended: Arc::default(),
            answers_lost: Arc::default(),
        }
    }

    /// Nothing goes wrong from now on.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// A number below `end`.
    pub(crate) fn below(&self, end: u64) -> u64 {
        // SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
        let mut state = self.random.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Whether something that goes wrong once in `times` does.
    pub(crate) fn one_in(&self, times: u64) -> bool {
        !self.has_ended() && self.below(times) == 0
    }

    pub(crate) fn answers_lost(&self) -> usize {
        self.answers_lost.load(Ordering::SeqCst)
    }

    pub(crate) fn up_to(&self, longest: Duration) -> Duration {
        MS * u32::try_from(self.below(u64::try_from(longest.as_millis()).unwrap())).unwrap()
    }

    /// What goes wrong with the statements of one replica: one now and then, and all of them for a while.
    pub(crate) fn of_statements(&self) -> impl Fn(&Call) -> Option<Fault> + Send + Sync + 'static {
        let (chaos, away) = (self.clone(), Mutex::new((Moment::default(), Fault::HangBefore)));
        move |_| {
            let now = chaos.clock.now();
            let mut away = away.lock().unwrap();
            if chaos.one_in(150) {
                let how = match chaos.below(3) {
                    0 => Fault::HangBefore,
                    1 => Fault::FailBefore(ErrorKind::Unavailable),
                    _ => Fault::FailAfter(ErrorKind::Unavailable),
                };
                *away = (now + SECOND * 8 + chaos.up_to(SECOND * 25), how);
            }
            let fault = if now < away.0 && !chaos.has_ended() {
                Some(away.1)
            } else {
                chaos.one_in(8).then(|| chaos.fault())
            };
            if fault.is_some_and(loses_the_answer) {
                chaos.answers_lost.fetch_add(1, Ordering::SeqCst);
            }
            fault
        }
    }

    fn fault(&self) -> Fault {
        let delay = self.up_to(SECOND * 12);
        match self.below(8) {
            0 => Fault::FailBefore(ErrorKind::Busy),
            1 => Fault::FailAfter(ErrorKind::Unavailable),
            2 => Fault::FailLate(delay, ErrorKind::Unavailable),
            3 => Fault::DelayBefore(delay),
            4 => Fault::DelayAfter(delay),
            5 => Fault::HangBefore,
            6 => Fault::HangAfter,
            _ => Fault::Ghost(delay * 2),
        }
    }
}

/// Whether the statement takes place, and nobody who asked gets to know within an attempt.
fn loses_the_answer(fault: Fault) -> bool {
    match fault {
        Fault::FailBefore(_) | Fault::HangBefore | Fault::DelayBefore(_) => false,
        Fault::DelayAfter(delay) => delay > SECOND * 5,
        Fault::FailAfter(_) | Fault::FailLate(..) | Fault::HangAfter | Fault::Ghost(_) => true,
    }
}
