//! On SQLite: the file's one write lock is held from the begin to the end.

use lease_core::Tenure;
use lease_sqlite::SqliteStore;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection, Error, raw_sql};

use crate::{NotDone, steps};

/// Does the work in a transaction that cannot commit after a successor's claim, on a connection to the file of the leases. It comes
/// back with the commit and is closed in every other case.
pub async fn guarded(
    store: &SqliteStore,
    tenure: &Tenure,
    mut connection: SqliteConnection,
    work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<(), Error>,
) -> Result<SqliteConnection, NotDone> {
    let fence = store.fence(tenure);
    // No other renewal gets in: this transaction carries one, which counts when it is committed.
    let renewal = tenure.carry_renewal();
    let done = steps::beside_loss(tenure, async {
        raw_sql(AssertSqlSafe(steps::set_busy_timeout(tenure.timings()))).execute(&mut connection).await?;
        raw_sql(AssertSqlSafe(fence.begin())).execute(&mut connection).await?;
        let (name, holder, ttl) = fence.parameters();
        let verify = sqlx::query_as(AssertSqlSafe(fence.verify())).bind(name).bind(holder).bind(ttl);
        let (_term, step_down): (i64, i64) =
            verify.fetch_optional(&mut connection).await?.ok_or(NotDone::Lost)?;
        work(&mut connection).await?;
        if tenure.check() { Ok(step_down != 0) } else { Err(NotDone::Lost) }
    });
    let committed = match done.await {
        Ok(step_down) => {
            let commit = async { raw_sql(AssertSqlSafe(fence.commit())).execute(&mut connection).await };
            steps::commit(tenure, async { commit.await.map(|_| step_down) }).await
        }
        Err(error) => Err(error),
    };
    match committed {
        Ok(step_down) => renewal.committed(step_down),
        Err(error) => {
            // With it ends the transaction, and the lock is free.
            drop(connection.close().await);
            return Err(error);
        }
    }
    Ok(connection)
}

/// Work: moves an amount between two accounts.
pub async fn transfer(
    connection: &mut SqliteConnection,
    from: &str,
    to: &str,
    amount: i64,
) -> Result<(), Error> {
    for (account, change) in [(from, -amount), (to, amount)] {
        let update = "UPDATE accounts SET balance = balance + ?1 WHERE name = ?2";
        let update = sqlx::query(update).bind(change).bind(account);
        if update.execute(&mut *connection).await?.rows_affected() != 1 {
            return Err(Error::RowNotFound);
        }
    }
    Ok(())
}
