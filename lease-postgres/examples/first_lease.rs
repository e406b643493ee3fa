//! Connect, migrate, first lease: `cargo run -p lease-postgres --example first_lease -- postgres://me@localhost/db`

use lease_core::{LeaseStore, Leases, Ran};
use lease_postgres::PostgresStore;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "postgres://postgres@localhost/postgres".to_owned());
    let store = PostgresStore::open(&url)?;
    store.migrate().await?;
    store.check().await?;
    let leases = Leases::new(store)?;
    let ran = leases.try_run("first", |tenure| async move { Ok::<_, std::io::Error>(tenure.term()) });
    match ran.await? {
        Ran::Done(term) => println!("ran under term {term}"),
        Ran::Held(refusal) => println!("{}", refusal.holder().await?),
    }
    leases.close().await;
    Ok(())
}
