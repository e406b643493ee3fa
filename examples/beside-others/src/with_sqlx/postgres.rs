//! On PostgreSQL: the lease's row is locked from the first statement to the end.

use lease_core::Tenure;
use lease_postgres::PostgresStore;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Error, raw_sql};

use crate::{NotDone, steps};

/// Does the work in a transaction that cannot commit after a successor's claim. The connection comes back with the commit and is
/// closed in every other case.
pub async fn guarded(
    store: &PostgresStore,
    tenure: &Tenure,
    mut connection: PgConnection,
    work: impl AsyncFnOnce(&mut PgConnection) -> Result<(), Error>,
) -> Result<PgConnection, NotDone> {
    let fence = store.fence(tenure);
    let done = steps::beside_loss(tenure, async {
        raw_sql(steps::BEGIN_POSTGRES).execute(&mut connection).await?;
        raw_sql(AssertSqlSafe(fence.bounds())).execute(&mut connection).await?;
        let [name, holder] = fence.parameters();
        let verify = sqlx::query(AssertSqlSafe(fence.verify())).bind(name).bind(holder);
        verify.fetch_optional(&mut connection).await?.ok_or(NotDone::Lost)?;
        Ok(work(&mut connection).await?)
    });
    let committed = match done.await {
        Ok(()) => {
            let commit = async { raw_sql("COMMIT").execute(&mut connection).await.map(drop) };
            steps::commit(tenure, commit).await
        }
        Err(error) => Err(error),
    };
    if let Err(error) = committed {
        // Not `ROLLBACK`: a statement may still run, and nothing more is to be sent.
        drop(connection.close_hard().await);
        return Err(error);
    }
    Ok(connection)
}

/// Work: moves an amount between two accounts.
pub async fn transfer(connection: &mut PgConnection, from: &str, to: &str, amount: i64) -> Result<(), Error> {
    for (account, change) in [(from, -amount), (to, amount)] {
        let update = "UPDATE accounts SET balance = balance + $1 WHERE name = $2";
        let update = sqlx::query(update).bind(change).bind(account);
        if update.execute(&mut *connection).await?.rows_affected() != 1 {
            return Err(Error::RowNotFound);
        }
    }
    Ok(())
}
