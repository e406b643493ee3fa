//! The backends, each with the crate that tests it.

use clap::ValueEnum;
use test_servers::Product;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    Memory,
    Sqlite,
    Postgres,
    Mariadb,
    Mysql,
}

impl Backend {
    /// The crate whose tests are the backend's.
    pub(crate) const fn package(self) -> &'static str {
        match self {
            Self::Memory => "lease-testkit",
            Self::Sqlite => "lease-sqlite",
            Self::Postgres => "lease-postgres",
            Self::Mariadb | Self::Mysql => "lease-mysql",
        }
    }

    /// What keeps the crate's tests to this backend: those of a product stand in modules of its name.
    pub(crate) const fn skips(self) -> &'static [&'static str] {
        match self {
            Self::Memory | Self::Sqlite | Self::Postgres => &[],
            Self::Mariadb => &["--skip", "mysql::"],
            Self::Mysql => &["--skip", "mariadb::"],
        }
    }

    /// The servers that its tests need.
    pub(crate) const fn products(self) -> &'static [Product] {
        match self {
            Self::Memory | Self::Sqlite => &[],
            Self::Postgres => &[Product::Postgres],
            Self::Mariadb => &[Product::MariaDb],
            Self::Mysql => &[Product::MySql],
        }
    }
}
