//! What has happened in a run at least once: a model in which nothing goes wrong proves nothing.

use std::sync::atomic::{AtomicU32, Ordering};

/// What is worth knowing of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Event {
    /// A name went from one holder to another.
    HandedOver,
    /// A claim was granted after its client had given up, or died.
    GhostClaim,
    /// A release found such a grant.
    GhostReleased,
    /// A renewal took place that nobody waited for any more.
    GhostRenewal,
    /// A renewal's answer came after its attempt had been given up, and counted.
    LateAnswer,
    /// A renewal was refused.
    Refused,
    /// A lease was lost by its deadline.
    DeadlinePassed,
    /// A grant was answered after its deadline.
    GrantedTooLate,
    /// A row that had expired lived again, for the clock was stepped back.
    Revived,
    /// A name was taken by the observe rule.
    Taken,
    /// Such a claim found that the row had moved.
    Moved,
    /// A holder died, or a machine, and the name was held again.
    HeldAgain,
}

impl Event {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::HandedOver => "handed over",
            Self::GhostClaim => "ghost claim granted",
            Self::GhostReleased => "ghost claim released",
            Self::GhostRenewal => "ghost renewal",
            Self::LateAnswer => "late answer counted",
            Self::Refused => "renewal refused",
            Self::DeadlinePassed => "deadline passed",
            Self::GrantedTooLate => "granted too late",
            Self::Revived => "expired row revived",
            Self::Taken => "taken from the dead",
            Self::Moved => "takeover found it moved",
            Self::HeldAgain => "held again after heal",
        }
    }
}

/// Those that have been seen.
#[derive(Debug, Default)]
pub struct Events(AtomicU32);

impl Events {
    /// Notes one.
    pub fn saw(&self, event: Event) {
        let bit = 1 << event as u32;
        // Most have been seen before: then nothing is written, and no other thread waits for it.
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether it was seen.
    pub fn has(&self, event: Event) -> bool {
        self.0.load(Ordering::Relaxed) & (1 << event as u32) != 0
    }
}
