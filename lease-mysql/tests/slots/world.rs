//! A lease table, and ways to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_core::{Holder, LeaseStore};
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::mysql_async::{Opts, Pool};
use lease_testkit::{Proxy, Wire};
use test_servers::Product;

use crate::support::Sandbox;

/// A table of a test's own.
pub(crate) struct World {
    sandbox: Sandbox,
    /// The login of the sessions that come through a proxy.
    wired: String,
    sql: Pool,
    /// A store that no cut concerns.
    pub(crate) beside: Arc<dyn LeaseStore>,
}

impl World {
    pub(crate) async fn new(product: Product) -> Self {
        let sandbox = Sandbox::new(product).await;
        let wired = format!("wired_{}", &Holder::mint().unwrap().to_string()[..16]);
        // A server that has anonymous users takes one from its own machine for those.
        for host in ["%", "localhost"] {
            sandbox.run(format!("CREATE USER {wired}@'{host}' IDENTIFIED BY ''")).await;
            sandbox.run(format!("GRANT ALL ON {}.* TO {wired}@'{host}'", sandbox.database)).await;
        }
        let (sql, beside) = (Pool::new(sandbox.url.as_str()), Arc::new(sandbox.store()));
        Self { sandbox, wired, sql, beside }
    }

    /// A proxy before the server, and a store that has made no connection yet and makes all of them through it.
    pub(crate) fn wired(&self) -> (Proxy, Arc<dyn LeaseStore>) {
        let opts = Opts::from_url(&self.sandbox.url).unwrap();
        let proxy = Proxy::start((opts.ip_or_hostname(), opts.tcp_port()), Wire::MySql).unwrap();
        let url = self.sandbox.url_of(&self.wired, Some(proxy.port()));
        let store = MysqlStore::open(&format!("{url}?ssl-mode=DISABLED")).unwrap();
        (proxy, Arc::new(store))
    }

    /// Waits until the server has ended all that came through proxies, when the stores are gone.
    pub(crate) async fn sessions_have_ended(&self) {
        let sessions =
            format!("SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{}'", self.wired);
        let give_up = Instant::now() + Duration::from_secs(120);
        let mut conn = self.sql.get_conn().await.unwrap();
        while conn.query_first::<u64, _>(&sessions).await.unwrap() != Some(0) {
            assert!(Instant::now() < give_up, "a session of a store that is gone does not end");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
