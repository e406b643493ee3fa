//! The contract between the protocol and a database, and all that a store is made of.

use std::time::Duration;

use async_trait::async_trait;

pub use crate::error::{Effect, StoreError};
pub use crate::identifier::Identifier;
pub use crate::instance::{IDENTITY_MAX_BYTES, IdentityText};
pub use crate::io_thread::IoThread;
pub use crate::limit::{Limit, Repeat};
pub use crate::name::{HolderHex, InvalidHolder, NAME_MAX_BYTES};
pub use crate::notice::{Hint, Notices, Notifier};
pub use crate::raw_row::{RawRow, damaged, slot_of, term_of};
pub use crate::row::{DbTime, Inspection, LeaseRow, Listing, Observed};
pub use crate::slot_state::{SlotRow, SlotState};
pub use crate::statement::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, FinishAnswer, Holding, Page, ReleaseAnswer,
    RenewAnswer, Renewed, ResignAnswer, SlotAnswer, SlotEnd, Superseded, UnfinishedSlot, VerifyAnswer,
};
pub use crate::timing::{millis, ttl_ms};
use crate::{Holder, LeaseName, Slot, Term};

/// A database that keeps leases: one row per name, and a clock of its own.
///
/// Decisions live in `lease-core`; a store only runs the statements. To write one, implement every
/// method to its contract and run the conformance suite of `lease-testkit` against it.
///
/// # What holds for every method
///
/// - **The clock** is the database's, in UTC milliseconds, read by the statement itself: never a
///   process's clock, never one that a session's time zone or a daylight-saving change can shift.
///   "Expired" means `expires_at <= now`.
/// - **Atomic.** Each method's condition and its writes are one atomic step, committed durably
///   before the answer, outside any transaction of the caller's. No lock outlives the call.
/// - **`within`** is how long the caller will wait. The store bounds every wait on the server by less,
///   and gives up itself with [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) or
///   [`Busy`](crate::ErrorKind::Busy) soon after it.
/// - **Contention is not loss.** Serialization failures, deadlocks, lock timeouts and busy files are
///   retried until `within` has passed, then answered as an error. "Lost", "gone" and "moved" are only
///   ever the answer "no row matched".
/// - **Errors.** [`StoreError::effect`] says whether the statement can have changed the row;
///   [`Effect::Unknown`] unless the store is sure that it did not and will not.
/// - **Dropping the future** never corrupts the store: the statement either takes place whole or not
///   at all, now or (a ghost: sent, and running on without us) later. A read leaves nothing behind.
/// - **Names and holders** are compared byte by byte. Only the row named is touched; rows are never deleted.
/// - **Kinds that callers rely on:** a missing table or column is [`Schema`](crate::ErrorKind::Schema) from every
///   method but [`migrate`](Self::migrate), a read-only database [`ReadOnly`](crate::ErrorKind::ReadOnly), a row
///   that no store writes [`Damaged`](crate::ErrorKind::Damaged); so is a claim on a term of [`i64::MAX`], which has
///   no successor. A ttl is one that [`Timings`](crate::Timings) and [`min_ttl`](Self::min_ttl) allow.
#[async_trait]
pub trait LeaseStore: Send + Sync + 'static {
    /// The kind and place of the database and the table, for messages: `SQLite file /var/lib/x/leases.db`.
    /// Holds no password.
    fn describe(&self) -> String;

    /// The least ttl that this store can keep apart from its own clock's and waits' granularity.
    fn min_ttl(&self) -> Duration;

    /// Creates the table, or adds what an older version of it lacks.
    ///
    /// Safe to repeat and safe when many processes start at once. Rows keep what they hold.
    /// An error leaves the old table or the new one, never a half of each that later calls cannot complete.
    async fn migrate(&self) -> Result<(), StoreError>;

    /// Says whether this database can carry leases: reached, logged in, the primary, supported, the
    /// table whole, the rights there, commits durable. Changes nothing.
    ///
    /// Each obstacle is an error of its own kind with a message that names it.
    async fn check(&self) -> Result<(), StoreError>;

    /// Takes the name for a new holder if it is free: never claimed, released or expired.
    ///
    /// - *Precondition:* `claim.holder` was minted for this call and never sent before.
    /// - *Atomic:* of any number of claims on a free name exactly one is granted. A granted claim
    ///   writes holder, instance, process, address, version, ttl, `claimed_at = renewed_at = now`,
    ///   `expires_at = now + ttl`, and raises the term by one (to 1 on a new name). Slots stay.
    /// - [`ClaimAnswer::Held`]: the name is held, or another transaction has its row: the answer comes
    ///   without waiting for that transaction to end, where the engine can tell.
    /// - *Error, unknown effect:* the claim may be granted without anybody knowing. The caller
    ///   releases the token until it is gone.
    /// - *Dropped:* the same as an error of unknown effect.
    async fn claim(&self, claim: &Claim, within: Duration) -> Result<ClaimAnswer, StoreError>;

    /// Moves the expiry of a held lease to `now + ttl` and records the heartbeat. The `ttl` column stays the claim's.
    ///
    /// - *Atomic:* only where name and holder match and the row has not expired; a row that is
    ///   missing is not made again. The answer carries whether this term was asked to step down.
    /// - [`RenewAnswer::Lost`]: no such row. Final: no later renewal of the token can succeed.
    /// - A row that another transaction has locked is waited for (within bounds), since only this
    ///   answer may say lost.
    /// - *Error or dropped:* the expiry may have moved, or move later while the lease is still held.
    ///   Harmless: the holder counts from the last renewal it knows of.
    async fn renew(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        within: Duration,
    ) -> Result<RenewAnswer, StoreError>;

    /// Renews many leases in as few statements as the engine allows.
    ///
    /// - *Answer:* one entry per lease, in the order asked. `Some` is a renewal like that of
    ///   [`renew`](Self::renew); `None` says nothing (the row is locked, missing, expired or another
    ///   holder's): the caller asks for it alone. A batch never says lost.
    /// - *Atomic* per row, not across rows. Rows locked by others are skipped, not waited for, where
    ///   the engine can.
    /// - *Error or dropped:* any of the rows may have been renewed, or be renewed later.
    async fn renew_many(
        &self,
        leases: &[Holding],
        ttl: Duration,
        within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError>;

    /// Says whether the lease is still held, by the database's word. Changes nothing.
    ///
    /// - [`VerifyAnswer::Held`]: held when the statement ran, under this term.
    /// - [`VerifyAnswer::Lost`]: no unexpired row with this name and holder.
    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError>;

    /// Frees the name if this holder still has it: the expiry becomes 0. Holder, term and slots stay.
    ///
    /// - *Atomic:* only where name and holder match, expired or not. Another holder's row is never touched.
    /// - [`ReleaseAnswer::Released`] also when it had been released before: safe to repeat.
    /// - *Error or dropped:* the name may be free, or become so later; the token can never free a
    ///   successor's lease.
    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError>;

    /// Takes the name, expired or not, if its row is still as observed.
    ///
    /// For the two cases in which a holder is known dead without the database's clock saying so: a
    /// probe of its process, and a row that has not changed for a whole ttl and margin on the
    /// observer's clock.
    ///
    /// - *Atomic:* only where name, holder and expiry equal those observed; otherwise as
    ///   [`claim`](Self::claim) when granted.
    /// - [`ConditionalAnswer::Moved`]: renewed, released, claimed or missing since, or another
    ///   transaction has its row at this moment; nothing was changed.
    /// - *Error or dropped:* as [`claim`](Self::claim).
    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError>;

    /// Reads one row and the database's clock together. Changes nothing.
    async fn inspect(&self, name: &LeaseName, within: Duration) -> Result<Inspection, StoreError>;

    /// Reads rows in order of their names, byte by byte, and the database's clock together. Changes
    /// nothing. `page.after` continues a listing; pages read at different moments are not one snapshot.
    async fn list(&self, page: &Page, within: Duration) -> Result<Listing, StoreError>;

    /// Frees the name, expired or not, if its row is still as observed: the expiry becomes 0.
    /// Holder, term and slots stay.
    ///
    /// Whether the holder is dead is the caller's judgement; the store only sees to it that nothing
    /// has moved since.
    ///
    /// - *Atomic:* only where name, holder and expiry equal those observed.
    /// - [`ClearAnswer::Moved`]: nothing was changed by this call. So a store does not send the statement
    ///   again after a lost answer: it would find the row moved by itself.
    /// - *Error or dropped:* the row may be freed, now or later, if it is still as observed then.
    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError>;

    /// Asks the holder of `term` to step down; it learns of it with its next renewal.
    ///
    /// - *Atomic:* only where name and term match. Safe to repeat.
    /// - *Error or dropped:* the request may be recorded, now or later; it concerns no other term.
    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError>;

    /// Takes the name for one instant of a schedule, if both are free.
    ///
    /// - *Atomic:* granted only where the name is free, `slot` is later than the slot on record, and
    ///   `slot` is not later than the database's now. A granted claim is as that of
    ///   [`claim`](Self::claim), and records `slot` as the last and as unfinished.
    /// - [`SlotAnswer`] gives the order of the refusals and, with a grant, the instant given up: the
    ///   unfinished one on record, when it was the last one claimed.
    /// - *Error or dropped:* as [`claim`](Self::claim). A round granted without anybody knowing is
    ///   unfinished and, once released or expired, may be claimed as a rerun.
    async fn claim_slot(&self, claim: &Claim, slot: Slot, within: Duration)
    -> Result<SlotAnswer, StoreError>;

    /// Records that the round of a slot ran to its end, and gives the name back.
    ///
    /// - *Atomic, first step* (left out when `end.lost`): where name and holder match, expired or
    ///   not: expiry 0, nothing unfinished, and `end.passed` recorded as the last slot if it is later
    ///   than the one on record and not later than the database's now.
    /// - *Atomic, second step* (when the first matched no row or was left out): where the name's
    ///   unfinished slot is `end.slot`: nothing unfinished. The answer is [`FinishAnswer::Lost`].
    /// - Safe to repeat after an error: a repeated first step answers [`FinishAnswer::Finished`] again, unless somebody
    ///   else has claimed the name meanwhile: then it finds nothing left to record, and says so.
    /// - *Error or dropped:* the end may be recorded, now or later; it never touches a later slot.
    async fn finish_slot(&self, end: &SlotEnd, within: Duration) -> Result<FinishAnswer, StoreError>;

    /// The rounds, of the names given, that were cut short and have not been run again: the
    /// unfinished slot is the last one, was not claimed a second time, and the name is free. One
    /// statement for all names; changes nothing. In no particular order, each once.
    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError>;

    /// Takes the name to run a cut-short round a second and last time.
    ///
    /// - *Precondition:* `claim.name` is `unfinished.name`.
    /// - *Atomic:* only where name and term match, the unfinished slot is `unfinished.slot` and the
    ///   last one, was not claimed a second time, and the name is free. A granted claim is as that of
    ///   [`claim`](Self::claim), and records the slot as rerun; it stays unfinished until it is finished.
    /// - *Error or dropped:* as [`claim`](Self::claim).
    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError>;

    /// The last instant claimed or skipped; `None` when the name never had one. Changes nothing.
    async fn last_slot(&self, name: &LeaseName, within: Duration) -> Result<Option<Slot>, StoreError>;

    /// What this store hears, from now on, of names given back by any process: a [`Notifier`] of the store's, listened to.
    /// `None`, the default, where the engine tells nothing: then who waits looks again and again.
    ///
    /// - Never waits and never fails: what it takes to hear is begun in the background, and while nobody
    ///   [listens](Notifier::is_heard) need not go on. It goes on no longer than there is a handle of the store.
    /// - Hints may be false, late or missing: each costs a look, or a wait until the next one. After a time in which it was
    ///   deaf (it had to connect, or to connect again) a store hints at any name, once.
    fn notices(&self) -> Option<Notices> {
        None
    }

    /// Tells other processes that a name was given back, where that takes a statement of its own. It is sent when the
    /// release, the end of a round or the clear has taken place, apart from it, and once.
    ///
    /// - Changes no row and makes none; any name may be told, at any time. Safe to repeat.
    /// - *Error or dropped:* it may be told, now or later. Nobody asks again: who waits looks a little later.
    async fn announce(&self, _name: &LeaseName, _within: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}
