//! Connections that die, and answers that never come.

use std::time::Duration;

use lease_core::store::{Effect, ReleaseAnswer, RenewAnswer, VerifyAnswer};
use lease_core::{ErrorKind, LeaseStore, Term};
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};
use lease_testkit::{Direction, Proxy, Wire};
use test_servers::Product;

use crate::support::{
    LONG, SHORT, Sandbox, TTL, fails, granted, holding, is_err, is_harmless, new_claim, on_both, take,
};

on_both! {
    a_killed_idle_connection_costs_no_renewal
    a_claim_after_a_pause_finds_a_killed_connection_out_beforehand
    of_many_killed_connections_at_most_one_costs_a_claim
    a_claim_whose_answer_is_lost_is_not_sent_again
    a_renewal_whose_answer_is_lost_is_sent_again
    a_server_that_does_not_answer_is_given_up_in_time
    a_server_that_is_not_there_is_unavailable
    a_callers_connection_goes_back_as_it_was
}

/// Ends every session in the database but the one that asks.
async fn kill_all(sandbox: &Sandbox) {
    let mut root = sandbox.other().await;
    let sql = format!(
        "SELECT id FROM information_schema.processlist WHERE db = '{}' AND id <> CONNECTION_ID()",
        sandbox.database
    );
    let ids: Vec<u64> = root.query(sql).await.unwrap();
    assert!(!ids.is_empty(), "nobody is connected");
    for id in ids {
        root.query_drop(format!("KILL {id}")).await.unwrap();
    }
}

/// By way of a proxy, which sees nothing through TLS.
fn through(sandbox: &Sandbox) -> (Proxy, MysqlStore) {
    let opts = Opts::from_url(&sandbox.url).unwrap();
    let proxy = Proxy::start((opts.ip_or_hostname(), opts.tcp_port()), Wire::MySql).unwrap();
    let url = sandbox.url_of("root", Some(proxy.port()));
    let store = MysqlStore::open(&format!("{url}?ssl-mode=DISABLED")).unwrap();
    (proxy, store)
}

async fn a_killed_idle_connection_costs_no_renewal(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    let leases = [holding(&held)];
    for _ in 0..3 {
        assert!(matches!(
            store.renew(&held.name, &held.holder, TTL, LONG).await,
            Ok(RenewAnswer::Renewed(_))
        ));
        assert!(store.renew_many(&leases, TTL, LONG).await.unwrap()[0].is_some());
        kill_all(&sandbox).await;
    }
    let verified = store.verify(&held.name, &held.holder, LONG).await.unwrap();
    assert_eq!(verified, VerifyAnswer::Held(Term::FIRST));
    kill_all(&sandbox).await;
    assert_eq!(store.release(&held.name, &held.holder, LONG).await.unwrap(), ReleaseAnswer::Released);
}

async fn a_claim_after_a_pause_finds_a_killed_connection_out_beforehand(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    take(&store, "a").await;
    kill_all(&sandbox).await;
    tokio::time::sleep(Duration::from_millis(5_500)).await;
    granted(store.claim(&new_claim("b"), LONG).await);
}

