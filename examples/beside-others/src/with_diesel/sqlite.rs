//! On SQLite: the file's one write lock is held from the begin to the end.

use diesel::connection::SimpleConnection;
use diesel::deserialize;
use diesel::result::{Error, QueryResult};
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Text};
use diesel::sqlite::{Sqlite, SqliteConnection};
use diesel::{ExpressionMethods, QueryDsl, QueryableByName, RunQueryDsl, sql_query};
use lease_core::Tenure;
use lease_sqlite::SqliteStore;

use super::accounts;
use crate::{NotDone, steps};

/// Does the work in a transaction that cannot commit after a successor's claim, on a connection to the file of the leases. It comes
/// back with the commit and is closed in every other case. It blocks: call it where that is allowed.
pub fn guarded(
    store: &SqliteStore,
    tenure: &Tenure,
    mut connection: SqliteConnection,
    work: impl FnOnce(&mut SqliteConnection) -> QueryResult<()>,
) -> Result<SqliteConnection, NotDone> {
    let fence = store.fence(tenure);
    // No other renewal gets in: this transaction carries one, which counts when it is committed.
    let renewal = tenure.carry_renewal();
    connection.batch_execute(&steps::set_busy_timeout(tenure.timings()))?;
    connection.batch_execute(fence.begin())?;
    let (name, holder, ttl) = fence.parameters();
    let verify =
        sql_query(fence.verify()).bind::<Text, _>(name).bind::<Text, _>(holder).bind::<BigInt, _>(ttl);
    let held: Vec<Held> = verify.load(&mut connection)?;
    let held = held.first().ok_or(NotDone::Lost)?;
    work(&mut connection)?;
    if !tenure.check() {
        return Err(NotDone::Lost);
    }
    connection.batch_execute(fence.commit()).map_err(|error| NotDone::Unknown(error.into()))?;
    renewal.committed(held.step_down);
    Ok(connection)
}

struct Held {
    step_down: bool,
}

/// By hand, for it is a number there.
impl QueryableByName<Sqlite> for Held {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> deserialize::Result<Self> {
        let step_down: i64 = NamedRow::get::<BigInt, _>(row, "step_down")?;
        Ok(Self { step_down: step_down != 0 })
    }
}

/// Work: moves an amount between two accounts.
pub fn transfer(connection: &mut SqliteConnection, from: &str, to: &str, amount: i64) -> QueryResult<()> {
    for (account, change) in [(from, -amount), (to, amount)] {
        let update = diesel::update(accounts::table.find(account))
            .set(accounts::balance.eq(accounts::balance + change));
        if update.execute(connection)? != 1 {
            return Err(Error::NotFound);
        }
    }
    Ok(())
}
