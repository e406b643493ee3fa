//! On PostgreSQL, through diesel-async: the lease's row is locked from the first statement to the end.

use diesel::result::{Error, QueryResult};
use diesel::sql_types::Text;
use diesel::{ExpressionMethods, QueryDsl, sql_query};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use lease_core::Tenure;
use lease_postgres::PostgresStore;

use super::{Row, accounts};
use crate::{NotDone, steps};

/// Does the work in a transaction that cannot commit after a successor's claim. The connection comes back with the commit and is
/// closed in every other case.
pub async fn guarded(
    store: &PostgresStore,
    tenure: &Tenure,
    mut connection: AsyncPgConnection,
    work: impl AsyncFnOnce(&mut AsyncPgConnection) -> QueryResult<()>,
) -> Result<AsyncPgConnection, NotDone> {
    let fence = store.fence(tenure);
    steps::beside_loss(tenure, async {
        connection.batch_execute(steps::BEGIN_POSTGRES).await?;
        connection.batch_execute(fence.bounds()).await?;
        let [name, holder] = fence.parameters();
        let verify = sql_query(fence.verify()).bind::<Text, _>(name).bind::<Text, _>(holder);
        if verify.load::<Row>(&mut connection).await?.is_empty() {
            return Err(NotDone::Lost);
        }
        Ok(work(&mut connection).await?)
    })
    .await?;
    steps::commit(tenure, connection.batch_execute("COMMIT")).await?;
    Ok(connection)
}

/// Work: moves an amount between two accounts.
pub async fn transfer(
    connection: &mut AsyncPgConnection,
    from: &str,
    to: &str,
    amount: i64,
) -> QueryResult<()> {
    for (account, change) in [(from, -amount), (to, amount)] {
        let update = diesel::update(accounts::table.find(account))
            .set(accounts::balance.eq(accounts::balance + change));
        if update.execute(connection).await? != 1 {
            return Err(Error::NotFound);
        }
    }
    Ok(())
}
