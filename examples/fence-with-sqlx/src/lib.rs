#![doc = include_str!("../README.md")]

use std::io;

use lease_core::{LossReason, Tenure};
use lease_postgres::PostgresStore;
use sqlx::postgres::{PgConnection, PgDatabaseError, PgSeverity};
use sqlx::{AssertSqlSafe, Connection, raw_sql};

/// Why a transfer did not take place.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The lease is not held: somebody else may be at work. Nothing was moved.
    #[error("the lease was lost, nothing was moved: {0}")]
    Lost(LossReason),
    /// There is no such account. Nothing was moved.
    #[error("nothing was moved: there is no account {0:?}")]
    NoAccount(String),
    /// The database's word before the commit, or its refusal of that. Nothing was moved.
    #[error("nothing was moved: {0}")]
    Failed(#[from] sqlx::Error),
    /// The answer to the commit never came, or says nothing: look at the accounts.
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
        // Nor does the fence wait longer than this for somebody who keeps the row or the table locked.
        raw_sql("SET LOCAL lock_timeout = '2s'").execute(&mut connection).await?;
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
            return Err(TransferError::Lost(LossReason::Refused));
        }
        for (account, change) in [(from, -amount), (to, amount)] {
            let changed = sqlx::query("UPDATE accounts SET balance = balance + $2 WHERE name = $1")
                .bind(account)
                .bind(change)
                .execute(&mut connection)
                .await?;
            if changed.rows_affected() != 1 {
                return Err(TransferError::NoAccount(account.to_owned()));
            }
        }
        Ok(())
    };
    // Beside the loss, which drops the work in the middle of a statement that takes its time.
    let outcome = tokio::select! {
        biased;
        reason = tenure.lost() => Err(TransferError::Lost(reason)),
        outcome = work => outcome,
    };
    if let Err(error) = outcome {
        // Not `ROLLBACK`: a statement may still run, and nothing more is to be sent.
        drop(connection.close_hard().await);
        return Err(error);
    }
    // Nor is the answer awaited for longer than the lease gives after a loss.
    let too_late = async {
        tenure.lost().await;
        tokio::time::sleep(tenure.timings().grace() / 2).await;
    };
    let committed = tokio::select! {
        committed = raw_sql("COMMIT").execute(&mut connection) => committed,
        () = too_late => Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into())),
    };
    match committed {
        Ok(_) => Ok(connection),
        Err(error) => {
            drop(connection.close_hard().await);
            Err(if is_refusal(&error) { TransferError::Failed(error) } else { TransferError::Unknown(error) })
        }
    }
}

/// Whether the server has refused the commit, such as for a constraint that is checked there. What is `FATAL` may have come
/// behind it, when the server was stopped or a pooler lost it; and some codes say that nobody knows.
fn is_refusal(error: &sqlx::Error) -> bool {
    let Some(said) = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>())
    else {
        return false;
    };
    let is_of_the_connection = said.code().starts_with("08") || said.code() == "40003";
    said.severity() == PgSeverity::Error && !is_of_the_connection
}
