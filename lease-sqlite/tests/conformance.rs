//! The contract of `LeaseStore`, on a file with a write-ahead log and on one with a rollback journal.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::{LeaseName, LeaseStore};
use lease_sqlite::SqliteStore;
use lease_testkit::{Damage, Subject};
use rusqlite::Connection;
use tempfile::TempDir;

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

mod write_ahead_log {
    use super::*;

    async fn subject() -> OnFile {
        OnFile::new("wal").await
    }

    lease_testkit::suite!(subject);
}

mod rollback_journal {
    use super::*;

    async fn subject() -> OnFile {
        OnFile::new("delete").await
    }

    lease_testkit::suite!(subject);
}