async fn of_many_killed_connections_at_most_one_costs_a_claim(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let tasks: Vec<_> = (0..16)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { granted(store.claim(&new_claim(&n.to_string()), LONG).await) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    kill_all(&sandbox).await;
    let _ = store.claim(&new_claim("a"), LONG).await;
    granted(store.claim(&new_claim("b"), LONG).await);
}

async fn a_claim_whose_answer_is_lost_is_not_sent_again(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let (proxy, store) = through(&sandbox);
    let first = take(&store, "a").await;
    store.release(&first.name, &first.holder, LONG).await.unwrap();
    // The server has it, and we never hear.
    proxy.cut_before(1, Direction::ToClient);
    let claim = new_claim("a");
    let error = is_err(store.claim(&claim, LONG).await, ErrorKind::Unavailable);
    assert_eq!(error.effect(), Effect::Unknown);
    // Committed once or not yet, and never twice; in any case the token gives it back.
    let released = store.release(&claim.name, &claim.holder, LONG).await.unwrap();
    let term = store.inspect(&claim.name, LONG).await.unwrap().row.unwrap().term.get();
    assert_eq!((released, term), (ReleaseAnswer::Released, 2));
}

async fn a_renewal_whose_answer_is_lost_is_sent_again(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let (proxy, store) = through(&sandbox);
    let held = take(&store, "a").await;
    for _ in 0..2 {
        proxy.cut_before(1, Direction::ToClient);
        assert!(matches!(
            store.renew(&held.name, &held.holder, TTL, LONG).await,
            Ok(RenewAnswer::Renewed(_))
        ));
        proxy.cut_before(1, Direction::ToServer);
        assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
    }
    proxy.cut_before(1, Direction::ToClient);
    assert_eq!(store.release(&held.name, &held.holder, LONG).await.unwrap(), ReleaseAnswer::Released);
}

async fn a_server_that_does_not_answer_is_given_up_in_time(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let (proxy, store) = through(&sandbox);
    let held = take(&store, "a").await;
    store.renew(&held.name, &held.holder, TTL, LONG).await.unwrap();
    proxy.hold(Direction::ToClient);
    let claim = new_claim("b");
    let (renewed, claimed) =
        tokio::join!(store.renew(&held.name, &held.holder, TTL, SHORT), store.claim(&claim, SHORT),);
    assert_eq!(is_err(renewed, ErrorKind::Timeout).effect(), Effect::Unknown);
    assert_eq!(is_err(claimed, ErrorKind::Timeout).effect(), Effect::Unknown);
    // Nor does it take new ones.
    is_harmless(store.verify(&held.name, &held.holder, SHORT).await, ErrorKind::Unavailable);
    proxy.release(Direction::ToClient);
    assert!(matches!(store.renew(&held.name, &held.holder, TTL, LONG).await, Ok(RenewAnswer::Renewed(_))));
}

async fn a_server_that_is_not_there_is_unavailable(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let (proxy, store) = through(&sandbox);
    proxy.refuse();
    let claim = new_claim("a");
    fails(ErrorKind::Unavailable, |within| store.claim(&claim, within)).await;
    proxy.accept();
    granted(store.claim(&new_claim("a"), LONG).await);
}

async fn a_callers_connection_goes_back_as_it_was(product: Product) {
    let sandbox = Sandbox::new(product).await;
    // One connection, and the pool does not set it right itself.
    let opts = OptsBuilder::from_opts(Opts::from_url(&sandbox.url).unwrap()).prefer_socket(false);
    let one =
        PoolOpts::new().with_constraints(PoolConstraints::new(1, 1).unwrap()).with_reset_connection(false);
    let pool = Pool::new(opts.pool_opts(one));
    let settings =
        "SELECT CONCAT_WS(' ', CONNECTION_ID(), @@autocommit, @@sql_mode, @@innodb_lock_wait_timeout,
        @@lock_wait_timeout, @@time_zone, @@in_transaction)";
    let settings = match product {
        Product::MariaDb => settings.to_owned(),
        _ => settings.replace(", @@in_transaction", ""),
    };
    let mut conn = pool.get_conn().await.unwrap();
    let ours = "SET autocommit = 0, sql_mode = 'ANSI', innodb_lock_wait_timeout = 7, lock_wait_timeout = 8";
    conn.query_drop(ours).await.unwrap();
    let before: String = conn.query_first(&settings).await.unwrap().unwrap();
    drop(conn);
    let store = MysqlStore::options().open_pool(pool.clone()).unwrap();
    let held = take(&store, "a").await;
    store.claim(&new_claim("a"), LONG).await.unwrap();
    store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap();
    // What the server refuses, too.
    sandbox.run("UPDATE leases SET term = 9223372036854775807, expires_at_ms = 0").await;
    is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Damaged);
    let mut conn = pool.get_conn().await.unwrap();
    let after: String = conn.query_first(&settings).await.unwrap().unwrap();
    assert_eq!(after, before);
    let left: Option<String> =
        conn.query_first("SELECT CONCAT(@lease_now, @lease_sql_mode)").await.unwrap().unwrap();
    assert_eq!(left, None);
    // A transaction that somebody left open is neither used nor committed: the connection is given up.
    conn.query_drop("START TRANSACTION").await.unwrap();
    conn.query_drop("UPDATE leases SET address = 'theirs'").await.unwrap();
    drop(conn);
    let row = store.inspect(&held.name, LONG).await.unwrap().row.unwrap();
    assert_eq!(row.address, "");
}
