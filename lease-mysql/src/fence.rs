//! The pieces alone, for transactions of another driver.

use lease_core::Tenure;
use lease_core::store::{HolderHex, Identifier};

use crate::row::{Flight, text};
use crate::sql;

/// The statements that make a transaction a guarded one, and their parameters, for drivers that the guard does not
/// know: from [`MysqlStore::fence`](crate::MysqlStore::fence). The recipe is in the
/// [crate's documentation](crate#the-pieces-alone).
#[derive(Debug, Clone)]
pub struct Fence {
    verify: String,
    last: String,
    commit: String,
    name: String,
    holder: HolderHex,
}

impl Fence {
    /// The server's error number (`ER_SUBQUERY_NO_1_ROW`, SQLSTATE 21000) with which [`fence`](Self::fence) and
    /// [`commit`](Self::commit) say that the lease is lost.
    pub const LOST: u16 = 1242;

    pub(crate) fn new(table: &Identifier, tenure: &Tenure) -> Self {
        let (name, holder) = (tenure.name().to_string(), tenure.holder().hex());
        let values = vec![("name", text(&name)), ("holder", text(holder.as_str()))];
        let fence = Flight::one(sql::fence(table), values).written_out();
        let positional = |sql: String| sql.replace(":name", "?").replace(":holder", "?");
        Self {
            verify: positional(sql::guard(table)),
            last: positional(sql::fence(table)),
            commit: format!("{};\n{}", fence.concat(), sql::COMMIT_GUARDED),
            name,
            holder,
        }
    }

    /// The first statement of the transaction, with the [`parameters`](Self::parameters): one row, the term (`BIGINT`), when the
    /// lease is held, none when it is lost: roll back. It locks nothing and promises nothing; it saves work that could not be
    /// committed.
    pub fn verify(&self) -> &str {
        &self.verify
    }

    /// The last statement before the `COMMIT`, with the [`parameters`](Self::parameters): one row when the lease is held, and
    /// from then on no claim is granted until the transaction has ended, but **no renewal of the lease either**: so commit
    /// at once. The error [`LOST`](Self::LOST) when the lease is lost: roll back, for the transaction is still open.
    pub fn fence(&self) -> &str {
        &self.last
    }

    /// The fence and the `COMMIT` as one text without parameters, for a client that sends several statements at once: nothing is
    /// committed when the first fails, and no pause of the client comes between the two.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// The name and the holder's token, both texts, in the order of the question marks.
    pub fn parameters(&self) -> [&str; 2] {
        [&self.name, self.holder.as_str()]
    }
}
