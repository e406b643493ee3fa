//! A lease table, and ways to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_core::LeaseStore;
use lease_postgres::PostgresStore;
use lease_testkit::{Proxy, Wire};

use crate::common::{Sql, shared, unique};

/// A table of a test's own.
pub(crate) struct World {
    url: String,
    table: String,
    /// What the sessions that come through a proxy call themselves.
    wired: String,
    sql: Sql,
    /// A store that no cut concerns.
    pub(crate) beside: Arc<dyn LeaseStore>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let (url, table, wired) = (shared(), unique("leases"), unique("wired"));
        let store = PostgresStore::options().table(&table).unwrap().open(&url).unwrap();
        store.migrate().await.unwrap();
        let sql = Sql::connect(&url).await;
        Self { url, table, wired, sql, beside: Arc::new(store) }
    }

    /// Leaves nothing on the server. A test that fails leaves its table, to be looked at.
    pub(crate) async fn end(self) {
        self.sql.run(&format!("DROP TABLE {}", self.table)).await;
    }

    /// A proxy before the server, and a store that has made no connection yet and makes all of them through it.
    pub(crate) fn wired(&self) -> (Proxy, Arc<dyn LeaseStore>) {
        let config: tokio_postgres::Config = self.url.parse().unwrap();
        let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else {
            panic!("a test server is reached by TCP")
        };
        let port = config.get_ports()[0];
        let proxy = Proxy::start((host.as_str(), port), Wire::Postgres).unwrap();
        let through = self.url.replace(&format!("{host}:{port}"), &proxy.addr().to_string());
        let url = format!("{through}?sslmode=disable&application_name={}", self.wired);
        let store = PostgresStore::options().table(&self.table).unwrap().open(&url).unwrap();
        (proxy, Arc::new(store))
    }

    /// Waits until the server has ended all that came through proxies, when the stores are gone.
    pub(crate) async fn sessions_have_ended(&self) {
        let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
        let give_up = Instant::now() + Duration::from_secs(120);
        while self.sql.client.query_one(sessions, &[&self.wired]).await.unwrap().get::<_, i64>(0) > 0 {
            assert!(Instant::now() < give_up, "a session of a store that is gone does not end");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
