//! Releases that are heard of, in this process and from others.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use lease_core::store::{Hint, NAME_MAX_BYTES, Notices};
use lease_core::{Claimed, LeaseStore, Leases, Timings};
use lease_postgres::PostgresStore;
use lease_postgres::deadpool_postgres::{Manager, Pool};
use lease_testkit::Direction;
use test_servers::{PgBouncer, Product, Server, Setup};
use tokio::time::timeout;
use tokio_postgres::NoTls;

use crate::common::{Sql, hostile_role, role, unique};
use crate::connections::proxied;
use crate::support::{LONG, Sandbox, TTL, eventually, holding, name, take};

/// Waits between two looks are minutes at this ttl: what takes less was heard.
fn leases(store: PostgresStore) -> Leases {
    let timings = Timings::from_ttl(Duration::from_secs(3600)).unwrap();
    Leases::builder(store).timings(timings).build().unwrap()
}

/// What is heard of a name, by a store that listens by then.
pub(crate) async fn listening(store: &PostgresStore) -> Notices {
    let mut notices = store.notices().expect("it has connections of its own");
    assert_eq!(heard(&mut notices, "any").await, Hint::Perhaps);
    notices
}

async fn heard(notices: &mut Notices, text: &str) -> Hint {
    let hint = timeout(LONG, notices.about(&name(text))).await;
    hint.unwrap_or_else(|_| panic!("nothing was heard of {text:?}"))
}

async fn announce(store: &PostgresStore, text: &str) {
    store.announce(&name(text), LONG).await.unwrap();
}

/// How many sessions this application has.
async fn sessions(sql: &Sql, application: &str) -> usize {
    let of_it = "SELECT 1 FROM pg_stat_activity WHERE application_name = $1";
    sql.client.query(of_it, &[&application]).await.unwrap().len()
}

#[tokio::test]
async fn a_name_given_back_is_taken_by_who_waits_for_it_elsewhere_without_another_look() {
    let sandbox = Sandbox::new().await;
    let (holder, waiter) = (leases(sandbox.store()), leases(sandbox.store()));
    let Ok(Claimed::Granted(held)) = holder.claim("a").await else { panic!("it is free") };
    let (waiting, waits) = (waiter.clone(), Duration::from_secs(3000));
    let waiting = tokio::spawn(async move { waiting.acquire("a", waits).await });
    // By then it has looked after it began to listen, and nothing but a release wakes it.
    let mut hears = waiter.store().notices().unwrap();
    assert_eq!(heard(&mut hears, "a").await, Hint::Perhaps);
    held.release().await.unwrap();
    let taken = timeout(LONG, waiting).await.expect("the release was not heard of").unwrap();
    assert!(matches!(taken, Ok(Claimed::Granted(_))), "{taken:?}");
    for leases in [holder, waiter] {
        leases.close().await;
    }
}

#[tokio::test]
async fn a_name_is_heard_whole_whatever_is_in_it_and_not_from_another_table() {
    let sandbox = Sandbox::new().await;
    let other = sandbox.options().table(&unique("other")).unwrap().open(&sandbox.url).unwrap();
    let longer =
        sandbox.options().table(&format!("{}_2", sandbox.table)).unwrap().open(&sandbox.url).unwrap();
    let (here, there) = (sandbox.store(), sandbox.store());
    let mut notices = listening(&here).await;
    let table = format!("public.{} x", sandbox.table);
    let longest = "é".repeat(NAME_MAX_BYTES / 2);
    for text in ["'; UNLISTEN *; --", "a\"b\\c", "{1,NULL}", "$1 %s", "a  b", "日本語 🦀", &table, &longest]
    {
        let (mut not_here, mut all) = (here.notices().unwrap(), here.notices().unwrap());
        announce(&other, text).await;
        announce(&longer, text).await;
        announce(&there, "last").await;
        assert_eq!(heard(&mut all, "last").await, Hint::GivenBack);
        assert_eq!(not_here.about(&name(text)).now_or_never(), None, "{text:?} is another table's");
        announce(&there, text).await;
        assert_eq!(heard(&mut notices, text).await, Hint::GivenBack);
    }
}

#[tokio::test]
async fn whatever_the_defaults_of_the_role_are_releases_are_announced_and_heard() {
    let sandbox = Sandbox::new().await;
    let role = hostile_role(&sandbox.url).await;
    let (here, there) =
        (sandbox.options().open(&role.url).unwrap(), sandbox.options().open(&role.url).unwrap());
    let mut notices = listening(&here).await;
    announce(&there, "a").await;
    assert_eq!(heard(&mut notices, "a").await, Hint::GivenBack);
}

