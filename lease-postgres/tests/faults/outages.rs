//! Servers that restart, stop taking writes, are replaced or crash.

use std::time::Duration;

use lease_core::store::{ClaimAnswer, Effect, StoreError};
use lease_core::{ErrorKind, LeaseStore, Term};
use lease_postgres::deadpool_postgres::{Manager, Pool};
use test_servers::{Product, Server, Setup, Standby};
use tokio_postgres::NoTls;

use crate::common::unique;
use crate::support::{
    LONG, SHORT, Sandbox, TTL, eventually, holding, is_err, is_harmless, new_claim, renews, take,
};

#[tokio::test]
async fn renewals_go_through_a_restart_of_three_seconds_be_it_an_operators_or_after_a_crash() {
    let mut server = Server::start(Product::Postgres, Setup::default());
    let sandbox = Sandbox::on(&server.url()).await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    for crash in [false, true] {
        renews(&store, &held).await;
        if crash {
            server.kill();
        } else {
            server.stop();
        }
        is_err(store.claim(&new_claim("b"), SHORT).await, ErrorKind::Unavailable);
        let starting = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(3));
            server.start_again();
            server
        });
        renews(&store, &held).await;
        server = starting.join().unwrap();
    }
    assert_eq!(store.inspect(&held.name, LONG).await.unwrap().row.unwrap().term, Term::FIRST);
}

#[tokio::test]
async fn renewals_and_claims_go_on_while_the_database_is_set_to_read_only() {
    let url = crate::support::database(&crate::common::shared(), "").await;
    let sandbox = Sandbox::on(&url).await;
    let (_, database) = url.rsplit_once('/').unwrap();
    let set = |to| format!("ALTER DATABASE {database} SET default_transaction_read_only = {to}");
    let before = sandbox.store();
    let held = take(&before, "a").await;
    sandbox.run(&set("on")).await;
    for store in [&before, &sandbox.store()] {
        renews(store, &held).await;
        assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
        assert_eq!(store.claim(&new_claim("a"), LONG).await.unwrap(), ClaimAnswer::Held);
        take(store, &unique("new")).await;
    }
}

/// Time to connect at least once, on a busy machine too: a standby is refused until it is over, for it may become the primary.
const A_WHILE: Duration = Duration::from_secs(3);

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
        is_refused(store.claim(&new_claim("b"), A_WHILE).await);
        is_refused(store.inspect(&held.name, A_WHILE).await);
        is_refused(store.renew(&held.name, &held.holder, TTL, A_WHILE).await);
    }
    is_refused(sandbox.options().open(&url).unwrap().migrate().await);

    primary.stop();
    let promoting = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(3));
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

/// Without effect; the last of the tries may have had too little time to connect, which with a pool of the program's is a time-out.
#[track_caller]
fn is_refused<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.expect_err("a standby was used");
    let is_last = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout);
    assert!(error.kind() == ErrorKind::ReadOnly || is_last, "{error:?}");
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
