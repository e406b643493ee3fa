//! Connections that end, hang or are ended.

use std::time::Duration;

use lease_core::store::{ClaimAnswer, Effect, LeaseRow, Observed, ReleaseAnswer, SlotEnd};
use lease_core::{ErrorKind, LeaseStore, Slot, Term};
use lease_testkit::{Direction, Proxy, Wire};
use test_servers::{Product, Server, Setup};

use crate::common::unique;
use crate::support::{
    LONG, SHORT, Sandbox, TTL, eventually, granted, holding, is_err, is_harmless, is_pending, name,
    new_claim, renews, take,
};

/// Ends every connection of this application on the server.
async fn kill(sandbox: &Sandbox, application: &str) {
    let sql = sandbox.sql().await;
    let of_it = format!("FROM pg_stat_activity WHERE application_name = '{application}'");
    let killed = sql.client.query(&format!("SELECT pg_terminate_backend(pid) {of_it}"), &[]).await.unwrap();
    assert!(!killed.is_empty());
    let gone = async || sql.client.query(&format!("SELECT 1 {of_it}"), &[]).await.unwrap().is_empty();
    eventually("the sessions are gone", gone).await;
}

#[tokio::test]
async fn renewals_after_the_idle_connections_were_killed_go_through() {
    let sandbox = Sandbox::new().await;
    let application = unique("killed");
    let url = format!("{}?application_name={application}", sandbox.url);
    let store = sandbox.options().open(&url).unwrap();
    let held = take(&store, "a").await;
    for _ in 0..3 {
        renews(&store, &held).await;
        store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap();
        kill(&sandbox, &application).await;
        assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
        renews(&store, &held).await;
        store.verify(&held.name, &held.holder, LONG).await.unwrap();
    }
}

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

/// A proxy before the server that all tests share, and the URL that leads through it.
pub(crate) fn proxied(url: &str) -> (Proxy, String) {
    let config: tokio_postgres::Config = url.parse().unwrap();
    let host = match &config.get_hosts()[0] {
        tokio_postgres::config::Host::Tcp(host) => host.clone(),
        other @ tokio_postgres::config::Host::Unix(_) => {
            panic!("a test server is reached by TCP, not by {other:?}")
        }
    };
    let port = config.get_ports()[0];
    let proxy = Proxy::start((host.as_str(), port), Wire::Postgres).unwrap();
    let through = url.replace(&format!("{host}:{port}"), &proxy.addr().to_string());
    (proxy, format!("{through}?sslmode=disable"))
}

#[tokio::test]
async fn a_claim_whose_answer_never_came_is_not_sent_again_and_its_release_frees_it() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let store = sandbox.options().open(&url).unwrap();
    take(&store, &unique("warm")).await;
    let claim = new_claim(&unique("a"));
    proxy.cut_before(1, Direction::ToClient);
    let error = is_err(store.claim(&claim, LONG).await, ErrorKind::Unavailable);
    assert_eq!(error.effect(), Effect::Unknown);
    // The cut may have come before its commit.
    let left = store.inspect(&claim.name, LONG).await.unwrap().row;
    let is_its = |row: &LeaseRow| row.term == Term::FIRST && row.holder == claim.holder;
    assert!(left.as_ref().is_none_or(is_its), "{left:?}");
    store.release(&claim.name, &claim.holder, LONG).await.unwrap();
    granted(store.claim(&new_claim(claim.name.as_str()), LONG).await);
}

/// Sent again, they would deny what they have done.
#[tokio::test]
async fn a_clearing_and_a_late_end_whose_answer_never_came_are_not_sent_again() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let store = sandbox.options().open(&url).unwrap();
    let slot = Slot::from_millis(1).unwrap();
    let round = new_claim("a");
    store.claim_slot(&round, slot, LONG).await.unwrap();
    let seen = store.inspect(&round.name, LONG).await.unwrap().row.unwrap().observed();
    // So that both lanes have a connection.
    renews(&store, &round).await;
    let seen = Observed {
        expires_at: store.inspect(&round.name, LONG).await.unwrap().row.unwrap().expires_at,
        ..seen
    };
    proxy.cut_before(1, Direction::ToClient);
    let error = is_err(store.clear(&round.name, &seen, LONG).await, ErrorKind::Unavailable);
    assert_eq!(error.effect(), Effect::Unknown);
    store.verify(&round.name, &round.holder, LONG).await.unwrap();
    let end = SlotEnd { name: round.name.clone(), holder: round.holder, slot, passed: None, lost: true };
    proxy.cut_before(1, Direction::ToClient);
    let error = is_err(store.finish_slot(&end, LONG).await, ErrorKind::Unavailable);
    assert_eq!(error.effect(), Effect::Unknown);
}

#[tokio::test]
async fn a_claim_whose_session_was_ended_midway_is_not_sent_again() {
    let sandbox = Sandbox::new().await;
    let (store, other) = (sandbox.store(), sandbox.sql().await);
    let insert = "INSERT INTO leases (name, holder, term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms) \
                  VALUES ('a', '00000000000000000000000000000000', 41, 1, 2, 3, 4)";
    other.run(&sandbox.text(&format!("BEGIN; {insert}"))).await;
    let claim = new_claim("a");
    let mut waiting = Box::pin(store.claim(&claim, LONG));
    assert!(is_pending(&mut waiting));
    let end = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'",
        sandbox.table
    );
    // Not in the other's transaction, which would see the sessions of its first look.
    let watch = sandbox.sql().await;
    let ended = async || !watch.client.query(&end, &[]).await.unwrap().is_empty();
    eventually("the claim waits, and its session is ended", ended).await;
    let error = is_err(waiting.await, ErrorKind::Unavailable);
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(error.to_string().contains("57P01"), "{error}");
}

