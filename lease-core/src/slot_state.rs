//! What is answered to a claim of an instant: the protocol's part of `claim_slot`.

use crate::store::{DbTime, SlotAnswer, Superseded};
use crate::{Slot, Term};

/// What a store has read, together, before it may grant an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotState {
    /// The database's clock.
    pub now: DbTime,
    /// The name's row; `None` when the name was never claimed.
    pub row: Option<SlotRow>,
}

/// The part of a row by which a claim of an instant is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRow {
    /// The term that the grant must still find.
    pub term: Term,
    /// Until when the name is held.
    pub expires_at: DbTime,
    /// The last instant claimed or skipped.
    pub last: Option<Slot>,
    /// The instant whose round has not been recorded as finished.
    pub unfinished: Option<Slot>,
    /// The last instant that was claimed again.
    pub rerun: Option<Slot>,
}

impl SlotState {
    /// The instant that a grant of `slot` gives up, or the refusal: what can never be granted is
    /// said before what may be granted later.
    ///
    /// # Errors
    ///
    /// The refusal is the answer to give; nothing may be written then.
    pub fn judge(&self, slot: Slot) -> Result<Option<Superseded>, SlotAnswer> {
        let comes_at = DbTime::from_millis(slot.as_millis());
        if self.row.is_some_and(|row| row.last >= Some(slot)) {
            return Err(SlotAnswer::Passed);
        }
        if comes_at > self.now {
            return Err(SlotAnswer::NotYet(comes_at.since(self.now)));
        }
        let Some(row) = self.row else { return Ok(None) };
        if row.expires_at > self.now {
            return Err(SlotAnswer::Held);
        }
        let given_up = row.unfinished.filter(|unfinished| row.last == Some(*unfinished));
        Ok(given_up.map(|slot| Superseded { slot, rerun: row.rerun == Some(slot) }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn slot(ms: i64) -> Slot {
        Slot::from_millis(ms).unwrap()
    }

    fn state(expires_at: i64, [last, unfinished, rerun]: [i64; 3]) -> SlotState {
        let row = SlotRow {
            term: Term::FIRST,
            expires_at: DbTime::from_millis(expires_at),
            last: Slot::from_millis(last),
            unfinished: Slot::from_millis(unfinished),
            rerun: Slot::from_millis(rerun),
        };
        SlotState { now: DbTime::from_millis(1_000), row: Some(row) }
    }

    #[test]
    fn what_can_never_be_granted_is_said_before_what_may_be_later() {
        // Held, and later than the clock, and passed.
        assert_eq!(state(9_000, [2_000, 0, 0]).judge(slot(2_000)), Err(SlotAnswer::Passed));
        let wait = Duration::from_millis(1);
        assert_eq!(state(9_000, [500, 0, 0]).judge(slot(1_001)), Err(SlotAnswer::NotYet(wait)));
        assert_eq!(state(1_001, [500, 0, 0]).judge(slot(1_000)), Err(SlotAnswer::Held));
        assert_eq!(state(1_000, [500, 0, 0]).judge(slot(1_000)), Ok(None));
    }

    #[test]
    fn a_name_never_claimed_is_granted_once_the_instant_has_come() {
        let state = SlotState { now: DbTime::from_millis(1_000), row: None };
        assert_eq!(state.judge(slot(1_000)), Ok(None));
        assert!(matches!(state.judge(slot(1_001)), Err(SlotAnswer::NotYet(_))));
    }

    #[test]
    fn the_unfinished_instant_is_given_up_only_when_it_is_the_last() {
        let given_up = |slots| state(0, slots).judge(slot(900)).unwrap();
        assert_eq!(given_up([800, 800, 0]), Some(Superseded { slot: slot(800), rerun: false }));
        assert_eq!(given_up([800, 800, 800]), Some(Superseded { slot: slot(800), rerun: true }));
        assert_eq!(given_up([800, 800, 700]), Some(Superseded { slot: slot(800), rerun: false }));
        assert_eq!(given_up([800, 700, 0]), None);
        assert_eq!(given_up([800, 0, 800]), None);
    }

    /// Rows that no store leaves. The last instant on record is the one word on what may be claimed; an unfinished or
    /// rerun one beyond it is given up by nobody and said to be the rerun of nothing.
    #[test]
    fn instants_on_record_that_are_later_than_the_last_neither_forbid_a_claim_nor_are_given_up() {
        for asked in [600, 700, 800] {
            assert_eq!(state(0, [500, 700, 0]).judge(slot(asked)), Ok(None));
            assert_eq!(state(0, [500, 700, 700]).judge(slot(asked)), Ok(None));
            let given_up = Some(Superseded { slot: slot(500), rerun: false });
            assert_eq!(state(0, [500, 500, 700]).judge(slot(asked)), Ok(given_up));
        }
        assert_eq!(state(0, [500, 700, 700]).judge(slot(500)), Err(SlotAnswer::Passed));
        assert_eq!(state(0, [0, 700, 700]).judge(slot(1)), Ok(None));
    }

    /// The database's clock was stepped back: what had come once is on record, whatever the clock says now.
    #[test]
    fn a_last_instant_later_than_the_clock_refuses_all_up_to_it() {
        for asked in [900, 1_000, 1_001, 5_000] {
            assert_eq!(state(0, [5_000, 5_000, 0]).judge(slot(asked)), Err(SlotAnswer::Passed));
        }
        assert_eq!(
            state(0, [5_000, 5_000, 0]).judge(slot(5_001)),
            Err(SlotAnswer::NotYet(Duration::from_millis(4_001)))
        );
    }
}
