//! Connect, migrate, first lease: `cargo run -p lease-sqlite --example first_lease -- leases.db`

use lease_core::{LeaseStore, Leases, Ran};
use lease_sqlite::SqliteStore;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "leases.db".to_owned());
    let store = SqliteStore::open(path).await?;
    store.migrate().await?;
    let leases = Leases::new(store)?;
    let ran = leases.try_run("first", |tenure| async move { Ok::<_, std::io::Error>(tenure.term()) });
    match ran.await? {
        Ran::Done(term) => println!("ran under term {term}"),
        Ran::Held(refusal) => println!("{}", refusal.holder().await?),
    }
    leases.close().await;
    Ok(())
}
