//! The engines, and the stores of each.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use lease_core::LeaseStore;
use lease_mysql::MysqlStore;
use lease_postgres::PostgresStore;
use lease_sqlite::SqliteStore;
use test_servers::{Product, shared};

use crate::Outcome;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
    Mariadb,
    Mysql,
}

/// Where an engine's leases are. Another run on the same server finds the same table, so that none piles up.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) engine: Engine,
    /// The path of the file, or the URL of the server.
    pub(crate) at: String,
    pub(crate) table: String,
}

const TABLE: &str = "lease_bench";

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
        }
    }

    /// A file in that folder, or a server that is found or started as the tests do; with the table.
    pub(crate) async fn place(self, folder: &Path) -> Outcome<Place> {
        let at = match self {
            Self::Sqlite => folder.join("leases.db").display().to_string(),
            Self::Postgres => shared(Product::Postgres),
            Self::Mariadb => shared(Product::MariaDb),
            Self::Mysql => shared(Product::MySql),
        };
        let place = Place { engine: self, at, table: TABLE.to_owned() };
        place.store().await?.migrate().await?;
        Ok(place)
    }
}

impl Place {
    /// Another table, in a file of its own where the engine has one for all.
    pub(crate) fn apart(&self, what: &str) -> Self {
        let at = match self.engine {
            Engine::Sqlite => Path::new(&self.at).with_file_name(format!("{what}.db")).display().to_string(),
            Engine::Postgres | Engine::Mariadb | Engine::Mysql => self.at.clone(),
        };
        Self { engine: self.engine, at, table: format!("{TABLE}_{what}") }
    }

    /// A store of its own, as each process has one.
    pub(crate) async fn store(&self) -> Outcome<Arc<dyn LeaseStore>> {
        Ok(match self.engine {
            Engine::Sqlite => Arc::new(self.sqlite().await?),
            Engine::Postgres => Arc::new(self.postgres()?),
            Engine::Mariadb | Engine::Mysql => Arc::new(self.mysql()?),
        })
    }

    pub(crate) async fn sqlite(&self) -> Outcome<SqliteStore> {
        Ok(SqliteStore::options().table(&self.table)?.open(&self.at).await?)
    }

    pub(crate) fn postgres(&self) -> Outcome<PostgresStore> {
        Ok(PostgresStore::options().table(&self.table)?.open(&self.at)?)
    }

    pub(crate) fn mysql(&self) -> Outcome<MysqlStore> {
        Ok(MysqlStore::options().table(&self.table)?.open(&self.at)?)
    }
}

/// A name that no earlier run has used, nor this one: sixteen begin within the same microsecond now and then.
pub(crate) fn fresh_name(what: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("{what} {} {} {}", std::process::id(), now.as_micros(), COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_name_comes_once() {
        let names: std::collections::HashSet<_> = (0..1_000).map(|_| fresh_name("a")).collect();
        assert_eq!(names.len(), 1_000);
    }
}
