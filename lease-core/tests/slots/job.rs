//! One scheduled name, its instants in seconds since the test began, and what is on record of it.

use std::future::Future;
use std::time::{Duration, SystemTime};

use lease_core::store::{DbTime, Inspection};
use lease_core::{Leases, Slot, SlotClaimed, SlotLease, UnfinishedSlot};

use tokio::task::JoinHandle;

use crate::common::{World, name};

pub(crate) const JOB: &str = "job";

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work's own error")]
pub(crate) struct OwnError;

/// What the database's clock reads when a [`World`] begins, in seconds since 1970.
const START: u64 = 1_700_100_000;

/// The instant that many seconds after the test began.
pub(crate) fn at(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(START.checked_add_signed(seconds).unwrap())
}

pub(crate) fn slot(seconds: i64) -> Slot {
    Slot::new(at(seconds)).unwrap()
}

pub(crate) fn seconds(slot: Slot) -> i64 {
    slot.as_millis() / 1_000 - START.cast_signed()
}

/// Claims an instant once, without waiting.
pub(crate) async fn claim(leases: &Leases, seconds: i64) -> SlotClaimed {
    leases.claim_slot(JOB, at(seconds), Duration::ZERO).await.unwrap()
}

pub(crate) async fn round(leases: &Leases, seconds: i64) -> SlotLease {
    granted(claim(leases, seconds).await)
}

#[track_caller]
pub(crate) fn granted(claimed: SlotClaimed) -> SlotLease {
    match claimed {
        SlotClaimed::Granted(round) => round,
        refused => panic!("{refused:?}"),
    }
}

pub(crate) async fn unfinished(leases: &Leases) -> Vec<UnfinishedSlot> {
    leases.unfinished_slots([JOB]).await.unwrap()
}

/// Claims the rerun of the one round that was cut short.
pub(crate) async fn rerun(leases: &Leases) -> SlotLease {
    let found = unfinished(leases).await;
    assert_eq!(found.len(), 1);
    leases.claim_rerun(&found[0]).await.unwrap().unwrap()
}

/// The output of a task that must have ended by now: nobody moves the clock while it is waited for.
#[track_caller]
pub(crate) fn ended<T>(task: JoinHandle<T>) -> impl Future<Output = T> {
    assert!(task.is_finished(), "the task has not ended");
    async { task.await.unwrap() }
}

/// What is on record of the job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) last: Option<i64>,
    pub(crate) unfinished: Option<i64>,
    pub(crate) rerun: Option<i64>,
    pub(crate) free: bool,
}

impl Record {
    /// Nothing of the last instant is left to be done.
    pub(crate) fn finished(last: i64) -> Self {
        Self { last: Some(last), unfinished: None, rerun: None, free: true }
    }

    /// The last instant was cut short, and not run again.
    pub(crate) fn cut_short(last: i64) -> Self {
        Self { unfinished: Some(last), ..Self::finished(last) }
    }

    /// The last instant was cut short, and so was its rerun.
    pub(crate) fn used_up(last: i64) -> Self {
        Self { rerun: Some(last), ..Self::cut_short(last) }
    }

    /// Nobody runs anything, and nobody may run anything again.
    pub(crate) fn is_settled(self) -> bool {
        self.free && (self.unfinished != self.last || self.rerun == self.last)
    }
}

impl From<Inspection> for Record {
    fn from(seen: Inspection) -> Self {
        let Some(row) = seen.row else { return Self { free: true, ..Self::default() } };
        Self {
            last: row.slot.map(seconds),
            unfinished: row.unfinished_slot.map(seconds),
            rerun: row.rerun_slot.map(seconds),
            free: !row.is_live(seen.now),
        }
    }
}

impl World {
    pub(crate) async fn record(&self) -> Record {
        self.inspect(JOB).await.into()
    }

    /// Ends the lease by the database's word, as an operator would.
    pub(crate) fn clear(&self) {
        self.database.edit_row(&name(JOB), |row| row.expires_at = DbTime::RELEASED);
    }
}
