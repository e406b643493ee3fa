//! On PostgreSQL: the lease's row is locked from the first statement to the end.

use lease_core::Tenure;
use lease_postgres::PostgresStore;
use sqlx::postgres::{PgConnection, PgDatabaseError, PgSeverity};
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
            steps::commit(tenure, commit).await.map_err(refused_or_unknown)
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

/// What the server has refused, for a constraint that is checked at the commit say, is rolled back.
fn refused_or_unknown(error: NotDone) -> NotDone {
    match error {
        NotDone::Unknown(cause) if cause.downcast_ref().is_some_and(is_refusal) => NotDone::Failed(cause),
        error => error,
    }
}

/// What is `FATAL` may have come behind the commit, when the server was stopped or a pooler lost it; and some codes say that nobody
/// knows.
fn is_refusal(error: &Error) -> bool {
    let said = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    said.is_some_and(|said| {
        let is_of_the_connection = said.code().starts_with("08") || said.code() == "40003";
        said.severity() == PgSeverity::Error && !is_of_the_connection
    })
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
