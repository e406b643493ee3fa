//! On MySQL and MariaDB, through diesel-async: the lease's row is locked right before the commit.

use diesel::result::{Error, QueryResult};
use diesel::sql_types::Text;
use diesel::{ExpressionMethods, QueryDsl, sql_query};
use diesel_async::{AsyncMysqlConnection, RunQueryDsl, SimpleAsyncConnection};
use lease_core::Tenure;
use lease_mysql::{Fence, MysqlStore};

use super::{Row, accounts};
use crate::{NotDone, steps};

/// Does the work in a transaction that cannot commit after a successor's claim. The connection comes back with the commit, set for
/// guarded transactions, and is closed in every other case.
pub async fn guarded(
    store: &MysqlStore,
    tenure: &Tenure,
    mut connection: AsyncMysqlConnection,
    work: impl AsyncFnOnce(&mut AsyncMysqlConnection) -> QueryResult<()>,
) -> Result<AsyncMysqlConnection, NotDone> {
    let fence = store.fence(tenure);
    steps::beside_loss(tenure, async {
        for set in steps::mysql_session(tenure.timings().ttl()) {
            connection.batch_execute(&set).await?;
        }
        // Before the transaction, in which it would keep changes of the lease table waiting.
        if !is_held(&fence, &mut connection).await? {
            return Err(NotDone::Lost);
        }
        connection.batch_execute("COMMIT; START TRANSACTION READ WRITE").await?;
        work(&mut connection).await?;
        let [name, holder] = fence.parameters();
        let last = sql_query(fence.fence()).bind::<Text, _>(name).bind::<Text, _>(holder);
        if let Err(error) = last.load::<Row>(&mut connection).await {
            // diesel does not tell the number by which the fence says that the lease is lost: it is asked once more.
            connection.batch_execute("ROLLBACK").await?;
            let is_held = is_held(&fence, &mut connection).await?;
            return Err(if is_held { error.into() } else { NotDone::Lost });
        }
        Ok(())
    })
    .await?;
    // At once: since the fence nobody renews the lease.
    steps::commit(tenure, connection.batch_execute("COMMIT")).await?;
    Ok(connection)
}

async fn is_held(fence: &Fence, connection: &mut AsyncMysqlConnection) -> QueryResult<bool> {
    let [name, holder] = fence.parameters();
    let verify = sql_query(fence.verify()).bind::<Text, _>(name).bind::<Text, _>(holder);
    Ok(!verify.load::<Row>(connection).await?.is_empty())
}

/// Work: moves an amount between two accounts.
pub async fn transfer(
    connection: &mut AsyncMysqlConnection,
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
