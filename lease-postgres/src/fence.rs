//! The pieces alone, for transactions of another driver.

use lease_core::Tenure;
use lease_core::store::HolderHex;

use crate::guard::Bounds;
use crate::options::Table;
use crate::sql;

/// The statements that make a transaction a guarded one, and their parameters, for drivers that the guard does not
/// know: from [`PostgresStore::fence`](crate::PostgresStore::fence). The recipe is in the
/// [crate's documentation](crate#the-pieces-alone).
#[derive(Debug, Clone)]
pub struct Fence {
    verify: String,
    bounds: String,
    name: String,
    holder: HolderHex,
}

impl Fence {
    pub(crate) fn new(table: &Table, tenure: &Tenure) -> Self {
        Self {
            verify: sql::fence(table),
            bounds: sql::bounds(&Bounds::of_ttl(tenure.timings().ttl())),
            name: tenure.name().to_string(),
            holder: tenure.holder().hex(),
        }
    }

    /// The first statement of the transaction, with the [`parameters`](Self::parameters) `$1` and `$2`: one row, the term
    /// (`bigint`), when the lease is held, and from then on no claim is granted until the transaction has ended. No row: the
    /// lease is lost; roll back. It fails in a transaction that is read-only.
    pub fn verify(&self) -> &str {
        &self.verify
    }

    /// The name and the holder's token, both `text`.
    pub fn parameters(&self) -> [&str; 2] {
        [&self.name, self.holder.as_str()]
    }

    /// A statement that sets the [default bounds](Bounds::of_ttl) until the transaction ends. It answers one row, of no use.
    pub fn bounds(&self) -> &str {
        &self.bounds
    }
}
