//! A lease table of its own for each test, and other people's statements on it.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use lease_core::store::{Claim, ClaimAnswer, Effect, Holding, RenewAnswer, StoreError};
use lease_core::{ErrorKind, Holder, Instance, LeaseName, LeaseStore, Term};
use lease_postgres::{PostgresOptions, PostgresStore};

use crate::common::{Sql, shared, unique};

/// A ttl that no test outlives; what is to expire is expired by hand.
pub(crate) const TTL: Duration = Duration::from_secs(3600);

/// For what must go well, on however slow a machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// For what must be given up. A tenth of it is what a slow machine may need to hear why.
pub(crate) const SHORT: Duration = Duration::from_secs(2);

/// A table of a test's own.
pub(crate) struct Sandbox {
    pub(crate) url: String,
    pub(crate) table: String,
}

impl Sandbox {
    /// On the server that all tests share.
    pub(crate) async fn new() -> Self {
        Self::on(&shared()).await
    }

    pub(crate) async fn on(url: &str) -> Self {
        let sandbox = Self::without_table(url);
        sandbox.store().migrate().await.unwrap();
        sandbox
    }

    pub(crate) fn without_table(url: &str) -> Self {
        Self { url: url.to_owned(), table: unique("leases") }
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresStore::options().table(&self.table).unwrap()
    }

    pub(crate) fn store(&self) -> PostgresStore {
        self.options().open(&self.url).unwrap()
    }

    /// Somebody else's connection.
    pub(crate) async fn sql(&self) -> Sql {
        Sql::connect(&self.url).await
    }

    /// Runs statements of somebody else's, in which `leases` stands for the table.
    pub(crate) async fn run(&self, sql: &str) {
        self.sql().await.run(&self.text(sql)).await;
    }

    pub(crate) fn text(&self, sql: &str) -> String {
        sql.replace("leases", &self.table)
    }

    /// Fails a write that runs with settings on which a statement cannot rely.
    pub(crate) async fn watch_settings(&self) {
        let watch = self.text("watch_leases");
        self.run(&format!(
            "CREATE FUNCTION {watch}() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE found text; BEGIN
                 SELECT string_agg(name || ' = ' || setting, ', ') INTO found FROM pg_settings
                 WHERE (name, setting) IN (('transaction_read_only', 'on'), ('synchronous_commit', 'off'), ('lock_timeout', '0'))
                    OR (name = 'transaction_isolation' AND setting <> 'read committed')
                    OR (name = 'statement_timeout' AND setting <> '0')
                    OR (name = 'search_path' AND strpos(setting, 'pg_catalog') > 2);
                 IF found IS NOT NULL THEN RAISE EXCEPTION '%', found; END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER watch BEFORE INSERT OR UPDATE ON leases FOR EACH ROW EXECUTE FUNCTION {watch}()"
        ))
        .await;
    }

    /// `FROM` the sessions whose statement on the table waits for a lock.
    pub(crate) fn who_waits(&self) -> String {
        self.text(
            "FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
             AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'leases'::regclass)",
        )
    }
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
pub(crate) async fn take(store: &PostgresStore, text: &str) -> Claim {
    let claim = new_claim(text);
    granted(store.claim(&claim, LONG).await);
    claim
}

/// Claims a name and gives it back, so that its row is there and free.
pub(crate) async fn take_and_release(store: &PostgresStore, text: &str) {
    let claim = take(store, text).await;
    store.release(&claim.name, &claim.holder, LONG).await.unwrap();
}

#[track_caller]
pub(crate) fn granted(answer: Result<ClaimAnswer, StoreError>) -> Term {
    match answer {
        Ok(ClaimAnswer::Granted(term)) => term,
        other => panic!("not granted: {other:?}"),
    }
}

pub(crate) async fn renews(store: &PostgresStore, held: &Claim) {
    let renewed = store.renew(&held.name, &held.holder, TTL, LONG).await;
    assert!(matches!(renewed, Ok(RenewAnswer::Renewed(_))), "{renewed:?}");
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

/// Sees to it that a statement is tried and refused by a lock. On a slow machine a short time may
/// be over before the first try; then it gets more.
pub(crate) async fn is_busy<T, F>(mut statement: impl FnMut(Duration) -> F)
where
    T: std::fmt::Debug,
    F: Future<Output = Result<T, StoreError>>,
{
    let mut within = SHORT;
    let answer = loop {
        match statement(within).await {
            Err(error) if error.kind() == ErrorKind::Timeout && within < LONG => within *= 4,
            answer => break answer,
        }
    };
    is_harmless(answer, ErrorKind::Busy);
}

/// Polls once.
pub(crate) fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    future.now_or_never().is_none()
}

/// Waits for something that must come.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let give_up = Instant::now() + LONG;
    while !holds().await {
        assert!(Instant::now() < give_up, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Makes a database, whose settings are a test's own.
pub(crate) async fn database(owner: &str, settings: &str) -> String {
    let name = unique("lease_database");
    Sql::connect(owner).await.run(&format!("CREATE DATABASE {name} {settings}")).await;
    with_database(owner, &name)
}

/// The URL with another database in it.
pub(crate) fn with_database(url: &str, name: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("a URL with a database");
    format!("{server}/{name}")
}