#[tokio::test]
async fn what_can_be_repeated_is_sent_again_when_its_answer_never_came() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let store = sandbox.options().open(&url).unwrap();
    let held = take(&store, &unique("a")).await;
    renews(&store, &held).await;
    proxy.cut_before(1, Direction::ToClient);
    renews(&store, &held).await;
    store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap();
    proxy.cut_before(1, Direction::ToClient);
    assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
    store.verify(&held.name, &held.holder, LONG).await.unwrap();
    proxy.cut_before(1, Direction::ToClient);
    store.verify(&held.name, &held.holder, LONG).await.unwrap();
    proxy.cut_before(1, Direction::ToClient);
    let released = store.release(&held.name, &held.holder, LONG).await.unwrap();
    assert_eq!(released, ReleaseAnswer::Released);
}

#[tokio::test]
async fn a_statement_that_gets_no_answer_is_given_up_and_its_connection_not_used_again() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let store = sandbox.options().open(&url).unwrap();
    let held = take(&store, "a").await;
    renews(&store, &held).await;
    proxy.hold(Direction::ToClient);
    is_err(store.renew(&held.name, &held.holder, TTL, SHORT).await, ErrorKind::Timeout);
    // Nor is another that lay idle, so a claim is not even sent.
    is_harmless(store.claim(&new_claim("b"), SHORT).await, ErrorKind::Unavailable);
    // A new one cannot be had either.
    let error = store.inspect(&held.name, SHORT).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error:?}");
    let before = proxy.connections();
    proxy.release(Direction::ToClient);
    renews(&store, &held).await;
    assert!(proxy.connections() > before);
    // What was on its way arrives, or not, in no other statement's answer.
    let row = store.inspect(&held.name, LONG).await.unwrap().row.unwrap();
    assert_eq!((row.holder, row.term), (held.holder, Term::FIRST));
}

/// As when a firewall has forgotten them all: no end of a connection is ever told.
#[tokio::test]
async fn after_a_connection_that_hung_the_idle_ones_of_no_lane_are_used() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let store = sandbox.options().open(&url).unwrap();
    let (one, two) = (take(&store, "one").await, take(&store, "two").await);
    let other = sandbox.sql().await;
    other.run(&sandbox.text("BEGIN; SELECT FROM leases WHERE name = 'one' FOR UPDATE")).await;
    let mut waiting = Box::pin(store.renew(&one.name, &one.holder, TTL, LONG));
    assert!(is_pending(&mut waiting));
    eventually("the first renewal has a connection", async || proxy.open() == 2).await;
    renews(&store, &two).await;
    other.run("COMMIT").await;
    waiting.await.unwrap();
    assert_eq!(proxy.open(), 3);
    store.renew_many(&[holding(&two)], TTL, LONG).await.unwrap();
    proxy.hold(Direction::ToClient);
    is_err(store.renew(&two.name, &two.holder, TTL, SHORT).await, ErrorKind::Timeout);
    proxy.release(Direction::ToClient);
    let before = proxy.connections();
    renews(&store, &two).await;
    assert_eq!(proxy.connections(), before + 1);
    store.renew_many(&[holding(&two)], TTL, LONG).await.unwrap();
    store.inspect(&two.name, LONG).await.unwrap();
    assert_eq!(proxy.connections(), before + 3);
    eventually("the old ones are closed", async || proxy.open() == 3).await;
}

#[tokio::test]
async fn a_server_that_is_away_costs_a_claim_no_doubt() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let store = sandbox.options().open(&url).unwrap();
    proxy.refuse();
    is_harmless(store.claim(&new_claim("a"), SHORT).await, ErrorKind::Unavailable);
    let claim = new_claim("a");
    let mut claiming = Box::pin(store.claim(&claim, LONG));
    assert!(is_pending(&mut claiming));
    proxy.accept();
    granted(claiming.await);
}

#[tokio::test]
async fn a_dropped_statement_leaves_its_connection_usable_and_nothing_half_done() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let held = take(&store, "held").await;
    for n in 0..50 {
        let dropped = new_claim(&format!("n{n}"));
        assert!(is_pending(&mut Box::pin(store.claim(&dropped, LONG))));
        assert!(is_pending(&mut Box::pin(store.renew(&held.name, &held.holder, TTL, LONG))));
        renews(&store, &held).await;
    }
    // Each claim was sent, and runs on.
    for n in 0..50 {
        let name = name(&format!("n{n}"));
        let is_there = async || store.inspect(&name, LONG).await.unwrap().row.is_some();
        eventually("the dropped claim lands", is_there).await;
    }
}

/// Work that blocks the program's runtime, and even its end, leaves the store's connections alone.
#[test]
fn a_store_outlives_the_runtime_it_was_first_used_on() {
    let run = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (run(), run());
    let (store, held) = first.block_on(async {
        let sandbox = Sandbox::new().await;
        let store = sandbox.store();
        let held = take(&store, "a").await;
        renews(&store, &held).await;
        (store, held)
    });
    drop(first);
    second.block_on(renews(&store, &held));
}
