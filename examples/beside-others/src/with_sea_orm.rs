//! Guarded transactions through sea-orm.
//!
//! It hands out no connection that one could close. A transaction that is dropped is rolled back, by sqlx below, before
//! its connection is used again.

pub mod mysql;
pub mod postgres;
pub mod sqlite;

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr, Statement, Value};

/// Work, on each of the databases: moves an amount between two accounts.
pub async fn transfer(
    transaction: &DatabaseTransaction,
    from: &str,
    to: &str,
    amount: i64,
) -> Result<(), DbErr> {
    for (account, change) in [(from, -amount), (to, amount)] {
        let mut update = Query::update();
        update
            .table("accounts")
            .value("balance", Expr::col("balance").add(change))
            .and_where(Expr::col("name").eq(account));
        if transaction.execute(&update).await?.rows_affected() != 1 {
            return Err(DbErr::RecordNotUpdated);
        }
    }
    Ok(())
}

/// A statement of the fence's with its parameters.
fn statement(on: &impl ConnectionTrait, sql: &str, parameters: impl IntoIterator<Item = Value>) -> Statement {
    Statement::from_sql_and_values(on.get_database_backend(), sql, parameters)
}
