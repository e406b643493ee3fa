//! Connections that die, and answers that never come.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lease_core::store::{
    ClearAnswer, Effect, FinishAnswer, ReleaseAnswer, RenewAnswer, SlotEnd, VerifyAnswer,
};
use lease_core::{ErrorKind, LeaseStore, Slot, Term};
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};
use lease_testkit::{Direction, Proxy, Wire};
use test_servers::Product;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{
    LONG, SHORT, Sandbox, TTL, fails, granted, holding, is_err, is_harmless, name, new_claim, on_both, take,
};

on_both! {
    a_killed_idle_connection_costs_no_renewal
    a_claim_after_a_pause_finds_a_killed_connection_out_beforehand
    a_claim_after_a_pause_finds_a_silent_connection_out_beforehand
    old_connections_that_fall_silent_cost_one_attempt_and_no_second
    a_clear_whose_answer_is_lost_is_never_answered_as_moved
    the_end_of_a_lost_round_whose_answer_is_lost_is_never_answered_as_unrecorded
    an_address_of_ipv6_is_reached
    of_many_killed_connections_at_most_one_costs_a_claim
    a_claim_whose_answer_is_lost_is_not_sent_again
    a_renewal_whose_answer_is_lost_is_sent_again
    a_server_that_does_not_answer_is_given_up_in_time
    a_connection_on_which_an_answer_never_comes_does_not_stay_open
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

/// A way to the server, on which old connections can fall silent while new ones are served: as after a failover behind one
/// address.
struct Relay {
    port: u16,
    connections: Arc<AtomicU64>,
    silent_before: Arc<AtomicU64>,
}

impl Relay {
    async fn start(sandbox: &Sandbox, at: &str) -> Self {
        let opts = Opts::from_url(&sandbox.url).unwrap();
        let to = (opts.ip_or_hostname().to_owned(), opts.tcp_port());
        let listener = TcpListener::bind(at).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, silent_before) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (count, silent) = (Arc::clone(&connections), Arc::clone(&silent_before));
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let number = count.fetch_add(1, Ordering::Relaxed);
                let server = TcpStream::connect((to.0.as_str(), to.1)).await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pass(from_client, to_server, number, Arc::clone(&silent)));
                tokio::spawn(pass(from_server, to_client, number, Arc::clone(&silent)));
            }
        });
        Self { port, connections, silent_before }
    }

    fn store(&self, sandbox: &Sandbox, host: &str) -> MysqlStore {
        MysqlStore::open(&format!("mysql://root@{host}:{}/{}", self.port, sandbox.database)).unwrap()
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// From now on nothing passes on any of the connections there are, not even their end.
    fn silence(&self) {
        self.silent_before.store(self.connections(), Ordering::Relaxed);
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, number: u64, silent_before: Arc<AtomicU64>) {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let read = from.read(&mut bytes).await.unwrap_or(0);
        if number < silent_before.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if read == 0 || to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

/// By way of a proxy, which sees nothing through TLS.
pub(crate) fn through(sandbox: &Sandbox) -> (Proxy, MysqlStore) {
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
    let mut term = 1;
    let (claim, error) = loop {
        // The server has it, and we never hear. (On a very slow machine it is a ping that is cut off.)
        proxy.cut_before(1, Direction::ToClient);
        let claim = new_claim("a");
        match store.claim(&claim, LONG).await {
            Ok(answer) => term = granted(Ok(answer)).get(),
            answer => break (claim, is_err(answer, ErrorKind::Unavailable)),
        }
        store.release(&claim.name, &claim.holder, LONG).await.unwrap();
    };
    assert_eq!(error.effect(), Effect::Unknown);
    // Committed once or not yet, and never twice; in any case the token gives it back.
    let released = store.release(&claim.name, &claim.holder, LONG).await.unwrap();
    let found = store.inspect(&claim.name, LONG).await.unwrap().row.unwrap().term.get();
    assert_eq!((released, found), (ReleaseAnswer::Released, term + 1));
}

async fn a_clear_whose_answer_is_lost_is_never_answered_as_moved(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let (proxy, store) = through(&sandbox);
    for n in 0..3 {
        let held = take(&store, &n.to_string()).await;
        let seen = store.inspect(&held.name, LONG).await.unwrap().row.unwrap().observed();
        // So that the statement is prepared.
        assert_eq!(store.clear(&name("none"), &seen, LONG).await.unwrap(), ClearAnswer::Moved);
        proxy.cut_before(1, Direction::ToClient);
        match store.clear(&held.name, &seen, LONG).await {
            Ok(answer) => assert_eq!(answer, ClearAnswer::Cleared),
            answer => assert_eq!(is_err(answer, ErrorKind::Unavailable).effect(), Effect::Unknown),
        }
        let row = store.inspect(&held.name, LONG).await.unwrap().row.unwrap();
        assert_eq!(row.expires_at.as_millis(), 0);
    }
}

async fn the_end_of_a_lost_round_whose_answer_is_lost_is_never_answered_as_unrecorded(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let (proxy, store) = through(&sandbox);
    let slot = Slot::from_millis(60_000).unwrap();
    for n in 0..3 {
        let round = new_claim(&n.to_string());
        store.claim_slot(&round, slot, LONG).await.unwrap();
        let end = SlotEnd { name: round.name.clone(), holder: round.holder, slot, passed: None, lost: true };
        // So that the statement is prepared.
        let other = SlotEnd { name: name("none"), ..end.clone() };
        let answer = store.finish_slot(&other, LONG).await.unwrap();
        assert_eq!(answer, FinishAnswer::Lost { recorded: false });
        proxy.cut_before(1, Direction::ToClient);
        match store.finish_slot(&end, LONG).await {
            Ok(answer) => assert_eq!(answer, FinishAnswer::Lost { recorded: true }),
            answer => assert_eq!(is_err(answer, ErrorKind::Unavailable).effect(), Effect::Unknown),
        }
        let row = store.inspect(&round.name, LONG).await.unwrap().row.unwrap();
        assert_eq!(row.unfinished_slot, None);
    }
}

async fn a_claim_after_a_pause_finds_a_silent_connection_out_beforehand(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let relay = Relay::start(&sandbox, "127.0.0.1:0").await;
    let store = relay.store(&sandbox, "127.0.0.1");
    take(&store, "a").await;
    relay.silence();
    tokio::time::sleep(Duration::from_millis(5_500)).await;
    granted(store.claim(&new_claim("b"), LONG).await);
}

async fn old_connections_that_fall_silent_cost_one_attempt_and_no_second(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let relay = Relay::start(&sandbox, "127.0.0.1:0").await;
    let store = relay.store(&sandbox, "127.0.0.1");
    let held = take(&store, "a").await;
    let leases = [holding(&held)];
    let single = || store.renew(&held.name, &held.holder, TTL, LONG);
    let batch = || store.renew_many(&leases, TTL, LONG);
    let (one, two, three) = tokio::join!(single(), single(), single());
    let (four, five) = tokio::join!(batch(), batch());
    assert!(one.is_ok() && two.is_ok() && three.is_ok() && four.is_ok() && five.is_ok());
    assert!(relay.connections() > 4, "{}", relay.connections());
    relay.silence();
    let error = is_err(store.renew(&held.name, &held.holder, TTL, SHORT).await, ErrorKind::Timeout);
    assert_eq!(error.effect(), Effect::Unknown);
    // Each of these would hang on a connection that is as dead as the first.
    assert!(matches!(single().await, Ok(RenewAnswer::Renewed(_))));
    assert!(matches!(single().await, Ok(RenewAnswer::Renewed(_))));
    assert!(batch().await.unwrap()[0].is_some());
    granted(store.claim(&new_claim("b"), LONG).await);
}

async fn an_address_of_ipv6_is_reached(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let relay = Relay::start(&sandbox, "[::1]:0").await;
    let store = relay.store(&sandbox, "[::1]");
    take(&store, "a").await;
    assert!(store.describe().contains(&format!("[::1]:{}/", relay.port)), "{}", store.describe());
}

#[test]
fn a_store_on_a_pool_without_a_runtime_is_an_error() {
    let pool = Pool::new(Opts::from_url("mysql://root@127.0.0.1:1/x").unwrap());
    let store = MysqlStore::options().open_pool(pool).unwrap();
    let mut check = Box::pin(store.check());
    let Poll::Ready(answer) = check.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("it waits for a runtime");
    };
    is_harmless(answer, ErrorKind::Runtime);
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
    let error = is_err(store.claim(&new_claim("b"), SHORT).await, ErrorKind::Timeout);
    assert_eq!(error.effect(), Effect::Unknown);
    // Nor does it take new ones, and what there was is not trusted any more.
    is_harmless(store.claim(&new_claim("b"), SHORT).await, ErrorKind::Unavailable);
    is_harmless(store.renew(&held.name, &held.holder, TTL, SHORT).await, ErrorKind::Unavailable);
    proxy.release(Direction::ToClient);
    assert!(matches!(store.renew(&held.name, &held.holder, TTL, LONG).await, Ok(RenewAnswer::Renewed(_))));
    proxy.hold(Direction::ToClient);
    let error = is_err(store.renew(&held.name, &held.holder, TTL, SHORT).await, ErrorKind::Timeout);
    assert_eq!(error.effect(), Effect::Unknown);
    is_harmless(store.verify(&held.name, &held.holder, SHORT).await, ErrorKind::Unavailable);
    proxy.release(Direction::ToClient);
    assert!(matches!(store.renew(&held.name, &held.holder, TTL, LONG).await, Ok(RenewAnswer::Renewed(_))));
}

/// As behind a proxy that takes everything and whose server is gone: no bound of the system's own ends such a connection.
async fn a_connection_on_which_an_answer_never_comes_does_not_stay_open(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let (proxy, store) = through(&sandbox);
    let held = take(&store, "a").await;
    store.renew(&held.name, &held.holder, TTL, LONG).await.unwrap();
    assert_eq!((proxy.connections(), proxy.open()), (2, 2));
    proxy.strand();
    is_err(store.renew(&held.name, &held.holder, TTL, SHORT).await, ErrorKind::Timeout);
    assert_eq!(proxy.connections(), 2);
    let since = Instant::now();
    // The one of the claim lies idle.
    while proxy.open() > 1 {
        assert!(since.elapsed() < LONG, "what was given up is never closed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
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
        @@lock_wait_timeout, @@time_zone, @@sql_select_limit, @@sql_safe_updates, @@sql_big_selects,
        COALESCE(@@character_set_results, 'as it is'), @@completion_type, @@in_transaction)";
    let settings = match product {
        Product::MariaDb => settings.to_owned(),
        _ => settings.replace(", @@in_transaction", ""),
    };
    let mut conn = pool.get_conn().await.unwrap();
    let ours = "SET autocommit = 0, sql_mode = 'ANSI', innodb_lock_wait_timeout = 7, lock_wait_timeout = 8";
    conn.query_drop(ours).await.unwrap();
    let ours =
        "SET sql_select_limit = 7, sql_safe_updates = 1, sql_big_selects = 0, completion_type = 'CHAIN',
                character_set_results = NULL";
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
    conn.query_drop("UPDATE leases SET address = 'theirs' WHERE name = 'a'").await.unwrap();
    drop(conn);
    let row = store.inspect(&held.name, LONG).await.unwrap().row.unwrap();
    assert_eq!(row.address, "");
}
