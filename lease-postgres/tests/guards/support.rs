//! A lease, a table of the program's, and connections of the program's.

use std::time::{Duration, Instant};

use lease_core::store::{Claim, ClaimAnswer};
use lease_core::{
    Claimed, ErrorKind, GuardError, Holder, Instance, Lease, LeaseName, LeaseStore, Leases, Tenure, Timings,
};
use lease_postgres::{Guarded, PostgresOptions, PostgresStore};
use lease_testkit::{Proxy, Wire};
use tokio_postgres::{Client, Config, NoTls};

use crate::common::{Sql, shared, unique};

/// A ttl that no test outlives; what is to expire is expired by hand.
pub(crate) const TTL: Duration = Duration::from_secs(3600);

/// For what must go well, on however slow a machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// A lease table and another of a test's own.
pub(crate) struct Scene {
    pub(crate) url: String,
    pub(crate) table: String,
    /// The program's table.
    pub(crate) rows: String,
    /// What the program's sessions call themselves.
    pub(crate) program: String,
    pub(crate) store: PostgresStore,
}

/// A lease that is held, and what holds it.
pub(crate) struct Holding {
    pub(crate) lease: Lease,
    pub(crate) tenure: Tenure,
    _leases: Leases,
}

impl Scene {
    /// On the server that all tests share.
    pub(crate) async fn new() -> Self {
        Self::on(&shared()).await
    }

    pub(crate) async fn on(url: &str) -> Self {
        let (table, rows, program) = (unique("leases"), unique("rows"), unique("program"));
        let store = PostgresStore::options().table(&table).unwrap().open(url).unwrap();
        store.migrate().await.unwrap();
        Sql::connect(url).await.run(&format!("CREATE TABLE {rows} (n integer)")).await;
        Self { url: url.to_owned(), table, rows, program, store }
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresStore::options().table(&self.table).unwrap()
    }

    /// Claims a name for as long as it is in hand.
    pub(crate) async fn hold(&self, name: &str) -> Holding {
        hold(&self.store, name, Timings::from_ttl(TTL).unwrap()).await
    }

    /// A connection of the program's.
    pub(crate) async fn client(&self) -> Client {
        self.client_at(&self.url).await
    }

    pub(crate) async fn client_at(&self, url: &str) -> Client {
        let mut config: Config = url.parse().unwrap();
        let (client, connection) = config.application_name(&self.program).connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// The statement that writes a row.
    pub(crate) fn insert(&self, n: i32) -> String {
        format!("INSERT INTO {} VALUES ({n})", self.rows)
    }

    /// What is committed.
    pub(crate) async fn rows(&self) -> Vec<i32> {
        let sql = Sql::connect(&self.url).await;
        let rows = sql.client.query(&format!("SELECT n FROM {} ORDER BY n", self.rows), &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Runs statements of somebody else's.
    pub(crate) async fn run(&self, sql: &str) {
        Sql::connect(&self.url).await.run(sql).await;
    }

    /// Has the lease expire, as it would had nobody renewed it.
    pub(crate) async fn expire(&self, name: &str) {
        self.run(&format!("UPDATE {} SET expires_at_ms = 1 WHERE name = '{name}'", self.table)).await;
    }

    /// A successor's claim.
    pub(crate) async fn claim(&self, name: &str) -> ClaimAnswer {
        self.store.claim(&new_claim(name), LONG).await.unwrap()
    }

    /// Claims as a successor until it is granted.
    pub(crate) async fn succeed(&self, name: &str) {
        let granted = async || matches!(self.claim(name).await, ClaimAnswer::Granted(_));
        eventually("the successor's claim is granted", granted).await;
    }

    /// How many sessions the program has in transactions, and in all.
    pub(crate) async fn sessions(&self) -> (i64, i64) {
        let sql = Sql::connect(&self.url).await;
        let count = "SELECT count(*) FILTER (WHERE xact_start IS NOT NULL), count(*) \
                     FROM pg_stat_activity WHERE application_name = $1";
        let row = sql.client.query_one(count, &[&self.program]).await.unwrap();
        (row.get(0), row.get(1))
    }

    /// Waits until the server has ended the program's sessions.
    pub(crate) async fn no_session_is_left(&self) {
        eventually("no session is left", async || self.sessions().await == (0, 0)).await;
    }
}

/// Claims a name for as long as it is in hand.
pub(crate) async fn hold(store: &PostgresStore, name: &str, timings: Timings) -> Holding {
    let leases = Leases::builder(store.clone()).timings(timings).on_stuck(|_| {}).build().unwrap();
    let Claimed::Granted(lease) = leases.claim(name).await.unwrap() else { panic!("{name} is held") };
    Holding { tenure: lease.tenure(), lease, _leases: leases }
}

pub(crate) fn new_claim(name: &str) -> Claim {
    let name = LeaseName::new(name).unwrap();
    Claim { name, holder: Holder::mint().unwrap(), ttl: TTL, instance: Instance::named("successor") }
}

/// A proxy before the server, and the URL that leads through it.
pub(crate) fn proxied(url: &str) -> (Proxy, String) {
    let (before, place) = url.split_once('@').unwrap();
    let (address, database) = place.split_once('/').unwrap();
    let proxy = Proxy::start(address, Wire::Postgres).unwrap();
    let through = format!("{before}@{}/{database}?sslmode=disable", proxy.addr());
    (proxy, through)
}

#[track_caller]
pub(crate) fn is_lost<T: std::fmt::Debug>(answer: Result<T, GuardError>) {
    match answer {
        Err(GuardError::Lost(_)) => {}
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn is_failed<T: std::fmt::Debug>(answer: Result<T, GuardError>, kind: ErrorKind) -> GuardError {
    let error = answer.expect_err("should have failed");
    assert!(matches!(error, GuardError::Failed(_)), "{error:?}");
    assert_eq!(error.kind(), Some(kind), "{error:?}");
    assert!(!error.to_string().contains('\n'), "more than one line: {error}");
    error
}

pub(crate) async fn setting(transaction: &Guarded<Client>, name: &str) -> String {
    let row = transaction.query_one("SELECT pg_catalog.current_setting($1)", &[&name]).await.unwrap();
    row.get(0)
}

/// Waits for something that must come.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let give_up = Instant::now() + LONG;
    while !holds().await {
        assert!(Instant::now() < give_up, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
