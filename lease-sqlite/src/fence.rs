//! The pieces of a guarded transaction, for programs that do not use the guard.

use lease_core::Tenure;
use lease_core::store::millis;

use crate::{SqliteStore, sql};

/// The statements of a guarded transaction and their parameters, for sqlx, diesel, sea-orm or raw SQL on the file of the
/// leases.
///
/// 1. [`Tenure::carry_renewal`], then [`begin`](Self::begin), with a busy timeout below the attempt.
/// 2. [`verify`](Self::verify). No row: the lease is lost; roll back.
/// 3. What the transaction is for. At the first error roll back and begin anew: SQLite may have ended the
///    transaction by itself, and what followed would be committed by itself, under no lease.
/// 4. If [`Tenure::check`] still says so, [`commit`](Self::commit), then
///    [`CarriedRenewal::committed`](lease_core::guard::CarriedRenewal::committed). Otherwise roll back.
///
/// That gives the promise, as long as all of it is kept: nobody else has written to the file since step 2. What the
/// [`Guard`](crate::Guard) does beyond it: it looks whether the connection has the file of the store and no other; it refuses
/// every other commit; it interrupts a statement that runs when the lease is lost.
///
/// ```
/// # use lease_core::Tenure;
/// # use lease_sqlite::SqliteStore;
/// use rusqlite::{Connection, OptionalExtension, params};
///
/// fn pay(store: &SqliteStore, tenure: &Tenure, connection: &mut Connection) -> rusqlite::Result<bool> {
///     let fence = store.fence(tenure);
///     let renewal = tenure.carry_renewal();
///     connection.execute_batch(fence.begin)?;
///     let held = || -> rusqlite::Result<bool> {
///         let params = params![fence.name, fence.holder, fence.ttl_ms];
///         let term: Option<i64> = connection.query_row(&fence.verify, params, |row| row.get(0)).optional()?;
///         if term.is_none() {
///             return Ok(false);
///         }
///         connection.execute("UPDATE accounts SET balance = balance - 10 WHERE id = 7", [])?;
///         Ok(tenure.check())
///     }();
///     if !matches!(held, Ok(true)) || connection.is_autocommit() {
///         let _ = connection.execute_batch("ROLLBACK");
///         return held.and(Ok(false));
///     }
///     connection.execute_batch(fence.commit)?; // after an error: roll back
///     renewal.committed();
///     Ok(true)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fence {
    /// Takes the write lock before anything is read. A plain `BEGIN` takes it too late.
    pub begin: &'static str,
    /// Answers with one row, the term, while the lease is held, which it is for a ttl from then on; with none when it is
    /// lost. `?1` is [`name`](Self::name), `?2` [`holder`](Self::holder), `?3` [`ttl_ms`](Self::ttl_ms).
    pub verify: String,
    /// The end. With a rollback journal it may be refused as busy, with the transaction open still.
    pub commit: &'static str,
    /// The name of the lease.
    pub name: String,
    /// The token of its claim, in hexadecimal.
    pub holder: String,
    /// The ttl, in milliseconds.
    pub ttl_ms: i64,
}

impl SqliteStore {
    /// The pieces of a guarded transaction under this lease of the store's, for programs that do not use
    /// [`guard`](Self::guard).
    pub fn fence(&self, tenure: &Tenure) -> Fence {
        Fence {
            begin: sql::BEGIN,
            verify: sql::guard(self.table()),
            commit: sql::COMMIT,
            name: tenure.name().to_string(),
            holder: tenure.holder().to_string(),
            ttl_ms: millis(tenure.timings().ttl()),
        }
    }
}
