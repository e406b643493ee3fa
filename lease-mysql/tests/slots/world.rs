//! A lease table, and ways to it.

use std::sync::Arc;

use lease_core::LeaseStore;
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::Opts;
use lease_testkit::{Proxy, Wire};
use test_servers::Product;

use crate::support::Sandbox;

/// A table of a test's own.
pub(crate) struct World {
    sandbox: Sandbox,
    /// A store that no cut concerns.
    pub(crate) beside: Arc<dyn LeaseStore>,
}

impl World {
    pub(crate) async fn new(product: Product) -> Self {
        let sandbox = Sandbox::new(product).await;
        let beside = Arc::new(sandbox.store());
        Self { sandbox, beside }
    }

    /// Leaves nothing on the server. A test that fails leaves all of it, to be looked at.
    pub(crate) async fn end(self) {
        self.sandbox.run(format!("DROP DATABASE {}", self.sandbox.database)).await;
    }

    /// A proxy before the server, and a store that has made no connection yet and makes all of them through it.
    pub(crate) fn wired(&self) -> (Proxy, Arc<dyn LeaseStore>) {
        let opts = Opts::from_url(&self.sandbox.url).unwrap();
        let proxy = Proxy::start((opts.ip_or_hostname(), opts.tcp_port()), Wire::MySql).unwrap();
        let login = match opts.pass() {
            Some(password) => format!("{}:{password}", opts.user().unwrap()),
            None => opts.user().unwrap().to_owned(),
        };
        let url = self.sandbox.url_of(&login, Some(proxy.port()));
        let store = MysqlStore::open(&format!("{url}?ssl-mode=DISABLED")).unwrap();
        (proxy, Arc::new(store))
    }
}
