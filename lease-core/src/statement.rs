//! The questions put to a store and its answers.

use std::time::Duration;

use crate::{Holder, Instance, LeaseName, Slot, Term};

/// A claim of a name.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The name.
    pub name: LeaseName,
    /// A token minted for this claim and no other.
    pub holder: Holder,
    /// How long the lease lasts from the database's now. Whole milliseconds.
    pub ttl: Duration,
    /// Who claims, for people.
    pub instance: Instance,
}

/// The answer to [`claim`](crate::LeaseStore::claim).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// The name is the claim's from now on, under this term.
    Granted(Term),
    /// Somebody else holds the name, or is taking it at this moment.
    Held,
}

/// The answer to a claim that depends on a state seen before: [`claim_observed`](crate::LeaseStore::claim_observed)
/// and [`claim_rerun`](crate::LeaseStore::claim_rerun).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionalAnswer {
    /// Nothing had moved: the name is the claim's from now on, under this term.
    Granted(Term),
    /// Something had moved; nothing was changed.
    Moved,
}

/// The answer to [`renew`](crate::LeaseStore::renew).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewAnswer {
    /// The expiry is the database's now plus the ttl.
    Renewed(Renewed),
    /// No unexpired row with this name and holder exists. It is final: the token is never held again.
    Lost,
}

/// A renewal that took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewed {
    /// Somebody asked this term to step down.
    pub step_down: bool,
}

/// One lease of a batch, for [`renew_many`](crate::LeaseStore::renew_many).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The name.
    pub name: LeaseName,
    /// The token of its claim.
    pub holder: Holder,
}

/// The answer to [`verify`](crate::LeaseStore::verify).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyAnswer {
    /// The lease is held under this term.
    Held(Term),
    /// No unexpired row with this name and holder exists.
    Lost,
}

/// The answer to [`release`](crate::LeaseStore::release).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseAnswer {
    /// The row still carried this holder and its expiry is now 0, or was so already.
    Released,
    /// No row carries this name and holder: another claim has replaced it, or there never was one.
    Gone,
}

/// The answer to [`clear`](crate::LeaseStore::clear).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClearAnswer {
    /// The row was as observed and its expiry is now 0.
    Cleared,
    /// The row was not as observed; nothing was changed.
    Moved,
}

/// The answer to [`resign`](crate::LeaseStore::resign).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResignAnswer {
    /// The holder of this term learns of it with its next renewal.
    Asked,
    /// The name is under another term; nothing was changed.
    Moved,
}

/// A page of [`list`](crate::LeaseStore::list).
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Only names that begin with this, byte by byte; empty for all.
    pub prefix: String,
    /// Only names later than this; `None` for the first page.
    pub after: Option<LeaseName>,
    /// At most this many rows.
    pub limit: u32,
}

/// The answer to [`claim_slot`](crate::LeaseStore::claim_slot).
///
/// When several hold, the first in this order is answered: `Passed`, `NotYet`, `Held`: what can
/// never be granted is said before what may be granted later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotAnswer {
    /// The name and the instant are the claim's.
    Granted {
        /// The term.
        term: Term,
        /// The instant given up for this one: the last one claimed, when its round never finished.
        superseded: Option<Superseded>,
    },
    /// The name is held, for an earlier instant or without one; or it is being taken, or its row is locked, at this
    /// moment. Asked again, the answer may be another one.
    Held,
    /// The instant, or a later one, has been claimed or skipped already.
    Passed,
    /// The instant has not come by the database's clock; it comes in this long.
    NotYet(Duration),
}

/// An instant whose round was cut short and will not run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superseded {
    /// The instant.
    pub slot: Slot,
    /// Whether its round had been claimed a second time.
    pub rerun: bool,
}

/// The end of a round, for [`finish_slot`](crate::LeaseStore::finish_slot).
#[derive(Debug, Clone)]
pub struct SlotEnd {
    /// The name.
    pub name: LeaseName,
    /// The token of the round's claim.
    pub holder: Holder,
    /// The instant of the round.
    pub slot: Slot,
    /// The latest instant of the schedule that has come meanwhile: recorded as skipped unless the
    /// database's clock has not reached it.
    pub passed: Option<Slot>,
    /// The lease is known to be lost: giving the name back is not tried, only the end is recorded.
    pub lost: bool,
}

/// The answer to [`finish_slot`](crate::LeaseStore::finish_slot).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishAnswer {
    /// The end is recorded and the name is free.
    Finished,
    /// The lease had been lost, or has ended by an earlier attempt at this very end, and the name was claimed since. The
    /// end is recorded all the same unless a later instant had been claimed meanwhile. No `passed` is.
    Lost {
        /// Whether this attempt recorded the end. `false` too for a repetition of one that did, if the name was claimed
        /// in between.
        recorded: bool,
    },
}

/// A round that was cut short and may run once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedSlot {
    /// The name.
    pub name: LeaseName,
    /// The instant.
    pub slot: Slot,
    /// The term seen; a rerun is granted only while it stands.
    pub term: Term,
}
