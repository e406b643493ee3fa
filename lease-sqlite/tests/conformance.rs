//! The contract of `LeaseStore`, on a file with a write-ahead log and on one with a rollback journal.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::StoreError;
use lease_core::{ErrorKind, GuardError, LeaseName, LeaseStore, Tenure};
use lease_sqlite::{Guarded, SqliteStore};
use lease_testkit::{Damage, GuardSubject, GuardedWork, Subject};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};

/// A store on a file of its own.
struct OnFile {
    store: Arc<SqliteStore>,
    folder: TempDir,
    journal: &'static str,
}

impl OnFile {
    async fn new(journal: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder, "leases", journal).await;
        store.migrate().await.unwrap();
        Self { store: Arc::new(store), folder, journal }
    }
}

/// Opens a file of that name, which gets that journal if it is new.
async fn open(folder: &TempDir, file: &str, journal: &str) -> SqliteStore {
    let path = folder.path().join(format!("{file}.db"));
    let made = Connection::open(&path).unwrap();
    made.busy_timeout(Duration::from_secs(60)).unwrap();
    if !made.table_exists(None, "other").unwrap() {
        made.pragma_update(None, "journal_mode", journal).unwrap();
        made.execute_batch("CREATE TABLE other (x)").unwrap();
    }
    let store = SqliteStore::open(&path).await.unwrap();
    let found: String = made.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(found, journal);
    store
}

#[async_trait]
impl Subject for OnFile {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.store) as _
    }

    async fn another(&self) -> Arc<dyn LeaseStore> {
        Arc::new(open(&self.folder, "leases", self.journal).await)
    }

    async fn without_table(&self) -> [Arc<dyn LeaseStore>; 2] {
        // One more each time, so that no two calls share it.
        let file = format!("empty-{}", self.folder.path().read_dir().unwrap().count());
        let one = open(&self.folder, &file, self.journal).await;
        [Arc::new(one), Arc::new(open(&self.folder, &file, self.journal).await)]
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn damage(&self, name: &LeaseName, damage: Damage) {
        let sql = match damage {
            Damage::RowDeleted => "DELETE FROM leases WHERE name = ?1",
            Damage::TermAtLimit => "UPDATE leases SET term = 9223372036854775807 WHERE name = ?1",
        };
        let other = Connection::open(self.folder.path().join("leases.db")).unwrap();
        other.busy_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(other.execute(sql, [name.as_str()]).unwrap(), 1);
    }
}

#[async_trait]
impl GuardSubject for OnFile {
    async fn begin(&self, tenure: &Tenure) -> Result<Box<dyn GuardedWork>, GuardError> {
        let (path, guard) = (self.folder.path().join("leases.db"), self.store.guard(tenure));
        let (orders, to_do) = mpsc::unbounded_channel();
        let (begun, has_begun) = oneshot::channel();
        std::thread::spawn(move || {
            let mut connection = Connection::open(path).unwrap();
            match guard.begin(&mut connection) {
                Err(error) => drop(begun.send(Err(error))),
                Ok(tx) if begun.send(Ok(())).is_ok() => serve(tx, to_do),
                // Dropped by whoever began it.
                Ok(_) => {}
            }
        });
        has_begun.await.unwrap()?;
        Ok(Box::new(OnThread(orders)))
    }

    async fn committed(&self, prefix: &str) -> Vec<String> {
        let other = Connection::open(self.folder.path().join("leases.db")).unwrap();
        other.busy_timeout(Duration::from_secs(60)).unwrap();
        let sql = "SELECT x FROM other WHERE substr(x, 1, length(?1)) = ?1";
        let mut statement = other.prepare(sql).unwrap();
        let notes = statement.query_map([prefix], |row| row.get(0)).unwrap();
        notes.collect::<Result<_, _>>().unwrap()
    }

    fn one_writer(&self) -> bool {
        true
    }
}

/// A transaction on a thread of its own: it borrows its connection, so both live on a stack.
struct OnThread(mpsc::UnboundedSender<(Order, Answer)>);

type Answer = oneshot::Sender<Result<(), GuardError>>;

enum Order {
    Write(String),
    Commit,
    RollBack,
}

fn serve(tx: Guarded<'_>, mut orders: mpsc::UnboundedReceiver<(Order, Answer)>) {
    while let Some((order, answer)) = orders.blocking_recv() {
        match order {
            Order::Write(note) => {
                let written = tx.execute("INSERT INTO other VALUES (?1)", [note]).map(drop);
                drop(answer.send(written.map_err(failed)));
            }
            Order::Commit => return drop(answer.send(tx.commit())),
            Order::RollBack => return drop(answer.send(tx.rollback())),
        }
    }
}

fn failed(error: rusqlite::Error) -> GuardError {
    GuardError::Failed(StoreError::new(ErrorKind::Other, error.to_string()).with_source(error))
}

impl OnThread {
    async fn ask(&self, order: Order) -> Result<(), GuardError> {
        let (answer, answered) = oneshot::channel();
        assert!(self.0.send((order, answer)).is_ok());
        answered.await.unwrap()
    }
}

#[async_trait]
impl GuardedWork for OnThread {
    async fn write(&mut self, note: &str) -> Result<(), GuardError> {
        self.ask(Order::Write(note.to_owned())).await
    }

    async fn commit(self: Box<Self>) -> Result<(), GuardError> {
        self.ask(Order::Commit).await
    }

    async fn roll_back(self: Box<Self>) -> Result<(), GuardError> {
        self.ask(Order::RollBack).await
    }
}

mod write_ahead_log {
    use super::*;

    async fn subject() -> OnFile {
        OnFile::new("wal").await
    }

    lease_testkit::suite!(subject);
    lease_testkit::guard_suite!(subject);
}

mod rollback_journal {
    use super::*;

    async fn subject() -> OnFile {
        OnFile::new("delete").await
    }

    lease_testkit::suite!(subject);
    lease_testkit::guard_suite!(subject);
}
