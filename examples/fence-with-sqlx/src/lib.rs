#![doc = include_str!("../README.md")]

use lease_core::{LossReason, Tenure};
use lease_postgres::PostgresStore;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, raw_sql};

/// Why a transfer did not take place.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The lease is not held: somebody else may be at work. Nothing was moved.
    #[error("the lease was lost, nothing was moved: {0}")]
    Lost(LossReason),
    /// The database's word before the commit. Nothing was moved.
    #[error("nothing was moved: {0}")]
    Failed(#[source] sqlx::Error),
    /// The answer to the commit never came: look at the accounts.
    #[error("nobody knows whether the amount was moved: {0}")]
    Unknown(#[source] sqlx::Error),
}

/// Moves an amount between two accounts, in a transaction that cannot commit after a successor's claim.
///
/// It takes the connection, since one with an open transaction must not go back to a pool: it comes back with the
/// commit, and is closed in every other case, which ends the transaction.
pub async fn transfer(
    store: &PostgresStore,
    tenure: &Tenure,
    mut connection: PgConnection,
    (from, to, amount): (&str, &str, i64),
) -> Result<PgConnection, TransferError> {
    let fence = store.fence(tenure);
    let work = async {
        // Read committed, whatever this role's default is: a snapshot of the whole transaction is not needed.
        raw_sql("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").execute(&mut connection).await?;
        // A process that is paused from here on keeps the accounts locked, and a successor out, no longer than this.
        raw_sql(AssertSqlSafe(fence.bounds())).execute(&mut connection).await?;
        // The fence. It is the first statement, and it locks; a plain SELECT would not.
        let [name, holder] = fence.parameters();
        let held = sqlx::query(AssertSqlSafe(fence.verify()))
            .bind(name)
            .bind(holder)
            .fetch_optional(&mut connection)
            .await?;
        if held.is_none() {
            return Ok(false);
        }
        for (account, change) in [(from, -amount), (to, amount)] {
            sqlx::query("UPDATE accounts SET balance = balance + $2 WHERE name = $1")
                .bind(account)
                .bind(change)
                .execute(&mut connection)
                .await?;
        }
        Ok(true)
    };
    // Beside the loss, which drops the work in the middle of a statement that takes its time.
    let outcome = tokio::select! {
        biased;
        reason = tenure.lost() => Err(TransferError::Lost(reason)),
        outcome = work => match outcome {
            Ok(true) => Ok(()),
            Ok(false) => Err(TransferError::Lost(LossReason::Refused)),
            Err(error) => Err(TransferError::Failed(error)),
        },
    };
    if let Err(error) = outcome {
        // Not `ROLLBACK`: a statement may still run, and nothing more is to be sent.
        drop(connection.close_hard().await);
        return Err(error);
    }
    match raw_sql("COMMIT").execute(&mut connection).await {
        Ok(_) => Ok(connection),
        // A refusal of the server, such as of a constraint that is checked at the commit.
        Err(error) if error.as_database_error().is_some() => Err(TransferError::Failed(error)),
        Err(error) => Err(TransferError::Unknown(error)),
    }
}
