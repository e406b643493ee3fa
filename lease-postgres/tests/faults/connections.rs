//! Connections that end, hang or are ended, and what is set in them.

use std::time::Duration;

use futures_util::FutureExt;
use lease_core::store::{
    ClearAnswer, DbTime, Effect, FinishAnswer, LeaseRow, Observed, ReleaseAnswer, SlotEnd,
};
use lease_core::{ErrorKind, LeaseStore, Slot, Term};
use lease_postgres::deadpool_postgres::{Manager, Pool};
use lease_testkit::{Direction, Proxy, Wire};
use test_servers::{Product, Server, Setup};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::common::{hostile_role, unique};
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
    let end = SlotEnd { name: round.name.clone(), holder: round.holder, slot, passed: None, lost: true };
    // Nor do they have to be prepared any more, which could be done again.
    let moved = Observed { expires_at: DbTime::RELEASED, ..seen };
    assert_eq!(store.clear(&round.name, &moved, LONG).await.unwrap(), ClearAnswer::Moved);
    let other = SlotEnd { name: name("other"), ..end.clone() };
    assert_eq!(store.finish_slot(&other, LONG).await.unwrap(), FinishAnswer::Lost { recorded: false });
    proxy.cut_before(1, Direction::ToClient);
    let error = is_err(store.clear(&round.name, &seen, LONG).await, ErrorKind::Unavailable);
    assert_eq!(error.effect(), Effect::Unknown);
    store.finish_slot(&other, LONG).await.unwrap();
    proxy.cut_before(1, Direction::ToClient);
    let error = is_err(store.finish_slot(&end, LONG).await, ErrorKind::Unavailable);
    assert_eq!((error.effect(), proxy.planned()), (Effect::Unknown, 0));
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
    let end = format!("SELECT pg_terminate_backend(pid) {}", sandbox.who_waits());
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
    assert_eq!((released, proxy.planned()), (ReleaseAnswer::Released, 0));
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

/// As behind a proxy that takes everything and whose server is gone: no bound of the system's own ends such a connection.
#[tokio::test]
async fn a_connection_on_which_an_answer_never_comes_does_not_stay_open() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let store = sandbox.options().open(&url).unwrap();
    let held = take(&store, "a").await;
    renews(&store, &held).await;
    assert_eq!((proxy.connections(), proxy.open()), (2, 2));
    proxy.strand();
    is_err(store.renew(&held.name, &held.holder, TTL, SHORT).await, ErrorKind::Timeout);
    assert_eq!(proxy.connections(), 2);
    // The one of the claim lies idle.
    eventually("what was given up is closed", async || proxy.open() == 1).await;
    renews(&store, &held).await;
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
async fn a_connection_cut_anywhere_while_it_is_made_is_made_again() {
    let sandbox = Sandbox::new().await;
    for n in 1.. {
        let (proxy, url) = proxied(&sandbox.url);
        proxy.count_logins();
        proxy.cut_before(n, Direction::ToClient);
        let store = sandbox.options().open(&url).unwrap();
        store.inspect(&name("a"), LONG).await.unwrap_or_else(|error| panic!("message {n}: {error:?}"));
        if proxy.planned() > 0 {
            assert!(n > 20, "only {n} messages");
            break;
        }
    }
}

