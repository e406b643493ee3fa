use std::env;
use std::fmt;

/// A database server that the tests run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Product {
    /// PostgreSQL 14 or later.
    Postgres,
    /// MariaDB 10.6 or later.
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

    /// The URL in the variable.
    pub fn named_url(self) -> Option<String> {
        env::var(self.variable()).ok().filter(|url| !url.is_empty())
    }

    /// What to do when its programs are not installed.
    pub(crate) fn way_out(self) -> String {
        format!("run `cargo xtask db up`, which installs it where it may; or {}", self.by_hand())
    }

    /// What to do when they cannot be installed.
    pub(crate) fn by_hand(self) -> String {
        let install = match self {
            Self::Postgres => "on Debian and Ubuntu `sudo apt-get install postgresql`",
            Self::MariaDb => {
                "on Debian and Ubuntu `sudo apt-get install mariadb-server-core mariadb-client-core`"
            }
            Self::MySql => "put the `mysqld` of a MySQL of 8.4 or later on PATH",
        };
        // Who has set it needs the programs all the same, for servers that a test has to itself.
        let name = match self.named_url() {
            Some(_) => String::new(),
            None => format!(", or set {} to the URL of a running server", self.variable()),
        };
        format!("{install}{name}")
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
