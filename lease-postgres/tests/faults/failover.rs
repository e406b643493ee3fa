//! Standbys, and several hosts.

use lease_core::store::{Effect, StoreError};
use lease_core::{ErrorKind, LeaseStore, Term};
use lease_postgres::deadpool_postgres::{Manager, Pool};
use test_servers::{Product, Server, Setup, Standby};
use tokio_postgres::NoTls;

use crate::support::{LONG, SHORT, Sandbox, TTL, eventually, holding, is_harmless, new_claim, renews, take};

#[tokio::test]
async fn only_a_primary_is_used_and_the_standby_once_it_has_become_one() {
    let mut primary = Server::start(Product::Postgres, Setup::default());
    let mut standby = Standby::of(&primary);
    let sandbox = Sandbox::on(&primary.url()).await;
    let both = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres",
        standby.server().port(),
        primary.port()
    );
    let store = sandbox.options().open(&both).unwrap();
    store.check().await.unwrap();
    let held = take(&store, "a").await;
    renews(&store, &held).await;
    let count = format!("SELECT count(*) FROM {}", sandbox.table);
    eventually("the standby has the table", async || {
        let found = standby.server().ask(&format!("SELECT to_regclass('{}') IS NOT NULL", sandbox.table));
        found.as_deref() == Some("t") && standby.server().ask(&count).as_deref() == Some("1")
    })
    .await;

    // Of the standby alone nothing is had, whichever way it is reached.
    let url = standby.server().url();
    let pool = Pool::builder(Manager::new(url.parse().unwrap(), NoTls)).max_size(2).build().unwrap();
    for store in [sandbox.options().open(&url).unwrap(), sandbox.options().open_pool(pool).unwrap()] {
        let error = is_harmless(store.check().await, ErrorKind::ReadOnly);
        assert!(error.to_string().contains("standby"), "{error}");
        is_refused(store.claim(&new_claim("b"), SHORT).await);
        is_refused(store.inspect(&held.name, SHORT).await);
        is_refused(store.renew(&held.name, &held.holder, TTL, SHORT).await);
    }
    is_refused(sandbox.options().open(&url).unwrap().migrate().await);

    primary.stop();
    let promoting = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(3));
        standby.promote();
        standby
    });
    // The attempt itself outlasts the change.
    renews(&store, &held).await;
    assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
    assert_eq!(store.inspect(&held.name, LONG).await.unwrap().row.unwrap().term, Term::FIRST);
    take(&store, "b").await;
    drop(promoting.join().unwrap());
}

/// Without effect; the last of the tries may have had too little time to connect.
#[track_caller]
fn is_refused<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.expect_err("a standby was used");
    assert!(matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Unavailable), "{error:?}");
    assert_eq!(error.effect(), Effect::None, "{error:?}");
}

#[tokio::test]
async fn of_hosts_that_are_no_primary_each_is_named_with_its_reason() {
    let sandbox = Sandbox::without_table("postgres://me:secret@127.0.0.1:1,127.0.0.1:2/db");
    let error = is_harmless(sandbox.store().check().await, ErrorKind::Unavailable);
    let text = error.to_string();
    assert!(text.contains("127.0.0.1:1: ") && text.contains("127.0.0.1:2: "), "{text}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}
