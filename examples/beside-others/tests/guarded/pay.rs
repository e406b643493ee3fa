//! Thirty from ann to somebody, through each of the libraries.

use beside_others::{NotDone, with_diesel, with_sea_orm, with_sqlx};
use diesel::Connection as _;
use diesel_async::AsyncConnection;
use lease_core::Tenure;
use sea_orm::Database;
use sqlx::Connection;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::bank::{Bank, Store};

#[derive(Clone, Copy)]
pub enum Library {
    Sqlx,
    Diesel,
    SeaOrm,
}

/// The transfer; `meanwhile` is between the verified begin and it.
pub async fn pay(
    library: Library,
    bank: &Bank,
    tenure: &Tenure,
    to: &str,
    meanwhile: impl AsyncFnOnce(),
) -> Result<(), NotDone> {
    match library {
        Library::Sqlx => pay_with_sqlx(bank, tenure, to, meanwhile).await,
        Library::Diesel => pay_with_diesel(bank, tenure, to, meanwhile).await,
        Library::SeaOrm => pay_with_sea_orm(bank, tenure, to, meanwhile).await,
    }
}

async fn pay_with_sqlx(
    bank: &Bank,
    tenure: &Tenure,
    to: &str,
    meanwhile: impl AsyncFnOnce(),
) -> Result<(), NotDone> {
    match &bank.store {
        Store::Postgres(store) => {
            let connection = sqlx::PgConnection::connect(&bank.url).await.unwrap();
            let work = async |connection: &mut sqlx::PgConnection| {
                meanwhile().await;
                with_sqlx::postgres::transfer(connection, "ann", to, 30).await
            };
            with_sqlx::postgres::guarded(store, tenure, connection, work).await.map(drop)
        }
        Store::Mysql(store) => {
            let connection = sqlx::MySqlConnection::connect(&bank.url).await.unwrap();
            let work = async |connection: &mut sqlx::MySqlConnection| {
                meanwhile().await;
                with_sqlx::mysql::transfer(connection, "ann", to, 30).await
            };
            with_sqlx::mysql::guarded(store, tenure, connection, work).await.map(drop)
        }
        Store::Sqlite(store) => {
            let connection = sqlx::SqliteConnection::connect(&bank.url).await.unwrap();
            let work = async |connection: &mut sqlx::SqliteConnection| {
                meanwhile().await;
                with_sqlx::sqlite::transfer(connection, "ann", to, 30).await
            };
            with_sqlx::sqlite::guarded(store, tenure, connection, work).await.map(drop)
        }
    }
}

async fn pay_with_diesel(
    bank: &Bank,
    tenure: &Tenure,
    to: &str,
    meanwhile: impl AsyncFnOnce(),
) -> Result<(), NotDone> {
    match &bank.store {
        Store::Postgres(store) => {
            let connection = diesel_async::AsyncPgConnection::establish(&bank.url).await.unwrap();
            let work = async |connection: &mut diesel_async::AsyncPgConnection| {
                meanwhile().await;
                with_diesel::postgres::transfer(connection, "ann", to, 30).await
            };
            with_diesel::postgres::guarded(store, tenure, connection, work).await.map(drop)
        }
        Store::Mysql(store) => {
            let connection = diesel_async::AsyncMysqlConnection::establish(&bank.url).await.unwrap();
            let work = async |connection: &mut diesel_async::AsyncMysqlConnection| {
                meanwhile().await;
                with_diesel::mysql::transfer(connection, "ann", to, 30).await
            };
            with_diesel::mysql::guarded(store, tenure, connection, work).await.map(drop)
        }
        Store::Sqlite(store) => {
            let connection = diesel::SqliteConnection::establish(&bank.url).unwrap();
            let work = |connection: &mut diesel::SqliteConnection| {
                Handle::current().block_on(meanwhile());
                with_diesel::sqlite::transfer(connection, "ann", to, 30)
            };
            block_in_place(|| with_diesel::sqlite::guarded(store, tenure, connection, work)).map(drop)
        }
    }
}

async fn pay_with_sea_orm(
    bank: &Bank,
    tenure: &Tenure,
    to: &str,
    meanwhile: impl AsyncFnOnce(),
) -> Result<(), NotDone> {
    let work = async |transaction: &sea_orm::DatabaseTransaction| {
        meanwhile().await;
        with_sea_orm::transfer(transaction, "ann", to, 30).await
    };
    match &bank.store {
        Store::Postgres(store) => {
            let database = Database::connect(&bank.url).await.unwrap();
            with_sea_orm::postgres::guarded(store, tenure, &database, work).await
        }
        Store::Mysql(store) => {
            let database = with_sea_orm::mysql::connect(&bank.url, tenure.timings().ttl()).await.unwrap();
            with_sea_orm::mysql::guarded(store, tenure, &database, work).await
        }
        Store::Sqlite(store) => {
            let database = with_sea_orm::sqlite::connect(&bank.url, tenure.timings()).await.unwrap();
            with_sea_orm::sqlite::guarded(store, tenure, &database, work).await
        }
    }
}
