//! A lease that is held, a table of the program's, and what others see of them.

use std::time::{Duration, Instant};

use lease_core::store::{Claim, ClaimAnswer};
use lease_core::{
    Holder, Instance, LeaseStore, Leases, ManualClaimed, ManualLease, Tenure, TimingParts, Timings,
};
use lease_mysql::mysql_async::prelude::{FromRow, Queryable};
use lease_mysql::mysql_async::{Conn, Error, Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};
use lease_mysql::{Guard, MysqlStore};
use lease_testkit::{Proxy, Wire};
use test_servers::Product;

use crate::support::{LONG, Sandbox, TTL, name};

pub(crate) const NAME: &str = "nightly";

/// A lease that nobody renews but the test.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) store: MysqlStore,
    pub(crate) lease: ManualLease,
    pub(crate) tenure: Tenure,
}

impl World {
    /// With a ttl that no test outlives.
    pub(crate) async fn new(product: Product) -> Self {
        Self::new_in(Sandbox::new(product).await).await
    }

    pub(crate) async fn new_in(sandbox: Sandbox) -> Self {
        // Short, for the tests that wait for half of it.
        Self::on(sandbox, TTL, Duration::from_secs(1)).await
    }

    pub(crate) async fn on(sandbox: Sandbox, ttl: Duration, grace: Duration) -> Self {
        sandbox.run("CREATE TABLE work (id BIGINT PRIMARY KEY, note VARCHAR(100))").await;
        let store = sandbox.store();
        let parts = TimingParts { grace, ..Timings::from_ttl(ttl).unwrap().parts() };
        let timings = Timings::new(parts).unwrap();
        let leases = Leases::builder(store.clone()).timings(timings).on_stuck(|_| {}).build().unwrap();
        let ManualClaimed::Granted(lease) = leases.claim_manual(NAME).await.unwrap() else {
            panic!("the name is held");
        };
        let tenure = lease.tenure();
        Self { sandbox, store, lease, tenure }
    }

    pub(crate) fn guard(&self) -> Guard {
        self.store.guard(&self.tenure)
    }

    /// The program's connection.
    pub(crate) async fn conn(&self) -> Conn {
        self.sandbox.other().await
    }

    /// The row says that the lease is over, and the holder does not know.
    pub(crate) async fn expire(&self) {
        self.sandbox.run("UPDATE leases SET expires_at_ms = 1").await;
    }

    /// The lease is lost, and the holder knows.
    pub(crate) async fn lose(&self) {
        self.expire().await;
        assert!(!self.lease.renew().await.unwrap());
    }

    /// Somebody else's claim.
    pub(crate) async fn claim(&self) -> ClaimAnswer {
        self.store.claim(&successor(), LONG).await.unwrap()
    }

    /// What is committed.
    pub(crate) async fn ids(&self) -> Vec<u64> {
        self.ask("SELECT id FROM work ORDER BY id").await
    }

    pub(crate) async fn ask<T: FromRow + Send + 'static>(&self, sql: &str) -> Vec<T> {
        self.sandbox.other().await.query(sql).await.unwrap()
    }

    /// How many transactions are open in the sandbox's database, as the server sees it.
    pub(crate) async fn open(&self) -> u64 {
        let sql = format!(
            "SELECT COUNT(*) FROM information_schema.INNODB_TRX AS t JOIN information_schema.PROCESSLIST AS p
             ON p.ID = t.trx_mysql_thread_id WHERE p.DB = '{}'",
            self.sandbox.database
        );
        self.ask(&sql).await[0]
    }

    pub(crate) async fn is_connected(&self, id: u32) -> bool {
        let sql = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id}");
        self.ask::<u64>(&sql).await[0] > 0
    }

    /// Until the server knows of no such session any more.
    pub(crate) async fn gone(&self, id: u32) {
        until("the session is gone", async || !self.is_connected(id).await).await;
    }

    /// A pool of one connection at most, with a setting of its user's.
    pub(crate) fn pool(&self, setup: Vec<&'static str>) -> Pool {
        let size = PoolOpts::default().with_constraints(PoolConstraints::new(1, 1).unwrap());
        let opts = OptsBuilder::from_opts(Opts::from_url(&self.sandbox.url).unwrap()).prefer_socket(false);
        Pool::new(opts.pool_opts(size.with_reset_connection(false)).setup(setup))
    }
}

/// How many named locks its session has; it has none then.
pub(crate) async fn locks(conn: &mut Conn) -> u64 {
    conn.query_first("SELECT RELEASE_ALL_LOCKS()").await.unwrap().unwrap()
}

pub(crate) fn successor() -> Claim {
    Claim {
        name: name(NAME),
        holder: Holder::mint().unwrap(),
        ttl: TTL,
        instance: Instance::named("successor"),
    }
}

pub(crate) fn proxy(sandbox: &Sandbox) -> Proxy {
    let opts = Opts::from_url(&sandbox.url).unwrap();
    Proxy::start((opts.ip_or_hostname(), opts.tcp_port()), Wire::MySql).unwrap()
}

/// A connection by way of a proxy.
pub(crate) async fn through(proxy: &Proxy, sandbox: &Sandbox) -> Conn {
    crate::support::connect(&sandbox.url_of("root", Some(proxy.port()))).await
}

pub(crate) async fn insert(conn: &mut impl Queryable, id: u64) -> Result<(), Error> {
    conn.exec_drop("INSERT INTO work (id) VALUES (?)", (id,)).await
}

/// Polls until it is so, on however slow a machine.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < LONG, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
