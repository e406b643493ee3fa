//! A line of a history.

use std::time::Duration;

use lease_core::store::LeaseRow;
use lease_core::{Holder, LeaseName, LossReason, Tenure, Timings};
use serde::{Deserialize, Serialize};

use super::statement::GivenUp;
use super::{Answer, Ask, Fault, Name, Sample, text};

/// A line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The moment, in nanoseconds of `CLOCK_BOOTTIME`. What it is the moment of, each event says.
    pub at: u64,
    /// Who writes; 0 is the orchestrator.
    pub process: u32,
    /// How often this process had been started before.
    pub incarnation: u32,
    /// What there is to say.
    pub event: Event,
}

/// What there is to say. *Before* and *after*: when the moment of the line was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The process has started; its first line.
    Started {
        /// Its process id.
        pid: u32,
        /// The engine: `postgres`, `mariadb`, `mysql`, `sqlite` or `memory`.
        backend: String,
        /// What its leases are claimed with.
        setting: Setting,
    },
    /// The process ends in order; its last line.
    Done,
    /// Until this moment (*after*), for at least so long, the process did not run.
    Stood {
        /// How long, in milliseconds.
        ms: u64,
    },
    /// What the process uses (*before*).
    Sample(Sample),
    /// By the orchestrator, of another process.
    Process {
        /// Which.
        process: u32,
        /// Which of that number.
        incarnation: u32,
        /// What has become of it.
        change: Change,
    },
    /// A statement is going to be put to the store (*before*).
    Asked {
        /// Its number in this incarnation.
        call: u64,
        /// The statement.
        ask: Ask,
    },
    /// It was answered (*after*).
    Answered {
        /// Its number.
        call: u64,
        /// The answer.
        answer: Answer,
    },
    /// Its future was dropped (*after*): it may take place, now or later.
    Dropped {
        /// Its number.
        call: u64,
    },
    /// From now on this process wants a name and claims it whenever it can (*before*): `elect`, `acquire`, a schedule's loop.
    Wants(Name),
    /// Not any more (*before* it stops).
    WantsNoMore(Name),
    /// `Tenure::check` was true (*after*): the first time at `since` or before, the last time at `until` or later. Several of one tenure
    /// may be written, one after the other, so that a kill leaves all but the last.
    Believed {
        /// The lease.
        lease: LeaseId,
        /// A moment read when a first check had answered true.
        since: u64,
        /// A moment read right before a last check that answered true. Not earlier than `since`.
        until: u64,
    },
    /// `Tenure::check` was false (*after*).
    Disbelieved(LeaseId),
    /// `Tenure::lost` has returned (*after*).
    Lost {
        /// The lease.
        lease: LeaseId,
        /// Why.
        reason: Loss,
    },
    /// The work under a lease has begun (*before*).
    WorkBegan(LeaseId),
    /// The work under a lease has ended, all of it (*after*).
    WorkEnded(LeaseId),
    /// The work was told to step down (*after*).
    StepDown(LeaseId),
    /// The database has been told that the name is free (*after*).
    GivenBack(LeaseId),
    /// Of a guarded transaction.
    Guard {
        /// Its number in this incarnation; the ledger has it too.
        tx: u64,
        /// The lease that it is under.
        lease: LeaseId,
        /// Where it is.
        step: Guard,
    },
    /// The work of a round begins, its lease held (*after* the grant).
    RoundBegan {
        /// The round.
        round: RoundId,
        /// It is the second of its instant.
        rerun: bool,
        /// What was given up for it.
        superseded: Option<GivenUp>,
    },
    /// The work of a round has come to its end (*before* that is told).
    RoundEnded(RoundId),
    /// What became of the round (*after*).
    RoundSettled {
        /// The round.
        round: RoundId,
        /// What.
        end: End,
    },
    /// By the orchestrator: a fault is going to be injected (*before*).
    FaultBegan(Fault),
    /// By the orchestrator: nothing of the fault is left (*after*).
    FaultEnded(Fault),
    /// By the orchestrator: no fault is on, the database answers, and no further fault begins before another
    /// [`FaultBegan`](Self::FaultBegan) is written (*after*).
    Healed,
    /// By the orchestrator: a row of the lease table, read when all processes have ended (*after*). Names that were never claimed
    /// have none.
    FinalRow(Row),
    /// By the orchestrator: an entry of the ledger, read when all processes have ended (*after*), in any order.
    Ledger(Ledger),
    /// By the orchestrator: the ledger has been written whole. Without it nothing is concluded from what is not in it.
    LedgerComplete,
}

/// Which lease: a term of a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseId {
    /// The name.
    #[serde(with = "text")]
    pub name: LeaseName,
    /// The term.
    pub term: i64,
    /// The token.
    #[serde(with = "text")]
    pub holder: Holder,
}

impl From<&Tenure> for LeaseId {
    fn from(tenure: &Tenure) -> Self {
        Self { name: tenure.name().clone(), term: tenure.term().get(), holder: tenure.holder() }
    }
}

