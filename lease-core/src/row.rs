//! What a store reads back about a lease.

use std::time::Duration;

use crate::{Holder, LeaseName, Slot, Term};

/// A point on the database's clock: milliseconds since 1970 UTC. Never compare it with a local clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DbTime(i64);

impl DbTime {
    /// A lease whose expiry reads this was released (or cleared) rather than left to expire.
    pub const RELEASED: Self = Self(0);

    /// The time `ms` milliseconds after 1970 UTC. A damaged row can hold any number.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970 UTC.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The time from `earlier` to this, zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(i128::from(self.0) - i128::from(earlier.0)).unwrap_or(0))
    }
}

/// One row of the lease table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRow {
    /// The name, the primary key.
    pub name: LeaseName,
    /// The token of the last claim; it stays in the row after the release.
    pub holder: Holder,
    /// Who claimed, for people: `host:pid` and an optional label.
    pub instance: String,
    /// Facts for the same-host probe; empty when unknown.
    pub process: String,
    /// Where the holder can be reached; may be empty.
    pub address: String,
    /// The holder's program version; may be empty.
    pub version: String,
    /// How often the name has changed hands.
    pub term: Term,
    /// When the term began.
    pub claimed_at: DbTime,
    /// When the holder last claimed or renewed.
    pub renewed_at: DbTime,
    /// Until when the lease is held: free when not later than now, [`DbTime::RELEASED`] after a release.
    pub expires_at: DbTime,
    /// The ttl the holder asked for.
    pub ttl: Duration,
    /// The term that was asked to step down, 0 for none.
    pub resign_term: i64,
    /// The last instant claimed or skipped.
    pub slot: Option<Slot>,
    /// The instant whose round has not been recorded as finished.
    pub unfinished_slot: Option<Slot>,
    /// The last instant that was claimed again after it had been cut short.
    pub rerun_slot: Option<Slot>,
}

impl LeaseRow {
    /// Whether the lease is held at `now`.
    pub fn is_live(&self, now: DbTime) -> bool {
        self.expires_at > now
    }

    /// The state that a conditional statement ([`claim_observed`](crate::LeaseStore::claim_observed),
    /// [`clear`](crate::LeaseStore::clear)) compares with.
    pub fn observed(&self) -> Observed {
        Observed { holder: self.holder, expires_at: self.expires_at }
    }
}

/// The part of a row by which "nothing has happened since I looked" is judged: a healthy holder
/// moves the expiry with each renewal, and each claim brings a new holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Observed {
    /// The token seen.
    pub holder: Holder,
    /// The expiry seen.
    pub expires_at: DbTime,
}

/// One row and the database's clock, read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The database's clock when the row was read.
    pub now: DbTime,
    /// The row; `None` when the name was never claimed.
    pub row: Option<LeaseRow>,
}

/// Rows in order of their names (byte by byte) and the database's clock, read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The database's clock when the rows were read.
    pub now: DbTime,
    /// At most as many rows as were asked for.
    pub rows: Vec<LeaseRow>,
}
