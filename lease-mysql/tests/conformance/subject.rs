//! A store on a database of this run's own.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::StoreError;
use lease_core::{ErrorKind, GuardError, LeaseName, LeaseStore, Tenure};
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::mysql_async::{Conn, Error, Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};
use lease_mysql::{Guarded, MysqlOptions, MysqlStore};
use lease_testkit::{Damage, GuardSubject, GuardedWork, Subject};
use test_servers::{Product, Server, Setup};
use tokio::sync::OnceCell;

/// How the stores of a module come to their connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By a URL.
    Own,
    /// As a user with the documented rights and no others, by a configuration of the driver that, as its own
    /// default is, does not ask the server to count the rows found.
    LeastRights,
    /// A pool of the user's.
    Pool,
}

/// Where the cases of a module run.
pub(crate) struct Place {
    server: fn() -> String,
    way: Way,
    /// The URL of the database of this run, made by the first case.
    url: OnceCell<String>,
    /// One store for all cases, but with a pool of the user's, which dies with the runtime of a case.
    store: OnceLock<Arc<MysqlStore>>,
}

pub(crate) fn shared(product: Product) -> String {
    test_servers::shared(product)
}

/// A server with these defaults, one for all modules that ask for the same. It ends with this process.
pub(crate) fn private(product: Product, defaults: &[&str]) -> String {
    static SERVERS: Mutex<Vec<(Vec<String>, Server)>> = Mutex::new(Vec::new());
    let arguments = defaults.iter().copied().chain(["--max-connections=600"]);
    let arguments: Vec<String> = arguments.map(str::to_owned).collect();
    let mut servers = SERVERS.lock().unwrap();
    let known = servers.iter().find(|(known, server)| *known == arguments && server.product() == product);
    if let Some((_, server)) = known {
        return server.url();
    }
    let server = Server::start(product, Setup { arguments: arguments.clone(), ..Setup::default() });
    let url = server.url();
    servers.push((arguments, server));
    url
}

static COUNT: AtomicU32 = AtomicU32::new(0);

fn count() -> u32 {
    COUNT.fetch_add(1, Ordering::Relaxed)
}

impl Place {
    pub(crate) const fn new(server: fn() -> String, way: Way) -> Self {
        Self { server, way, url: OnceCell::const_new(), store: OnceLock::new() }
    }

    async fn url(&self) -> &str {
        self.url.get_or_init(|| self.make_database()).await
    }

    async fn make_database(&self) -> String {
        let server = self.server;
        let url = tokio::task::spawn_blocking(server).await.unwrap();
        let database = format!("lease_{}_{}", process::id(), count());
        let mut root = Conn::from_url(&url).await.unwrap();
        // Texts of another character set, unless a column says otherwise.
        root.query_drop(format!("CREATE DATABASE {database} CHARACTER SET latin1")).await.unwrap();
        let bare = url.rsplit_once('/').unwrap().0;
        // The program's own, of the guard suite.
        root.query_drop(format!("CREATE TABLE {database}.notes (note VARCHAR(100) NOT NULL)")).await.unwrap();
        if self.way != Way::LeastRights {
            return format!("{bare}/{database}");
        }
        let statements = [
            // Twice, for some servers have a nobody at localhost who would be taken for it.
            format!(
                "CREATE USER {database} IDENTIFIED BY 'pass word', {database}@localhost IDENTIFIED BY 'pass word'"
            ),
            format!(
                "GRANT SELECT, INSERT, UPDATE, CREATE, ALTER ON {database}.* TO {database}, {database}@localhost"
            ),
        ];
        for statement in statements {
            root.query_drop(statement).await.unwrap();
        }
        let host = bare.rsplit_once('@').unwrap().1;
        format!("mysql://{database}:pass%20word@{host}/{database}")
    }

