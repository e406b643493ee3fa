//! The engines.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use test_servers::Product;

/// An engine that carries leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the engine of its name")]
pub enum Backend {
    Postgres,
    Mariadb,
    Mysql,
    Sqlite,
}

impl Backend {
    /// Its name, as histories have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
        }
    }

    /// The server that it is, if it is one.
    pub fn product(self) -> Option<Product> {
        match self {
            Self::Postgres => Some(Product::Postgres),
            Self::Mariadb => Some(Product::MariaDb),
            Self::Mysql => Some(Product::MySql),
            Self::Sqlite => None,
        }
    }

    /// The ttl of the leases in a history: short, so that faults are long, and long enough for a busy machine. MySQL and MariaDB
    /// take none that is shorter.
    pub fn ttl(self) -> Duration {
        match self {
            Self::Sqlite => Duration::from_millis(1_500),
            Self::Postgres | Self::Mariadb | Self::Mysql => Duration::from_millis(4_000),
        }
    }
}