#[tokio::test]
async fn a_dropped_statement_leaves_its_connection_usable_and_nothing_half_done() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let held = take(&store, "held").await;
    for n in 0..50 {
        let dropped = new_claim(&format!("n{n}"));
        // Dropped after the first look, at which it mostly is under way.
        drop(store.claim(&dropped, LONG).now_or_never());
        drop(store.renew(&held.name, &held.holder, TTL, LONG).now_or_never());
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

#[tokio::test]
async fn every_statement_runs_with_what_it_relies_on() {
    let sandbox = Sandbox::new().await;
    sandbox.watch_settings().await;
    let role = hostile_role(&sandbox.url).await;
    let pool = Pool::builder(Manager::new(role.url.parse().unwrap(), NoTls)).max_size(2).build().unwrap();
    for (n, store) in [
        sandbox.store(),
        sandbox.options().open(&role.url).unwrap(),
        sandbox.options().open_pool(pool.clone()).unwrap(),
    ]
    .into_iter()
    .enumerate()
    {
        let held = take(&store, &format!("n{n}")).await;
        renews(&store, &held).await;
        assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
        store.release(&held.name, &held.holder, LONG).await.unwrap();
        store.check().await.unwrap();
    }
    // Nor is anything left behind in a session.
    let client = pool.get().await.unwrap();
    let left = "SELECT name FROM pg_settings WHERE source = 'session' UNION ALL SELECT name FROM pg_prepared_statements";
    let left = client.simple_query(left).await.unwrap();
    let left: Vec<_> = left.iter().filter(|message| matches!(message, SimpleQueryMessage::Row(_))).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Where the schema `public` may be written by everybody, as before PostgreSQL 15.
#[tokio::test]
async fn nothing_of_somebody_elses_in_the_schema_public_stands_in_for_the_servers_own() {
    let server = Server::start(Product::Postgres, Setup::default());
    let sandbox = Sandbox::on(&server.url()).await;
    let raises = "LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'of somebody else'; END $$";
    sandbox
        .run(&format!(
            "CREATE FUNCTION public.unnest(smallint[]) RETURNS SETOF smallint {raises};
             CREATE FUNCTION public.replace(name, text, text) RETURNS text {raises};
             CREATE FUNCTION public.times(numeric, integer) RETURNS numeric {raises};
             CREATE OPERATOR public.* (LEFTARG = numeric, RIGHTARG = integer, FUNCTION = public.times);
             CREATE FUNCTION public.equals(oid, integer) RETURNS boolean {raises};
             CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = integer, FUNCTION = public.equals)"
        ))
        .await;
    let store = sandbox.store();
    store.check().await.unwrap();
    store.migrate().await.unwrap();
    let held = take(&store, "a").await;
    renews(&store, &held).await;
}

/// Where a role's transactions are serializable, read-only and deferrable, the first thing they do is to wait for
/// others' to end.
#[tokio::test]
async fn a_connection_waits_for_nobodys_serializable_transaction() {
    let sandbox = Sandbox::new().await;
    let role = hostile_role(&sandbox.url).await;
    let other = sandbox.sql().await;
    other
        .run(
            &sandbox
                .text("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT FROM leases; UPDATE leases SET term = 1"),
        )
        .await;
    let store = sandbox.options().open(&role.url).unwrap();
    let claim = new_claim("a");
    granted(store.claim(&claim, Duration::from_secs(20)).await);
    other.run("COMMIT").await;
}

/// What a program has forgotten to end is not ended by a statement of the store's.
#[tokio::test]
async fn a_transaction_left_open_in_the_programs_pool_is_not_committed() {
    let sandbox = Sandbox::new().await;
    let pool = Pool::builder(Manager::new(sandbox.url.parse().unwrap(), NoTls)).max_size(1).build().unwrap();
    let store = sandbox.options().open_pool(pool.clone()).unwrap();
    for begin in ["BEGIN", "BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN READ ONLY", "BEGIN; SELECT 1 / 0"] {
        let left = pool.get().await.unwrap();
        let _ = left.batch_execute(begin).await;
        let _ = left
            .batch_execute(&sandbox.text(
                "INSERT INTO leases (name, holder, term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms)
                 VALUES ('left', '00000000000000000000000000000000', 41, 1, 2, 3, 4); SELECT FROM leases",
            ))
            .await;
        drop(left);
        take(&store, &format!("after {begin}")).await;
        assert_eq!(store.inspect(&name("left"), LONG).await.unwrap().row, None, "{begin}");
    }
}

/// A server that dies then does not answer what it is: it is not taken for another product, of which nobody would ask again.
#[tokio::test]
async fn a_connection_that_ends_right_after_the_login_says_nothing_of_the_server() {
    let sandbox = Sandbox::new().await;
    for direction in [Direction::ToServer, Direction::ToClient] {
        let (proxy, url) = proxied(&sandbox.url);
        let store = sandbox.options().open(&url).unwrap();
        proxy.cut_before(1, direction);
        if let Err(error) = store.inspect(&name("a"), LONG).await {
            assert!(error.kind().retry_helps(), "{error:?}");
        }
        assert_eq!(proxy.planned(), 0);
    }
}
