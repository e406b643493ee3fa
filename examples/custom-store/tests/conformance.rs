//! The contract of `LeaseStore`, on a folder.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use custom_store::FolderStore;
use lease_core::{LeaseName, LeaseStore};
use lease_testkit::{Damage, Subject};
use tempfile::TempDir;

/// A store on a folder of its own.
struct OnFolder {
    place: TempDir,
    store: Arc<FolderStore>,
}

impl OnFolder {
    fn folder(&self) -> PathBuf {
        self.place.path().join("leases")
    }
}

async fn subject() -> OnFolder {
    let place = tempfile::tempdir().unwrap();
    let store = FolderStore::new(place.path().join("leases")).unwrap();
    store.migrate().await.unwrap();
    OnFolder { place, store: Arc::new(store) }
}

#[async_trait]
impl Subject for OnFolder {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.store) as _
    }

    async fn another(&self) -> Arc<dyn LeaseStore> {
        Arc::new(FolderStore::new(self.folder()).unwrap())
    }

    async fn without_table(&self) -> [Arc<dyn LeaseStore>; 2] {
        let empty = tempfile::tempdir_in(self.place.path()).unwrap().keep();
        [(); 2].map(|()| Arc::new(FolderStore::new(&empty).unwrap()) as _)
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn damage(&self, name: &LeaseName, damage: Damage) {
        // Behind the store's back, but not while it writes.
        let lock = fs::File::open(self.folder().join("lock")).unwrap();
        lock.lock().unwrap();
        let path = self.folder().join("leases.tsv");
        let table = fs::read_to_string(&path).unwrap();
        let row = table.lines().find(|line| line.starts_with(&format!("{name}\t"))).expect("a row");
        let damaged = match damage {
            Damage::RowDeleted => String::new(),
            Damage::TermAtLimit => {
                let mut columns: Vec<&str> = row.split('\t').collect();
                let limit = i64::MAX.to_string();
                columns[6] = &limit;
                columns.join("\t") + "\n"
            }
        };
        fs::write(&path, table.replace(&format!("{row}\n"), &damaged)).unwrap();
    }
}

lease_testkit::suite!(subject);
