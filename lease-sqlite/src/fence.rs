//! The pieces of a guarded transaction, for programs that do not use the guard.

use lease_core::Tenure;
use lease_core::store::{HolderHex, millis};

use crate::{SqliteStore, sql};

/// The statements of a guarded transaction and their parameters, for sqlx, diesel, sea-orm or raw SQL on the file of the
/// leases.
///
/// 1. [`Tenure::carry_renewal`], then [`begin`](Self::begin), with a busy timeout below the attempt.
/// 2. [`verify`](Self::verify). No row: the lease is lost; roll back.
/// 3. What the transaction is for. At the first error roll back and begin anew: SQLite may have ended the
///    transaction by itself, and what followed would be committed by itself, under no lease.
/// 4. If [`Tenure::check`] still says so, [`commit`](Self::commit), then
///    [`CarriedRenewal::committed`](lease_core::guard::CarriedRenewal::committed). Otherwise, and when it fails, roll back.
///
/// That gives the promise, as long as all of it is kept: nobody else has written to the file since step 2. What the
/// [`Guard`](crate::Guard) does beyond it: it looks whether the connection has the file of the store and no other; it refuses
/// every other commit; it interrupts a statement that runs when the lease is lost; it
/// lets no trigger on the lease table fire, and refuses a temporary one.
///
/// ```
/// # use lease_core::Tenure;
/// # use lease_sqlite::SqliteStore;
/// use rusqlite::{Connection, OptionalExtension};
///
/// fn pay(store: &SqliteStore, tenure: &Tenure, connection: &mut Connection) -> rusqlite::Result<bool> {
///     let fence = store.fence(tenure);
///     let renewal = tenure.carry_renewal();
///     connection.execute_batch(fence.begin())?;
///     let step_down = || -> rusqlite::Result<Option<bool>> {
///         let held = connection.query_row(fence.verify(), fence.parameters(), |row| row.get(1)).optional()?;
///         if held.is_none() {
///             return Ok(None);
///         }
///         connection.execute("UPDATE accounts SET balance = balance - 10 WHERE id = 7", [])?;
///         if !tenure.check() || connection.is_autocommit() {
///             return Ok(None);
///         }
///         connection.execute_batch(fence.commit())?;
///         Ok(held)
///     }();
///     match step_down {
///         Ok(Some(step_down)) => renewal.committed(step_down),
///         // It fails when SQLite has rolled back by itself.
///         _ => drop(connection.execute_batch("ROLLBACK")),
///     }
///     Ok(step_down?.is_some())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Fence {
    verify: String,
    name: String,
    holder: HolderHex,
    ttl_ms: i64,
}

impl Fence {
    /// Takes the write lock before anything is read. A plain `BEGIN` takes it too late.
    pub fn begin(&self) -> &str {
        sql::BEGIN
    }

    /// The first statement, with the [`parameters`](Self::parameters) `?1`, `?2` and `?3`: one row when the lease is
    /// held, which it is for a ttl from then on: the `term`, and `step_down`, 1 if the holder is asked to, else 0. No row: it is
    /// lost.
    pub fn verify(&self) -> &str {
        &self.verify
    }

    /// The name and the holder's token, both text, and the ttl in milliseconds.
    pub fn parameters(&self) -> (&str, &str, i64) {
        (&self.name, self.holder.as_str(), self.ttl_ms)
    }

    /// The end. With a rollback journal it may be refused as busy, with the transaction open still.
    pub fn commit(&self) -> &str {
        sql::COMMIT
    }
}

impl SqliteStore {
    /// The pieces of a guarded transaction under this lease of the store's, for programs that do not use
    /// [`guard`](Self::guard).
    pub fn fence(&self, tenure: &Tenure) -> Fence {
        Fence {
            verify: sql::guard(self.table()),
            name: tenure.name().to_string(),
            holder: tenure.holder().hex(),
            ttl_ms: millis(tenure.timings().ttl()),
        }
    }
}
