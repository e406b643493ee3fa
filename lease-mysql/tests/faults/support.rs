//! A database of its own for each test, and other people's connections to it.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lease_core::store::{Claim, ClaimAnswer, Effect, Holding, StoreError};
use lease_core::{ErrorKind, Holder, Instance, LeaseName, LeaseStore, Term};
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::mysql_async::{Conn, Opts, OptsBuilder};
use test_servers::{Product, Server, Setup, shared};

/// Runs each of these `async fn(Product)` on both, as `mysql::name` and `mariadb::name`.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod mysql {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(test_servers::Product::MySql).await; })*
        }
        mod mariadb {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(test_servers::Product::MariaDb).await; })*
        }
    };
}
pub(crate) use on_both;

/// A ttl that no test outlives; what is to expire is expired by hand.
pub(crate) const TTL: Duration = Duration::from_secs(7200);

/// For what must go well, on however slow a machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// For what must be given up; a lock wait of a second is within it.
pub(crate) const SHORT: Duration = Duration::from_millis(2500);

/// A database of its own.
pub(crate) struct Sandbox {
    /// The superuser's.
    pub(crate) url: String,
    pub(crate) database: String,
}

impl Sandbox {
    /// On the server that all tests share, with the table.
    pub(crate) async fn new(product: Product) -> Self {
        let sandbox = Self::empty(&shared_url(product).await).await;
        sandbox.store().migrate().await.unwrap();
        sandbox
    }

    /// On the server at this URL, without the table.
    pub(crate) async fn empty(url: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let database = format!("leasefaults_{}_{n}", process::id());
        let mut root = connect(url).await;
        root.query_drop(format!("CREATE DATABASE {database}")).await.unwrap();
        Self { url: format!("{}/{database}", url.rsplit_once('/').unwrap().0), database }
    }

    pub(crate) fn store(&self) -> MysqlStore {
        MysqlStore::open(&self.url).unwrap()
    }

    /// The URL for another user, by way of another port.
    pub(crate) fn url_of(&self, login: &str, port: Option<u16>) -> String {
        let opts = Opts::from_url(&self.url).unwrap();
        let port = port.unwrap_or(opts.tcp_port());
        format!("mysql://{login}@{}:{port}/{}", opts.ip_or_hostname(), self.database)
    }

    /// Somebody else's connection.
    pub(crate) async fn other(&self) -> Conn {
        connect(&self.url).await
    }

    /// What somebody else does.
    pub(crate) async fn run(&self, sql: impl AsRef<str>) {
        self.other().await.query_drop(sql.as_ref()).await.unwrap();
    }
}

pub(crate) async fn shared_url(product: Product) -> String {
    tokio::task::spawn_blocking(move || shared(product)).await.unwrap()
}

pub(crate) async fn private(product: Product, setup: Setup) -> Server {
    tokio::task::spawn_blocking(move || Server::start(product, setup)).await.unwrap()
}

/// A server with these options.
pub(crate) async fn with_options(product: Product, options: &[&str]) -> Server {
    let arguments = options.iter().map(ToString::to_string).collect();
    private(product, Setup { arguments, ..Setup::default() }).await
}

pub(crate) async fn connect(url: &str) -> Conn {
    let opts = OptsBuilder::from_opts(Opts::from_url(url).unwrap()).prefer_socket(false);
    Conn::new(opts).await.unwrap()
}

pub(crate) fn name(text: &str) -> LeaseName {
    LeaseName::new(text).unwrap()
}

pub(crate) fn new_claim(text: &str) -> Claim {
    Claim { name: name(text), holder: Holder::mint().unwrap(), ttl: TTL, instance: Instance::named("test") }
}

pub(crate) fn holding(claim: &Claim) -> Holding {
    Holding { name: claim.name.clone(), holder: claim.holder }
}

/// Claims a free name.
pub(crate) async fn take(store: &MysqlStore, text: &str) -> Claim {
    let claim = new_claim(text);
    granted(store.claim(&claim, LONG).await);
    claim
}

#[track_caller]
pub(crate) fn granted(answer: Result<ClaimAnswer, StoreError>) -> Term {
    match answer {
        Ok(ClaimAnswer::Granted(term)) => term,
        other => panic!("not granted: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn is_err<T: std::fmt::Debug>(answer: Result<T, StoreError>, kind: ErrorKind) -> StoreError {
    let error = answer.expect_err("should have failed");
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(!error.to_string().contains('\n'), "more than one line: {error}");
    error
}

/// An error of a statement that changed nothing.
#[track_caller]
pub(crate) fn is_harmless<T: std::fmt::Debug>(answer: Result<T, StoreError>, kind: ErrorKind) -> StoreError {
    let error = is_err(answer, kind);
    assert_eq!(error.effect(), Effect::None, "{error:?}");
    error
}

/// Sees to it that a statement is tried and fails so, without an effect. On a slow machine a short time may be over before that;
/// then it gets more.
pub(crate) async fn fails<T, F>(kind: ErrorKind, mut statement: impl FnMut(Duration) -> F)
where
    T: std::fmt::Debug,
    F: Future<Output = Result<T, StoreError>>,
{
    let mut within = SHORT;
    let answer = loop {
        match statement(within).await {
            Err(error) if error.kind() != kind && error.kind().retry_helps() && within < LONG => within *= 3,
            answer => break answer,
        }
    };
    is_harmless(answer, kind);
}
