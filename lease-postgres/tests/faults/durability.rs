//! What is acknowledged outlives a crash of the server.

use lease_core::{ErrorKind, LeaseStore};
use lease_postgres::deadpool_postgres::{Manager, Pool};
use test_servers::{Product, Server, Setup};
use tokio_postgres::NoTls;

use crate::support::{LONG, Sandbox, eventually, is_harmless, take};

#[tokio::test]
async fn claims_on_a_server_that_commits_asynchronously_are_there_after_its_crash() {
    // Nothing else is written, and the writer in the background sleeps as long as it may.
    let arguments = ["synchronous_commit=off", "wal_writer_delay=10s", "autovacuum=off"];
    let arguments = arguments.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]).collect();
    let mut server = Server::start(Product::Postgres, Setup { arguments, ..Setup::default() });
    let sandbox = Sandbox::on(&server.url()).await;
    let manager = Manager::new(server.url().parse().unwrap(), NoTls);
    let pool = Pool::builder(manager).max_size(1).build().unwrap();
    for (n, store) in [sandbox.store(), sandbox.options().open_pool(pool).unwrap()].into_iter().enumerate() {
        let held = take(&store, &format!("n{n}")).await;
        server.kill();
        server.start_again();
        let verified = async || store.verify(&held.name, &held.holder, LONG).await.is_ok();
        eventually("the server answers", verified).await;
        let row = store.inspect(&held.name, LONG).await.unwrap().row.expect("the claim was acknowledged");
        assert_eq!(row.holder, held.holder);
    }
}

#[tokio::test]
async fn a_server_or_a_table_that_forgets_is_refused_by_check() {
    let arguments = vec!["-c".to_owned(), "fsync=off".to_owned()];
    let server = Server::start(Product::Postgres, Setup { arguments, ..Setup::default() });
    let sandbox = Sandbox::on(&server.url()).await;
    let error = is_harmless(sandbox.store().check().await, ErrorKind::NotDurable);
    assert!(error.to_string().contains("fsync"), "{error}");

    let sandbox = Sandbox::new().await;
    sandbox.run("ALTER TABLE leases SET UNLOGGED").await;
    let error = is_harmless(sandbox.store().check().await, ErrorKind::NotDurable);
    assert!(error.to_string().contains("unlogged"), "{error}");
}