/// Anybody may notify anything on any channel.
#[tokio::test]
async fn what_is_no_announcement_is_passed_over() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let (mut notices, sql) = (listening(&store).await, sandbox.sql().await);
    let begin = format!("public.{} ", sandbox.table);
    let long = format!("{begin}{}", "x".repeat(7_000));
    for payload in ["", "x", begin.trim_end(), &begin, &format!("{begin} x"), &format!("{begin}a\nb"), &long]
    {
        sql.client.query("SELECT pg_notify('lease_released', $1)", &[&payload]).await.unwrap();
    }
    announce(&store, "a").await;
    assert_eq!(heard(&mut notices, "a").await, Hint::GivenBack);
}

#[tokio::test]
async fn names_announced_while_others_are_on_their_way_go_out_together() {
    // As many as one can hear of at once without the first being forgotten.
    const NAMES: usize = 60;
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let (store, hears) = (sandbox.options().open(&url).unwrap(), sandbox.store());
    announce(&store, "connects").await;
    let mut all = Vec::new();
    for n in 0..NAMES {
        all.push((format!("n{n}"), hears.notices().unwrap()));
    }
    for (_, notices) in &mut all {
        assert_eq!(heard(notices, "any").await, Hint::Perhaps);
    }
    proxy.reset();
    let names: Vec<_> = all.iter().map(|(text, _)| name(text)).collect();
    try_join_all(names.iter().map(|name| store.announce(name, LONG))).await.unwrap();
    assert!(proxy.trips() <= 10, "{} round trips for {NAMES} names", proxy.trips());
    for (text, notices) in &mut all {
        assert_eq!(heard(notices, text).await, Hint::GivenBack, "{text}");
    }
}

#[tokio::test]
async fn a_name_that_another_took_along_and_could_not_tell_in_its_time_is_told_all_the_same() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let (store, hears) = (sandbox.options().open(&url).unwrap(), sandbox.store());
    announce(&store, "connects").await;
    let (mut notices, mut last) = (listening(&hears).await, hears.notices().unwrap());
    proxy.hold(Direction::ToServer);
    let within = |text: &'static str, millis| {
        let store = store.clone();
        async move { store.announce(&name(text), Duration::from_millis(millis)).await }
    };
    // The second has its turn when the first has failed, and takes the third along.
    let (first, second, ()) = tokio::join!(
        async { within("first", 300).await },
        async {
            let failed = within("second", 600).await;
            // What was held is lost.
            proxy.cut();
            proxy.release(Direction::ToServer);
            failed
        },
        announce(&store, "third"),
    );
    assert!(first.is_err() && second.is_err());
    announce(&sandbox.store(), "last").await;
    assert_eq!(heard(&mut last, "last").await, Hint::GivenBack);
    assert_eq!(notices.about(&name("third")).now_or_never(), Some(Hint::GivenBack));
}

#[tokio::test]
async fn a_connection_that_ends_is_made_again_and_what_was_missed_is_looked_at() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let application = unique("listens");
    let store = sandbox.options().open(&format!("{url}&application_name={application}")).unwrap();
    let (elsewhere, sql) = (sandbox.store(), sandbox.sql().await);
    let mut notices = listening(&store).await;
    for by_the_server in [true, false] {
        if by_the_server {
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
            assert_eq!(sql.client.query(end, &[&application]).await.unwrap().len(), 1);
        } else {
            proxy.cut();
        }
        assert_eq!(heard(&mut notices, "a").await, Hint::Perhaps);
        announce(&elsewhere, "a").await;
        assert_eq!(heard(&mut notices, "a").await, Hint::GivenBack);
    }
    assert_eq!(proxy.open(), 1, "one connection is enough to listen");
}

#[tokio::test]
async fn where_connections_are_short_who_listens_gives_its_own_to_renewals() {
    let sandbox = Sandbox::new().await;
    let sql = sandbox.sql().await;
    let role = role(&sandbox.url, "CONNECTION LIMIT 2").await;
    sql.run(&sandbox.text(&format!("GRANT ALL ON leases TO {}", role.name))).await;
    let store = sandbox.options().open(&role.url).unwrap();
    let _listens = listening(&store).await;
    let held = take(&store, "a").await;
    // The claim's connection is kept for a minute.
    let renewed = store.renew_many(&[holding(&held)], TTL, LONG / 4).await.unwrap();
    assert!(renewed[0].is_some());
}