/// The timings of a process, in nanoseconds as moments are: a deadline that was cut to milliseconds would convict who keeps to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is the part of its name in `Timings`")]
pub struct Setting {
    pub ttl: u64,
    pub renew: u64,
    pub attempt: u64,
    pub deadline: u64,
    pub grace: u64,
    pub margin: u64,
}

impl Setting {
    /// The longest that who waits takes from one look to the next.
    pub fn poll(&self) -> u64 {
        self.ttl / 3 * 6 / 5
    }
}

impl From<&Timings> for Setting {
    fn from(timings: &Timings) -> Self {
        let nanos = |part: Duration| u64::try_from(part.as_nanos()).unwrap_or(u64::MAX);
        let parts = timings.parts();
        Self {
            ttl: nanos(parts.ttl),
            renew: nanos(parts.renew),
            attempt: nanos(parts.attempt),
            deadline: nanos(parts.deadline),
            grace: nanos(parts.grace),
            margin: nanos(parts.margin),
        }
    }
}

/// What has become of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It was killed by the orchestrator and is gone (*after*).
    Killed,
    /// It has died by itself otherwise than in order (*after*), with this exit code, if any.
    Died(Option<i32>),
    /// It stands still (*after*: it was seen to).
    Stopped,
    /// It is going to be continued (*before*).
    Continued,
}

/// Why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// The database said so.
    Refused,
    /// No renewal succeeded in time.
    Deadline,
    /// This process gave it back.
    Released,
    /// The database was replaced.
    Replaced,
    /// A reason that the lab does not know.
    Other,
}

impl From<&LossReason> for Loss {
    fn from(reason: &LossReason) -> Self {
        match reason {
            LossReason::Refused => Self::Refused,
            LossReason::Deadline { .. } => Self::Deadline,
            LossReason::Released => Self::Released,
            LossReason::Replaced(_) => Self::Replaced,
            _ => Self::Other,
        }
    }
}

/// The steps of a guarded transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// It is going to begin (*before*).
    Began,
    /// It has begun, its lease verified (*after*).
    Verified,
    /// It has written, so many rows (*after*).
    Wrote(u64),
    /// Its commit is going to be sent (*before*).
    Commits,
    /// How it ended (*after*).
    Ended(Finish),
}

/// How a guarded transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It is committed.
    Committed,
    /// Its lease was lost; it is not committed and never will be.
    Lost,
    /// It failed, was rolled back by its work, or could not begin; it is not committed and never will be.
    Failed,
    /// Nobody knows.
    Unknown,
    /// Its guard was dropped open; it is not committed and never will be.
    Dropped,
}

/// A claim of an instant that was granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RoundId {
    /// The name.
    #[serde(with = "text")]
    pub name: LeaseName,
    /// The instant, in milliseconds since 1970.
    pub slot: i64,
    /// The term.
    pub term: i64,
}

/// What became of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Its end is recorded.
    Finished,
    /// Its lease was lost; its end is recorded all the same.
    LostRecorded,
    /// Its lease was lost; its end was not recorded by this call.
    Lost,
    /// Nobody knows whether its end is recorded.
    Unrecorded,
    /// Its work has not come to its end.
    CutShort,
}

/// A row of the lease table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The name.
    #[serde(with = "text")]
    pub name: LeaseName,
    /// The token of the last claim.
    #[serde(with = "text")]
    pub holder: Holder,
    /// The term.
    pub term: i64,
    /// Until when it is held by the database's clock; 0 when released.
    pub expires_ms: i64,
    /// The last instant claimed or skipped; 0 for none.
    #[serde(default)]
    pub slot: i64,
    /// The instant whose end is not recorded; 0 for none.
    #[serde(default)]
    pub unfinished: i64,
    /// The last instant claimed again; 0 for none.
    #[serde(default)]
    pub rerun: i64,
}

impl From<&LeaseRow> for Row {
    fn from(row: &LeaseRow) -> Self {
        let ms = |slot: Option<lease_core::Slot>| slot.map_or(0, lease_core::Slot::as_millis);
        Self {
            name: row.name.clone(),
            holder: row.holder,
            term: row.term.get(),
            expires_ms: row.expires_at.as_millis(),
            slot: ms(row.slot),
            unfinished: ms(row.unfinished_slot),
            rerun: ms(row.rerun_slot),
        }
    }
}

/// An entry of the ledger: what a guarded transaction has written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Its place in the order of the commits of its name. Take it from a counter row of the name that the same transaction
    /// moves, so that the row's lock makes the order of the numbers that of the commits; an auto-increment does not.
    pub place: i64,
    /// The name.
    #[serde(with = "text")]
    pub name: LeaseName,
    /// The term.
    pub term: i64,
    /// Who wrote it.
    pub process: u32,
    /// Which of that number.
    pub incarnation: u32,
    /// The transaction.
    pub tx: u64,
    /// Which database it was found in: 0, or how often the file had been replaced.
    #[serde(default)]
    pub database: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_setting_is_cut_to_milliseconds() {
        let timings = Timings::from_ttl(Duration::from_secs(4)).unwrap();
        assert_eq!(Duration::from_nanos(Setting::from(&timings).deadline), timings.deadline());
        assert_ne!(timings.deadline().subsec_nanos() % 1_000_000, 0);
    }
}
