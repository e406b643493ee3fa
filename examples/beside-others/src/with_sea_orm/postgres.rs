//! On PostgreSQL: the lease's row is locked from the first statement to the end.

use lease_core::Tenure;
use lease_postgres::PostgresStore;
use sea_orm::{
    AccessMode, ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr, IsolationLevel,
    TransactionTrait,
};

use super::statement;
use crate::{NotDone, steps};

/// Does the work in a transaction that cannot commit after a successor's claim.
pub async fn guarded(
    store: &PostgresStore,
    tenure: &Tenure,
    database: &DatabaseConnection,
    work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<(), DbErr>,
) -> Result<(), NotDone> {
    let fence = store.fence(tenure);
    let (level, access) = (IsolationLevel::ReadCommitted, AccessMode::ReadWrite);
    let transaction = steps::beside_loss(tenure, async {
        let transaction = database.begin_with_config(Some(level), Some(access)).await?;
        transaction.execute_unprepared("SET LOCAL lock_timeout = '2s'").await?;
        transaction.execute_unprepared(fence.bounds()).await?;
        let verify = statement(database, fence.verify(), fence.parameters().map(Into::into));
        transaction.query_one_raw(verify).await?.ok_or(NotDone::Lost)?;
        work(&transaction).await?;
        Ok(transaction)
    });
    steps::commit(tenure, transaction.await?.commit()).await
}