#[tokio::test]
async fn after_a_restart_of_the_server_releases_are_heard_of_again() {
    let mut server = Server::start(Product::Postgres, Setup::default());
    let sandbox = Sandbox::on(&server.url()).await;
    let (store, elsewhere) = (sandbox.store(), sandbox.store());
    let mut notices = listening(&store).await;
    server.stop();
    server.start_again();
    assert_eq!(heard(&mut notices, "a").await, Hint::Perhaps);
    announce(&elsewhere, "a").await;
    assert_eq!(heard(&mut notices, "a").await, Hint::GivenBack);
}

#[tokio::test]
async fn nobody_listens_for_longer_than_anybody_waits_or_the_store_is_there() {
    let sandbox = Sandbox::new().await;
    let sql = sandbox.sql().await;
    let open = |application: &str| {
        sandbox.options().open(&format!("{}?application_name={application}", sandbox.url)).unwrap()
    };
    let (unheard, dropped) = (unique("unheard"), unique("dropped"));
    let (store, gone) = (open(&unheard), open(&dropped));
    let _outlives = listening(&gone).await;
    for _ in 0..2 {
        let (first, second) = (listening(&store).await, store.notices());
        for application in [&unheard, &dropped] {
            assert_eq!(sessions(&sql, application).await, 1);
        }
        drop((first, second));
        eventually("nobody listens", async || sessions(&sql, &unheard).await == 0).await;
    }
    drop(gone);
    eventually("the store's session ends", async || sessions(&sql, &dropped).await == 0).await;
}

#[tokio::test]
async fn behind_a_pooler_it_is_looked_for_and_no_session_is_left_listening() {
    let server = Server::start(Product::Postgres, Setup::default());
    let pooler = PgBouncer::start(&server);
    let sandbox = Sandbox::on(&server.url()).await;
    let open = || sandbox.options().open(&pooler.url()).unwrap();
    // Nothing else that it does could tell it.
    let alone = open();
    eventually("it is known that a pooler is between", async || alone.notices().is_none()).await;
    let timings = Timings::from_ttl(Duration::from_secs(3)).unwrap();
    let by_polling = |store| Leases::builder(store).timings(timings).build().unwrap();
    let (store, waiter) = (open(), by_polling(open()));
    let held = by_polling(store.clone());
    let Ok(Claimed::Granted(lease)) = held.claim("a").await else { panic!("it is free") };
    let waiting = tokio::spawn(async move { (waiter.acquire("a", LONG).await, waiter) });
    // Who goes past the pooler hears of what is announced through it.
    let past = sandbox.options().open(&format!("{}?application_name=past", server.url())).unwrap();
    let mut notices = listening(&past).await;
    lease.release().await.unwrap();
    assert_eq!(heard(&mut notices, "a").await, Hint::GivenBack);
    let (taken, waiter) = waiting.await.unwrap();
    assert!(matches!(taken, Ok(Claimed::Granted(_))), "{taken:?}");
    eventually("the waiter knows it too", async || waiter.store().notices().is_none()).await;

    // All sessions of the pooler's at once.
    let count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' \
                 AND pid <> pg_backend_pid() AND application_name <> 'past'";
    let backends: usize = server.ask(count).unwrap().parse().unwrap();
    let mut all = Vec::new();
    for _ in 0..backends {
        let client = Sql::connect(&pooler.url()).await;
        client.run("BEGIN").await;
        let listens = client.client.query("SELECT pg_listening_channels()", &[]).await.unwrap();
        assert!(listens.is_empty(), "a session of the pooler's listens");
        all.push(client);
    }
}

#[tokio::test]
async fn without_notices_nothing_is_sent_and_nobody_listens() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let store = sandbox.options().without_notices().open(&url).unwrap();
    assert!(store.notices().is_none());
    announce(&store, "a").await;
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn on_a_pool_of_the_programs_releases_are_announced_and_no_connection_is_kept_to_listen() {
    let sandbox = Sandbox::new().await;
    let pool = Pool::builder(Manager::new(sandbox.url.parse().unwrap(), NoTls)).max_size(1).build().unwrap();
    let (store, elsewhere) = (sandbox.options().open_pool(pool).unwrap(), sandbox.store());
    assert!(store.notices().is_none());
    let mut notices = listening(&elsewhere).await;
    announce(&store, "a").await;
    assert_eq!(heard(&mut notices, "a").await, Hint::GivenBack);
}
