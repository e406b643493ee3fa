//! Where leases and ledger are, and the stores of each engine.

use std::sync::Arc;

use lease_core::LeaseStore;
use lease_mysql::MysqlStore;
use lease_postgres::PostgresStore;
use lease_sqlite::SqliteStore;
use serde::{Deserialize, Serialize};

use super::Failure;
use super::backend::Backend;

/// A database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The engine.
    pub backend: Backend,
    /// The URL of the server, or the path of the file.
    pub at: String,
}

/// A store of any engine, which knows how to guard.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    Postgres(PostgresStore),
    Mysql(MysqlStore),
    Sqlite(SqliteStore),
}

impl Place {
    pub(crate) fn new(backend: Backend, at: impl Into<String>) -> Self {
        Self { backend, at: at.into() }
    }

    /// A store of its own, as each process has one.
    pub(crate) async fn store(&self) -> Result<Store, Failure> {
        Ok(match self.backend {
            Backend::Postgres => Store::Postgres(PostgresStore::open(&self.at)?),
            Backend::Mariadb | Backend::Mysql => Store::Mysql(MysqlStore::open(&self.at)?),
            // A worker makes no file: it would be another one than that which is away.
            Backend::Sqlite => Store::Sqlite(SqliteStore::options().create(false).open(&self.at).await?),
        })
    }
}

impl Store {
    pub(crate) fn shared(&self) -> Arc<dyn LeaseStore> {
        match self {
            Self::Postgres(store) => Arc::new(store.clone()),
            Self::Mysql(store) => Arc::new(store.clone()),
            Self::Sqlite(store) => Arc::new(store.clone()),
        }
    }
}
