//! A lease table, and ways to it.

use std::sync::Arc;

use lease_core::LeaseStore;
use lease_postgres::PostgresStore;
use lease_testkit::{Proxy, Wire};

use crate::common::{Sql, shared, unique};

/// A table of a test's own.
pub(crate) struct World {
    url: String,
    table: String,
    /// A store that no cut concerns.
    pub(crate) beside: Arc<dyn LeaseStore>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let (url, table) = (shared(), unique("leases"));
        let store = PostgresStore::options().table(&table).unwrap().open(&url).unwrap();
        store.migrate().await.unwrap();
        Self { url, table, beside: Arc::new(store) }
    }

    /// Leaves nothing on the server. A test that fails leaves its table, to be looked at.
    pub(crate) async fn end(self) {
        Sql::connect(&self.url).await.run(&format!("DROP TABLE {}", self.table)).await;
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
        let url = format!("{through}?sslmode=disable");
        let store = PostgresStore::options().table(&self.table).unwrap().open(&url).unwrap();
        (proxy, Arc::new(store))
    }
}
