//! A lease file of its own for each test, and other people's connections to it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use lease_core::store::{Claim, ClaimAnswer, Effect, StoreError};
use lease_core::{ErrorKind, Holder, Instance, LeaseName, LeaseStore, Term};
use lease_sqlite::SqliteStore;
use rusqlite::Connection;

/// A ttl that no test outlives; what is to expire is expired by hand.
pub(crate) const TTL: Duration = Duration::from_secs(3600);

/// For what must go well, on however slow a machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// For what must be given up.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Journal {
    Wal,
    Delete,
}

pub(crate) const JOURNALS: [Journal; 2] = [Journal::Wal, Journal::Delete];

pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// An empty folder below that one.
    pub(crate) fn empty_in(folder: &Path) -> Self {
        Self { folder: tempfile::tempdir_in(folder).unwrap() }
    }

    /// A folder with a lease file in that mode.
    pub(crate) async fn new(journal: Journal) -> Self {
        let sandbox = Self::empty();
        sandbox.make(&sandbox.path(), journal).await;
        sandbox
    }

    /// Makes a lease file.
    pub(crate) async fn make(&self, path: &Path, journal: Journal) {
        let mode = if journal == Journal::Wal { "wal" } else { "delete" };
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", mode).unwrap();
        connection.execute_batch("CREATE TABLE other (x); ").unwrap();
        SqliteStore::open(path).await.unwrap().migrate().await.unwrap();
        let found: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(found, mode, "the mode of a file that exists is its owner's");
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("leases.db")
    }

    pub(crate) async fn store(&self) -> SqliteStore {
        SqliteStore::open(self.path()).await.unwrap()
    }

    /// Somebody else's connection to the file.
    pub(crate) fn other(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(LONG).unwrap();
        connection
    }

    /// Lets the time of a name's lease run out.
    pub(crate) fn expire(&self, name: &LeaseName) {
        let sql = "UPDATE leases SET expires_at_ms = 1 WHERE name = ?1";
        assert_eq!(self.other().execute(sql, [name.as_str()]).unwrap(), 1);
    }
}

pub(crate) fn name(text: &str) -> LeaseName {
    LeaseName::new(text).unwrap()
}

pub(crate) fn new_claim(text: &str) -> Claim {
    Claim { name: name(text), holder: Holder::mint().unwrap(), ttl: TTL, instance: Instance::named("test") }
}

/// Claims a free name.
pub(crate) async fn take(store: &SqliteStore, text: &str) -> Claim {
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

/// Sees to it that a statement is tried and refused by the lock. On a slow machine a short time may
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

pub(crate) async fn row_term(store: &SqliteStore, text: &str) -> Option<i64> {
    store.inspect(&name(text), LONG).await.unwrap().row.map(|row| row.term.get())
}

/// Polls once.
pub(crate) fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    future.now_or_never().is_none()
}

/// Waits until no connection of this process has a file in the folder open: a store closes its file
/// on its own threads, and SQLite opens no file anew of which it still has a descriptor to close.
#[cfg(target_os = "linux")]
pub(crate) async fn all_closed(sandbox: &Sandbox) {
    eventually("the files are closed", || open_files(sandbox) == 0).await;
}

#[cfg(target_os = "linux")]
pub(crate) fn open_files(sandbox: &Sandbox) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let inside = |to: PathBuf| to.starts_with(sandbox.folder());
    links.filter(|link| std::fs::read_link(link.path()).is_ok_and(inside)).count()
}

/// Waits for something that must come.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < give_up, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