    fn open(&self, url: &str, options: MysqlOptions) -> MysqlStore {
        let builder = || OptsBuilder::from_opts(Opts::from_url(url).unwrap()).prefer_socket(false);
        let store = match self.way {
            Way::Own => options.open(url),
            Way::LeastRights => options.open_config(builder().client_found_rows(false)),
            Way::Pool => {
                // Some are kept and used again after a reset, as most programs have it, and some are closed.
                let size = PoolOpts::new().with_constraints(PoolConstraints::new(4, 8).unwrap());
                // What people set, and no statement of ours may rely on.
                let theirs = [
                    "SET SESSION sql_select_limit = 3, sql_safe_updates = 1, max_join_size = 1, sql_big_selects = 0",
                    "SET SESSION completion_type = 'RELEASE'",
                    "SET NAMES latin1",
                ];
                options.open_pool(Pool::new(builder().pool_opts(size).setup(theirs.to_vec())))
            }
        };
        store.unwrap()
    }
}

/// What a case works on.
pub(crate) struct OnServer {
    place: &'static Place,
    url: String,
    store: Arc<MysqlStore>,
}

impl OnServer {
    pub(crate) async fn on(place: &'static Place) -> Self {
        let url = place.url().await.to_owned();
        let open = || Arc::new(place.open(&url, MysqlStore::options()));
        let store = if place.way == Way::Pool { open() } else { Arc::clone(place.store.get_or_init(open)) };
        store.migrate().await.unwrap();
        Self { place, url, store }
    }
}

#[async_trait]
impl Subject for OnServer {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.store) as _
    }

    async fn another(&self) -> Arc<dyn LeaseStore> {
        Arc::new(self.place.open(&self.url, MysqlStore::options()))
    }

    async fn without_table(&self) -> [Arc<dyn LeaseStore>; 2] {
        let table = format!("none_{}", count());
        let open = || self.place.open(&self.url, MysqlStore::options().table(&table).unwrap());
        [Arc::new(open()), Arc::new(open())]
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn damage(&self, name: &LeaseName, damage: Damage) {
        let sql = match damage {
            Damage::RowDeleted => "DELETE FROM leases WHERE name = ?",
            Damage::TermAtLimit => "UPDATE leases SET term = 9223372036854775807 WHERE name = ?",
        };
        let database = self.url.rsplit_once('/').unwrap().1;
        let root = (self.place.server)();
        let mut conn =
            Conn::from_url(format!("{}/{database}", root.rsplit_once('/').unwrap().0)).await.unwrap();
        conn.query_drop("SET autocommit = 1").await.unwrap();
        conn.exec_drop(sql, (name.as_str(),)).await.unwrap();
        assert_eq!(conn.affected_rows(), 1);
        conn.disconnect().await.unwrap();
    }
}

#[async_trait]
impl GuardSubject for OnServer {
    async fn begin(&self, tenure: &Tenure) -> Result<Box<dyn GuardedWork>, GuardError> {
        let transaction = self.store.guard(tenure).begin(self.connect().await).await?;
        Ok(Box::new(Work(transaction)))
    }

    async fn committed(&self, prefix: &str) -> Vec<String> {
        let mut conn = self.connect().await;
        // At the level of some of these servers it would wait for whoever writes.
        conn.query_drop("SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
        conn.exec("SELECT note FROM notes WHERE note LIKE CONCAT(?, '%')", (prefix,)).await.unwrap()
    }
}

impl OnServer {
    async fn connect(&self) -> Conn {
        Conn::new(OptsBuilder::from_opts(Opts::from_url(&self.url).unwrap()).prefer_socket(false))
            .await
            .unwrap()
    }
}

struct Work(Guarded);

#[async_trait]
impl GuardedWork for Work {
    async fn write(&mut self, note: &str) -> Result<(), GuardError> {
        let written = self.0.exec_drop("INSERT INTO notes (note) VALUES (?)", (note,)).await;
        written.map_err(|error| match error {
            Error::Other(refused) => *refused.downcast().unwrap(),
            error => GuardError::Failed(StoreError::new(ErrorKind::Other, error.to_string())),
        })
    }

    async fn commit(self: Box<Self>) -> Result<(), GuardError> {
        self.0.commit().await.map(drop)
    }

    async fn roll_back(self: Box<Self>) -> Result<(), GuardError> {
        self.0.rollback().await.map(drop)
    }
}
