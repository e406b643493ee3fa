//! What became of the last instant of a name.

use lease_core::store::{DbTime, LeaseRow};
use serde::Serialize;

/// Judged from the row alone, by the conditions under which the stores claim and finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RoundState {
    /// Its round ran to its end, or the instant was skipped: it is never run (again).
    Finished,
    /// Its round is not finished, and the name is held.
    Running,
    /// Its round was cut short and can be run once more.
    CutShort,
    /// Its round was cut short, and so was its rerun, if somebody was there to begin it.
    CutShortForGood,
}

impl RoundState {
    /// `None`: the name never had an instant.
    pub(crate) fn of(row: &LeaseRow, now: DbTime) -> Option<Self> {
        let last = row.slot?;
        Some(if row.unfinished_slot != Some(last) {
            Self::Finished
        } else if row.is_live(now) {
            Self::Running
        } else if row.rerun_slot < Some(last) {
            Self::CutShort
        } else {
            Self::CutShortForGood
        })
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Running => "running",
            Self::CutShort => "cut short",
            Self::CutShortForGood => "cut short, rerun used",
        }
    }
}

#[cfg(test)]
mod tests {
    use lease_core::Slot;

    use super::*;
    use crate::status::tests::{NOW, row};

    /// Every order in which the three instants can stand, and a name that is held, released or expired.
    #[test]
    fn the_state_follows_from_the_row_alone() {
        let before = NOW.as_millis() - 1;
        for (last, unfinished, rerun, held, free) in [
            // Never an instant, whatever else a row changed by hand may say.
            (0, 0, 0, None, None),
            (0, 0, 5, None, None),
            (0, 5, 0, None, None),
            (0, 5, 5, None, None),
            // Finished or skipped: nothing unfinished, or not the last.
            (5, 0, 0, Some(RoundState::Finished), Some(RoundState::Finished)),
            (5, 0, 4, Some(RoundState::Finished), Some(RoundState::Finished)),
            (5, 0, 5, Some(RoundState::Finished), Some(RoundState::Finished)),
            (5, 0, 6, Some(RoundState::Finished), Some(RoundState::Finished)),
            (5, 4, 0, Some(RoundState::Finished), Some(RoundState::Finished)),
            (5, 4, 4, Some(RoundState::Finished), Some(RoundState::Finished)),
            (5, 4, 5, Some(RoundState::Finished), Some(RoundState::Finished)),
            (5, 4, 6, Some(RoundState::Finished), Some(RoundState::Finished)),
            (5, 6, 0, Some(RoundState::Finished), Some(RoundState::Finished)),
            (5, 6, 5, Some(RoundState::Finished), Some(RoundState::Finished)),
            (5, 6, 6, Some(RoundState::Finished), Some(RoundState::Finished)),
            // Unfinished: running while held; once free, to be rerun unless it was.
            (5, 5, 0, Some(RoundState::Running), Some(RoundState::CutShort)),
            (5, 5, 4, Some(RoundState::Running), Some(RoundState::CutShort)),
            (5, 5, 5, Some(RoundState::Running), Some(RoundState::CutShortForGood)),
            (5, 5, 6, Some(RoundState::Running), Some(RoundState::CutShortForGood)),
        ] {
            for (expires_at, expected) in [
                (NOW.as_millis() + 1, held),
                (NOW.as_millis(), free),
                (before, free),
                (0, free),
                (i64::MAX, held),
            ] {
                let row = LeaseRow {
                    slot: Slot::from_millis(last),
                    unfinished_slot: Slot::from_millis(unfinished),
                    rerun_slot: Slot::from_millis(rerun),
                    expires_at: DbTime::from_millis(expires_at),
                    ..row("nightly")
                };
                assert_eq!(RoundState::of(&row, NOW), expected, "{row:?}");
            }
        }
    }
}
