use std::fmt;

/// A database server that the tests run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Product {
    /// PostgreSQL 14 or later.
    Postgres,
    /// MariaDB 10.11 or later.
    MariaDb,
    /// MySQL 8.4 or later.
    MySql,
}

impl Product {
    /// Every product.
    pub const ALL: [Self; 3] = [Self::Postgres, Self::MariaDb, Self::MySql];

    /// The short name in lower case, as commands take it: `postgres`, `mariadb`, `mysql`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
        }
    }

    /// The product of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|product| product.name() == name)
    }

    /// The environment variable that points the tests at a server of this product.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "LEASE_TEST_POSTGRES_URL",
            Self::MariaDb => "LEASE_TEST_MARIADB_URL",
            Self::MySql => "LEASE_TEST_MYSQL_URL",
        }
    }

    /// The URL of a server of ours: its superuser without a password.
    pub(crate) fn url(self, port: u16) -> String {
        match self {
            Self::Postgres => format!("postgres://postgres@127.0.0.1:{port}/postgres"),
            Self::MariaDb | Self::MySql => format!("mysql://root@127.0.0.1:{port}/test"),
        }
    }

    /// What to do when its programs are not installed.
    pub(crate) fn way_out(self) -> String {
        let on_debian = match self {
            Self::Postgres => "on Debian and Ubuntu `apt-get install postgresql`",
            Self::MariaDb => "on Debian and Ubuntu `apt-get install mariadb-server-core mariadb-client-core`",
            Self::MySql => "on Ubuntu `apt-get install mysql-server-core` if that is 8.4 or later",
        };
        format!(
            "run `cargo xtask db up`, which installs it where it may, or set {} to the URL of a running server, or {on_debian}",
            self.variable()
        )
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
            Self::MySql => "MySQL",
        })
    }
}
