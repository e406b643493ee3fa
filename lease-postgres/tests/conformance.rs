//! The contract of `LeaseStore`, on connections of the store's own, under hostile defaults, through a pooler,
//! with the least rights, and on a pool of the program's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lease_core::{LeaseName, LeaseStore};
use lease_postgres::{PostgresOptions, PostgresStore};
use lease_testkit::{Damage, Subject};
use tokio::sync::OnceCell;

#[path = "common/mod.rs"]
mod common;

use common::{Sql, unique};

/// How a setup's processes open their stores.
type Open = fn(PostgresOptions, &str) -> PostgresStore;

/// One setup, whose cases share its table and, for their connections are few, its two stores.
struct Shared {
    /// For the statements of the database's own.
    owner: String,
    /// For the stores.
    url: String,
    table: String,
    open: Open,
    stores: [Arc<PostgresStore>; 2],
}

/// A case's own hold on it.
struct Case(&'static Shared);

impl Shared {
    /// `migrate` is done by the owner where the stores may not.
    async fn new(owner: &str, url: &str, open: Open) -> Self {
        let table = unique("leases");
        let owners = PostgresStore::options().table(&table).unwrap().open(owner).unwrap();
        owners.migrate().await.unwrap();
        let store = || Arc::new(open(PostgresStore::options().table(&table).unwrap(), url));
        let stores = [store(), store()];
        Self { owner: owner.to_owned(), url: url.to_owned(), table, open, stores }
    }
}

/// Connections of the store's own.
fn own(options: PostgresOptions, url: &str) -> PostgresStore {
    options.open(url).unwrap()
}

#[async_trait]
impl Subject for Case {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.0.stores[0]) as _
    }

    async fn another(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.0.stores[1]) as _
    }

    async fn without_table(&self) -> [Arc<dyn LeaseStore>; 2] {
        static TABLES: AtomicU32 = AtomicU32::new(0);
        let table = format!("{}_{}", self.0.table, TABLES.fetch_add(1, Ordering::Relaxed));
        [(); 2].map(|()| {
            let options = PostgresStore::options().table(&table).unwrap();
            Arc::new((self.0.open)(options, &self.0.url)) as _
        })
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn damage(&self, name: &LeaseName, damage: Damage) {
        let what = match damage {
            Damage::RowDeleted => format!("DELETE FROM {}", self.0.table),
            Damage::TermAtLimit => format!("UPDATE {} SET term = 9223372036854775807", self.0.table),
        };
        let sql = Sql::connect(&self.0.owner).await;
        let changed = sql.client.execute(&format!("{what} WHERE name = $1"), &[&name.as_str()]).await;
        assert_eq!(changed.unwrap(), 1);
    }
}

mod own_pool {
    use super::*;

    static SHARED: OnceCell<Shared> = OnceCell::const_new();

    async fn subject() -> Case {
        let url = common::shared();
        Case(SHARED.get_or_init(|| async { Shared::new(&url, &url, own).await }).await)
    }

    lease_testkit::suite!(subject);
}
