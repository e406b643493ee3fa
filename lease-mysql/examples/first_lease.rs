//! Connect, migrate, first lease:
//! `cargo run -p lease-mysql --example first_lease -- mysql://app@127.0.0.1/app`

use lease_core::{LeaseStore, Leases, Ran};
use lease_mysql::MysqlStore;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "mysql://root@127.0.0.1/test".to_owned());
    let store = MysqlStore::open(&url)?;
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
