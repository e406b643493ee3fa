//! A service's own data through sqlx, its leases through `lease-sqlite`: one program, one SQLite.

use std::error::Error;

use lease_core::{LeaseStore, Leases, Ran};
use lease_sqlite::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let data =
        SqlitePool::connect_with(SqliteConnectOptions::new().filename("data.db").create_if_missing(true))
            .await?;
    // A file of their own: while a transaction of sqlx's writes, no lease in the same file is renewed.
    let store = SqliteStore::open("leases.db").await?;
    store.migrate().await?;
    let leases = Leases::new(store)?;
    let ran = leases
        .try_run("nightly", |tenure| async move {
            let (version,): (String,) = sqlx::query_as("SELECT sqlite_version()").fetch_one(&data).await?;
            println!("SQLite {version} serves both; term {}", tenure.term());
            Ok::<_, sqlx::Error>(())
        })
        .await?;
    if let Ran::Held(refusal) = ran {
        println!("{} runs elsewhere", refusal.name());
    }
    leases.close().await;
    Ok(())
}
