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
    /// A claim found that the row had moved since it was judged.
    Moved,
    /// A holder died, or a machine, and the name was held again.
    HeldAgain,
    /// A guarded transaction was committed.
    Committed,
    /// A commit was refused, for the lease was lost.
    CommitRefused,
    /// A transaction was begun in vain, for the lease was lost.
    BegunInVain,
    /// The fence alone kept a claim off.
    ClaimKeptOff,
    /// A transaction was open while a successor held the name.
    OlderTransaction,
    /// And the successor was the same process.
    OwnOlderTransaction,
    /// A commit took place after its client had gone.
    GhostCommit,
    /// The end of a round was recorded, and its name given back.
    Finished,
    /// The end of a round that had lost its lease was recorded.
    LostEndRecorded,
    /// The end of a round came after its client had given up.
    GhostEnd,
    /// An instant was passed over by the end of a round.
    Passed,
    /// A round ran a second time.
    Rerun,
    /// A claim gave up the instant before it.
    GaveUp,
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
            Self::Moved => "found the row moved",
            Self::HeldAgain => "held again after heal",
            Self::Committed => "committed",
            Self::CommitRefused => "commit refused",
            Self::BegunInVain => "begun in vain",
            Self::ClaimKeptOff => "claim kept off by the fence",
            Self::OlderTransaction => "open beside a successor",
            Self::OwnOlderTransaction => "open beside its own successor",
            Self::GhostCommit => "committed without its client",
            Self::Finished => "round finished",
            Self::LostEndRecorded => "end of a lost round recorded",
            Self::GhostEnd => "ghost end",
            Self::Passed => "instant passed over",
            Self::Rerun => "rerun",
            Self::GaveUp => "instant given up",
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
