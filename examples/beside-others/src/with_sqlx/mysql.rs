//! On MySQL and MariaDB: the lease's row is locked right before the commit, in the same text as that.

use lease_core::Tenure;
use lease_mysql::{Fence, MysqlStore};
use sqlx::mysql::{MySqlConnection, MySqlDatabaseError};
use sqlx::{AssertSqlSafe, Connection, Error, raw_sql};

use crate::{NotDone, steps};

/// Does the work in a transaction that cannot commit after a successor's claim. The connection comes back with the commit, set for
/// guarded transactions, and is closed in every other case.
pub async fn guarded(
    store: &MysqlStore,
    tenure: &Tenure,
    mut connection: MySqlConnection,
    work: impl AsyncFnOnce(&mut MySqlConnection) -> Result<(), Error>,
) -> Result<MySqlConnection, NotDone> {
    let fence = store.fence(tenure);
    let done = steps::beside_loss(tenure, async {
        for set in steps::mysql_session(tenure.timings().ttl()) {
            raw_sql(AssertSqlSafe(set)).execute(&mut connection).await?;
        }
        // Before the transaction, in which it would keep changes of the lease table waiting.
        let [name, holder] = fence.parameters();
        let verify = sqlx::query(AssertSqlSafe(fence.verify())).bind(name).bind(holder);
        verify.fetch_optional(&mut connection).await?.ok_or(NotDone::Lost)?;
        raw_sql("COMMIT; START TRANSACTION READ WRITE").execute(&mut connection).await?;
        Ok(work(&mut connection).await?)
    });
    let committed = match done.await {
        Ok(()) => {
            let commit = async { raw_sql(AssertSqlSafe(fence.commit())).execute(&mut connection).await };
            steps::commit(tenure, async { commit.await.map(drop) }).await.map_err(lost_or_unknown)
        }
        Err(error) => Err(error),
    };
    if let Err(error) = committed {
        drop(connection.close_hard().await);
        return Err(error);
    }
    Ok(connection)
}

/// The fence has a number by which it says that the lease is lost; the commit behind it was not run then.
fn lost_or_unknown(error: NotDone) -> NotDone {
    let NotDone::Unknown(cause) = &error else { return error };
    match cause.downcast_ref::<Error>() {
        Some(cause) if is_lost(cause) => NotDone::Lost,
        _ => error,
    }
}

pub(crate) fn is_lost(error: &Error) -> bool {
    let said = error.as_database_error().and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    said.is_some_and(|said| said.number() == Fence::LOST)
}

/// Work: moves an amount between two accounts.
pub async fn transfer(
    connection: &mut MySqlConnection,
    from: &str,
    to: &str,
    amount: i64,
) -> Result<(), Error> {
    for (account, change) in [(from, -amount), (to, amount)] {
        let update = "UPDATE accounts SET balance = balance + ? WHERE name = ?";
        let update = sqlx::query(update).bind(change).bind(account);
        if update.execute(&mut *connection).await?.rows_affected() != 1 {
            return Err(Error::RowNotFound);
        }
    }
    Ok(())
}
