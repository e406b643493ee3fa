//! The contract of `LeaseStore`, on connections of the store's own, under hostile defaults, through a pooler,
//! with the least rights, and on a pool of the program's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::StoreError;
use lease_core::{ErrorKind, GuardError, LeaseName, LeaseStore, Tenure};
use lease_postgres::{Guarded, PostgresOptions, PostgresStore};
use lease_testkit::{Damage, GuardSubject, GuardedWork, Subject};
use tokio::sync::OnceCell;
use tokio_postgres::Client;

#[path = "common/mod.rs"]
mod common;

use common::{Sql, unique};

/// How a setup's processes open their stores.
type Open = fn(PostgresOptions, &str) -> PostgresStore;

/// One setup, whose cases share its table.
struct Shared {
    /// For the statements of the database's own.
    owner: String,
    /// For stores that make a table.
    maker: String,
    /// For the program's transactions.
    program: String,
    table: String,
    open: Open,
    /// For all cases, so that connections stay few.
    stores: [Arc<PostgresStore>; 2],
}

/// What a case has of it.
struct Case {
    shared: &'static Shared,
    stores: [Arc<PostgresStore>; 2],
}

impl Shared {
    /// A table that its owner makes. Tables that cases make are made by `maker`, for the stores may lack the right.
    async fn new(owner: &str, maker: &str, url: &str, open: Open) -> Self {
        let table = unique("leases");
        let owners = PostgresStore::options().table(&table).unwrap().open(owner).unwrap();
        owners.migrate().await.unwrap();
        Sql::connect(owner).await.run(&format!("CREATE TABLE {table}_notes (note text)")).await;
        let stores = two_stores(open, &table, url);
        let [owner, maker, program] = [owner, maker, url].map(str::to_owned);
        Self { owner, maker, program, table, open, stores }
    }
}

impl From<&'static Shared> for Case {
    fn from(shared: &'static Shared) -> Self {
        Self { shared, stores: shared.stores.each_ref().map(Arc::clone) }
    }
}

fn two_stores(open: Open, table: &str, url: &str) -> [Arc<PostgresStore>; 2] {
    [(); 2].map(|()| Arc::new(open(PostgresStore::options().table(table).unwrap(), url)))
}

/// Connections of the store's own.
fn own(options: PostgresOptions, url: &str) -> PostgresStore {
    options.open(url).unwrap()
}

#[async_trait]
impl Subject for Case {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.stores[0]) as _
    }

    async fn another(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.stores[1]) as _
    }

    async fn without_table(&self) -> [Arc<dyn LeaseStore>; 2] {
        static TABLES: AtomicU32 = AtomicU32::new(0);
        let Shared { table, open, maker, .. } = self.shared;
        let table = format!("{table}_{}", TABLES.fetch_add(1, Ordering::Relaxed));
        two_stores(*open, &table, maker).map(|store| store as _)
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn damage(&self, name: &LeaseName, damage: Damage) {
        let what = match damage {
            Damage::RowDeleted => format!("DELETE FROM {}", self.shared.table),
            Damage::TermAtLimit => format!("UPDATE {} SET term = 9223372036854775807", self.shared.table),
        };
        let sql = Sql::connect(&self.shared.owner).await;
        let changed = sql.client.execute(&format!("{what} WHERE name = $1"), &[&name.as_str()]).await;
        assert_eq!(changed.unwrap(), 1);
    }
}

#[async_trait]
impl GuardSubject for Case {
    async fn begin(&self, tenure: &Tenure) -> Result<Box<dyn GuardedWork>, GuardError> {
        let Sql { client } = Sql::connect(&self.shared.program).await;
        let notes = format!("{}_notes", self.shared.table);
        Ok(Box::new(Work { tx: self.stores[0].guard(tenure).begin(client).await?, notes }))
    }

    async fn committed(&self, prefix: &str) -> Vec<String> {
        let sql = Sql::connect(&self.shared.owner).await;
        let notes = format!("SELECT note FROM {}_notes WHERE starts_with(note, $1)", self.shared.table);
        sql.client.query(&notes, &[&prefix]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }
}

/// A guarded transaction that writes notes.
struct Work {
    tx: Guarded<Client>,
    notes: String,
}

#[async_trait]
impl GuardedWork for Work {
    async fn write(&mut self, note: &str) -> Result<(), GuardError> {
        let insert = format!("INSERT INTO {} VALUES ('{note}')", self.notes);
        self.tx.batch_execute(&insert).await.map_err(|error| {
            GuardError::Failed(StoreError::new(ErrorKind::Other, "the note was refused").with_source(error))
        })
    }

