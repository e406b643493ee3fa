//! A server that is away, or takes no writes, for a while.

use std::time::Duration;

use lease_core::store::RenewAnswer;
use lease_core::{ErrorKind, LeaseStore};
use lease_mysql::MysqlStore;
use test_servers::{Product, Setup};

use crate::support::{
    LONG, SHORT, Sandbox, TTL, fails, granted, holding, is_err, new_claim, on_both, private, take,
};

on_both! {
    a_restart_of_three_seconds_costs_no_renewal
    three_seconds_of_read_only_cost_no_renewal
}

async fn a_restart_of_three_seconds_costs_no_renewal(product: Product) {
    let mut server = private(product, Setup::default()).await;
    let sandbox = Sandbox::empty(&server.url()).await;
    let store = sandbox.store();
    store.migrate().await.unwrap();
    // Two, for a batch passes over a row that is just being renewed.
    let (held, also) = (take(&store, "a").await, take(&store, "in a batch").await);
    let server = tokio::task::spawn_blocking(move || {
        server.stop();
        server
    });
    let mut server = server.await.unwrap();
    let single = {
        let (store, held) = (store.clone(), held.clone());
        tokio::spawn(async move { store.renew(&held.name, &held.holder, TTL, LONG).await })
    };
    let batch = {
        let store = store.clone();
        tokio::spawn(async move { store.renew_many(&[holding(&also)], TTL, LONG).await })
    };
    // On a connection that was idle nobody can know; on a new one, that nothing was sent.
    let _ = store.claim(&new_claim("b"), SHORT).await.unwrap_err();
    let claim = new_claim("b");
    fails(ErrorKind::Unavailable, |within| store.claim(&claim, within)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let server = tokio::task::spawn_blocking(move || {
        server.start_again();
        server
    });
    let _server = server.await.unwrap();
    assert!(matches!(single.await.unwrap(), Ok(RenewAnswer::Renewed(_))));
    assert!(batch.await.unwrap().unwrap()[0].is_some());
    granted(store.claim(&new_claim("b"), LONG).await);
}

async fn three_seconds_of_read_only_cost_no_renewal(product: Product) {
    let server = private(product, Setup::default()).await;
    let sandbox = Sandbox::empty(&server.url()).await;
    sandbox.store().migrate().await.unwrap();
    // Root writes all the same on MariaDB.
    sandbox.run("CREATE USER app IDENTIFIED BY 'x'").await;
    sandbox.run(format!("GRANT SELECT, INSERT, UPDATE ON {}.leases TO app", sandbox.database)).await;
    let store = MysqlStore::open(&sandbox.url_of("app:x", None)).unwrap();
    let (held, also) = (take(&store, "a").await, take(&store, "in a batch").await);
    let variable = if product == Product::MySql { "super_read_only" } else { "read_only" };
    server.ask(&format!("SET GLOBAL {variable} = 1"));
    let single = {
        let (store, held) = (store.clone(), held.clone());
        tokio::spawn(async move { store.renew(&held.name, &held.holder, TTL, LONG).await })
    };
    let batch = {
        let store = store.clone();
        tokio::spawn(async move { store.renew_many(&[holding(&also)], TTL, LONG).await })
    };
    let claim = new_claim("b");
    fails(ErrorKind::ReadOnly, |within| store.claim(&claim, within)).await;
    // Nor does anybody write, or believe what a replica says, who could write all the same; and a check says what is wrong.
    let root = sandbox.store();
    fails(ErrorKind::ReadOnly, |within| root.claim(&claim, within)).await;
    fails(ErrorKind::ReadOnly, |within| root.inspect(&held.name, within)).await;
    for store in [&store, &sandbox.store()] {
        let checked = tokio::time::timeout(LONG, store.check()).await.unwrap();
        let error = is_err(checked, ErrorKind::ReadOnly);
        assert!(error.to_string().contains("primary"), "{error}");
    }
    assert!(!single.is_finished() && !batch.is_finished());
    server.ask("SET GLOBAL read_only = 0");
    assert!(matches!(single.await.unwrap(), Ok(RenewAnswer::Renewed(_))));
    assert!(batch.await.unwrap().unwrap()[0].is_some());
    granted(store.claim(&new_claim("b"), LONG).await);
    store.check().await.unwrap();
}
