//! Claims that overlook what happens between their read and their write, or while many are asked at once.

use std::time::Duration;

use lease_core::store::{Inspection, LeaseRow, StoreError};
use lease_core::{ErrorKind, LeaseStore, Slot};

use super::broken::Broken;
use super::mutant::Mutant;

impl Mutant {
    /// Whether claims of slots and reruns overlook that a round is finished meanwhile. The ends then wait until such
    /// a claim has read.
    pub(crate) fn overlooks_ends(&self) -> bool {
        matches!(self.broken, Broken::SlotIgnoresSkip | Broken::SlotIgnoresEnd | Broken::RerunIgnoresEnd)
    }

    /// Lets another statement pass, and takes back what it did and this claim's write does not compare: that the
    /// round was finished, and with `SlotIgnoresSkip` which instant it skipped. The term is compared, and that the name is free.
    pub(crate) async fn overlook_what_ends_a_round(
        &self,
        read: &Inspection,
        slot: Slot,
    ) -> Result<(), StoreError> {
        let Some(seen) = read.row.as_ref().filter(|row| self.overlooks_ends() && !row.is_live(read.now))
        else {
            return Ok(());
        };
        let is_rerun = self.is(Broken::RerunIgnoresEnd);
        let is_judged_free =
            if is_rerun { seen.unfinished_slot == Some(slot) } else { seen.slot < Some(slot) };
        if !is_judged_free {
            return Ok(());
        }
        self.gates.meet().await;
        self.gates.let_another_pass().await;
        let found = self.inner.inspect(&seen.name, Duration::ZERO).await?;
        let is_compared = |row: &LeaseRow| {
            row.term == seen.term && (row.slot == seen.slot || self.is(Broken::SlotIgnoresSkip))
        };
        if found.row.is_some_and(|row| is_compared(&row) && !row.is_live(found.now)) {
            self.inner.edit_row(&seen.name, |row| {
                (row.slot, row.unfinished_slot) = (seen.slot, seen.unfinished_slot);
            });
        }
        Ok(())
    }

    /// What is answered in a crowd, and to a claim of any kind instead of `held` when one of many fails.
    pub(crate) async fn is_crowded<A>(&self, held: A) -> Option<Result<A, StoreError>> {
        match self.broken {
            Broken::CrowdIsHeld if self.gates.crowd().await => Some(Ok(held)),
            Broken::CrowdFails if self.gates.crowd().await => {
                Some(Err(StoreError::new(ErrorKind::Busy, "no connection is free")))
            }
            _ => None,
        }
    }
}