    async fn commit(self: Box<Self>) -> Result<(), GuardError> {
        self.tx.commit().await.map(drop)
    }

    async fn roll_back(self: Box<Self>) -> Result<(), GuardError> {
        self.tx.rollback().await.map(drop)
    }
}

mod own_pool {
    use super::*;

    static SHARED: OnceCell<Shared> = OnceCell::const_new();

    async fn subject() -> Case {
        let url = common::shared();
        SHARED.get_or_init(|| async { Shared::new(&url, &url, &url, own).await }).await.into()
    }

    lease_testkit::suite!(subject);
    lease_testkit::guard_suite!(subject);
}

/// Every default that could change what a statement does, for the role that the store logs in as.
mod hostile_defaults {
    use super::*;

    static SHARED: OnceCell<Shared> = OnceCell::const_new();

    async fn subject() -> Case {
        let make = || async {
            let owner = common::shared();
            let role = common::hostile_role(&owner).await;
            Shared::new(&owner, &role.url, &role.url, own).await
        };
        SHARED.get_or_init(make).await.into()
    }

    lease_testkit::suite!(subject);
}

/// PgBouncer in transaction mode, in front of a server with hostile defaults.
mod pgbouncer {
    use std::sync::LazyLock;

    use test_servers::{PgBouncer, Product, Server, Setup};

    use super::*;

    static SERVERS: LazyLock<(Server, PgBouncer)> = LazyLock::new(|| {
        let words =
            common::HOSTILE.iter().flat_map(|setting| ["-c".to_owned(), setting.replace([' ', '\''], "")]);
        let server =
            Server::start(Product::Postgres, Setup { arguments: words.collect(), ..Setup::default() });
        let pooler = PgBouncer::start(&server);
        (server, pooler)
    });
    static SHARED: OnceCell<Shared> = OnceCell::const_new();

    async fn subject() -> Case {
        let (server, pooler) = &*SERVERS;
        let plain = format!("{}?options=-c%20default_transaction_read_only%3Doff", server.url());
        let plain = format!("{plain}%20-c%20statement_timeout%3D0%20-c%20lock_timeout%3D0");
        SHARED
            .get_or_init(|| async { Shared::new(&plain, &pooler.url(), &pooler.url(), own).await })
            .await
            .into()
    }

    lease_testkit::suite!(subject);
}

/// A role with the documented rights and no other; the table is its owner's.
mod least_rights {
    use super::*;

    static SHARED: OnceCell<Shared> = OnceCell::const_new();

    async fn subject() -> Case {
        let make = || async {
            let owner = common::shared();
            let (role, sql) = (common::role(&owner, "").await, Sql::connect(&owner).await);
            let shared = Shared::new(&owner, &owner, &role.url, own).await;
            let Shared { table, .. } = &shared;
            sql.run(&format!("GRANT SELECT, INSERT, UPDATE ON {table} TO {}", role.name)).await;
            sql.run(&format!("GRANT INSERT ON {table}_notes TO {}", role.name)).await;
            shared
        };
        SHARED.get_or_init(make).await.into()
    }

    lease_testkit::suite!(subject);
    lease_testkit::guard_suite!(subject);
}

/// A pool of the program's, whose sessions are as they come. It lives on the runtime of its test, so each case
/// has pools of its own.
mod program_pool {
    use lease_postgres::deadpool_postgres::{Manager, Pool};
    use tokio_postgres::NoTls;

    use super::*;

    static SHARED: OnceCell<Shared> = OnceCell::const_new();

    fn on_pool(options: PostgresOptions, url: &str) -> PostgresStore {
        let manager = Manager::new(url.parse().unwrap(), NoTls);
        options.open_pool(Pool::builder(manager).max_size(4).build().unwrap()).unwrap()
    }

    async fn subject() -> Case {
        let make = || async {
            let owner = common::shared();
            let role = common::hostile_role(&owner).await;
            Shared::new(&owner, &role.url, &role.url, on_pool).await
        };
        let shared = SHARED.get_or_init(make).await;
        Case { shared, stores: two_stores(on_pool, &shared.table, &shared.maker) }
    }

    lease_testkit::suite!(subject);
}
