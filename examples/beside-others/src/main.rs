//! A service's own data through sqlx, diesel and sea-orm, its leases through `lease-sqlite`: one program, one SQLite.

use std::error::Error;

use diesel::dsl::sql;
use diesel::sql_types::Text;
use diesel::{Connection, RunQueryDsl, SqliteConnection};
use lease_core::{LeaseStore, Leases, Ran};
use lease_sqlite::SqliteStore;
use sea_orm::{ConnectionTrait, Database, DatabaseConnection, Statement};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let data = SqliteConnectOptions::new().filename("data.db").create_if_missing(true);
    let through_sqlx = SqlitePool::connect_with(data).await?;
    let through_sea_orm = Database::connect("sqlite:data.db").await?;
    let mut through_diesel = SqliteConnection::establish("data.db")?;
    // A file of their own: while a transaction of the others' writes, no lease in the same file is renewed.
    let store = SqliteStore::open("leases.db").await?;
    store.migrate().await?;
    let leases = Leases::new(store)?;
    let ran = leases
        .try_run("nightly", |tenure| async move {
            println!("sqlx:    SQLite {}", version_by_sqlx(&through_sqlx).await?);
            println!("diesel:  SQLite {}", version_by_diesel(&mut through_diesel)?);
            println!("sea-orm: SQLite {}", version_by_sea_orm(&through_sea_orm).await?);
            println!("lease:   term {}", tenure.term());
            Outcome::Ok(())
        })
        .await;
    leases.close().await;
    if let Ran::Held(refusal) = ran.map_err(|error| error.to_string())? {
        println!("{} runs elsewhere", refusal.name());
    }
    Ok(())
}

async fn version_by_sqlx(data: &SqlitePool) -> Outcome<String> {
    Ok(sqlx::query_scalar("SELECT sqlite_version()").fetch_one(data).await?)
}

fn version_by_diesel(data: &mut SqliteConnection) -> Outcome<String> {
    Ok(diesel::select(sql::<Text>("sqlite_version()")).get_result(data)?)
}

async fn version_by_sea_orm(data: &DatabaseConnection) -> Outcome<String> {
    let version = Statement::from_string(data.get_database_backend(), "SELECT sqlite_version()");
    let row = data.query_one_raw(version).await?.ok_or("no row")?;
    Ok(row.try_get_by_index(0)?)
}
