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
    /// The user of the sessions that come through a proxy, by no more than the way that leads there from here.
    wired: String,
    from: String,
    password: String,
    sql: Pool,
    /// A store that no cut concerns.
    pub(crate) beside: Arc<dyn LeaseStore>,
}

impl World {
    pub(crate) async fn new(product: Product) -> Self {
        let sandbox = Sandbox::new(product).await;
        let wired = format!("wired_{}", &Holder::mint().unwrap().to_string()[..16]);
        let password = Holder::mint().unwrap().to_string();
        // A proxy comes from where we come from.
        let from = "SELECT SUBSTRING_INDEX(USER(), '@', -1)";
        let from: String = sandbox.other().await.query_first(from).await.unwrap().unwrap();
        sandbox.run(format!("CREATE USER {wired}@'{from}' IDENTIFIED BY '{password}'")).await;
        sandbox.run(format!("GRANT ALL ON {}.* TO {wired}@'{from}'", sandbox.database)).await;
        let (sql, beside) = (Pool::new(sandbox.url.as_str()), Arc::new(sandbox.store()));
        Self { sandbox, wired, from, password, sql, beside }
    }

    /// Leaves nothing on the server. A test that fails leaves all of it, to be looked at.
    pub(crate) async fn end(self) {
        self.sandbox.run(format!("DROP USER {}@'{}'", self.wired, self.from)).await;
        self.sandbox.run(format!("DROP DATABASE {}", self.sandbox.database)).await;
    }

    /// A proxy before the server, and a store that has made no connection yet and makes all of them through it.
    pub(crate) fn wired(&self) -> (Proxy, Arc<dyn LeaseStore>) {
        let opts = Opts::from_url(&self.sandbox.url).unwrap();
        let proxy = Proxy::start((opts.ip_or_hostname(), opts.tcp_port()), Wire::MySql).unwrap();
        let login = format!("{}:{}", self.wired, self.password);
        let url = self.sandbox.url_of(&login, Some(proxy.port()));
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
