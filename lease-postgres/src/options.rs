//! What can be chosen when a store is opened.

use std::fmt;

use lease_core::store::{Identifier, StoreError};

use crate::PostgresStore;
use crate::row::Value;
use crate::tls::Tls;
use crate::{sql, url};

/// How a [`PostgresStore`] is opened.
///
/// ```
/// # fn example() -> Result<(), lease_core::store::StoreError> {
/// use lease_postgres::PostgresStore;
///
/// let store = PostgresStore::options().schema("app")?.table("jobs_leases")?.open("postgres://app@db/app")?;
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    pub(crate) table: Table,
    pub(crate) notices: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        let identifier = |name| Identifier::new(name).expect("the default names are plain");
        let table = Table { schema: identifier("public"), name: identifier("leases") };
        Self { table, notices: true }
    }
}

impl PostgresOptions {
    /// The table's name, `leases` unless given: letters, digits and `_` of ASCII, at most 63, none of
    /// the digits in front. It is always quoted: `Leases` and `leases` are two tables.
    ///
    /// Fails with [`Invalid`](lease_core::ErrorKind::Invalid) on any other name.
    pub fn table(mut self, name: &str) -> Result<Self, StoreError> {
        self.table.name = Identifier::new(name)?;
        Ok(self)
    }

    /// The schema the table is in, `public` unless given, by the same rule. Never the role's or the
    /// session's `search_path`: two roles would have two tables, and both hold the same lease.
    ///
    /// Fails with [`Invalid`](lease_core::ErrorKind::Invalid) on any other name.
    pub fn schema(mut self, name: &str) -> Result<Self, StoreError> {
        self.table.schema = Identifier::new(name)?;
        Ok(self)
    }

    /// Neither announces releases nor listens for them: who waits looks again and again, here and, for what is
    /// released here, elsewhere. See the [crate's documentation](crate#release-notices) for what they cost.
    pub fn without_notices(mut self) -> Self {
        self.notices = false;
        self
    }

    /// The DDL of the table that these options name, for people who create their tables themselves.
    pub fn ddl(&self) -> String {
        format!("{};\n", sql::create_table(&self.table))
    }

    /// Opens a store on connections of its own, and fails, as [`PostgresStore::open`].
    pub fn open(self, url: &str) -> Result<PostgresStore, StoreError> {
        let (config, tls) = url::parse(url)?;
        PostgresStore::on_own_connections(self, &config, tls)
    }

    /// Opens a store on connections of its own, made as this configuration says; `target_session_attrs` is
    /// passed over, for only a primary is used.
    ///
    /// With [`SslMode::Require`](tokio_postgres::config::SslMode) the server's certificate is not
    /// looked at; for `verify-full` and the like give a URL.
    ///
    /// Fails with [`Invalid`](lease_core::ErrorKind::Invalid) on a configuration that names no host.
    pub fn open_config(self, config: &tokio_postgres::Config) -> Result<PostgresStore, StoreError> {
        PostgresStore::on_own_connections(self, config, Tls::of(config))
    }

    /// Opens a store on connections of a pool that other parts of the program use as well.
    ///
    /// **A renewal waits for a connection then, behind all that has the pool's connections**, and
    /// whatever blocks the runtime stops renewals. When the wait is longer than the deadline, every
    /// lease of the store is lost. A store with connections of its own ([`open`](Self::open)) has two or
    /// three of them, and none of this.
    ///
    /// The statements run on the runtime that this is called on. Nothing is left behind in a session. A
    /// connection with a transaction that somebody left open is closed. Nor does it listen for
    /// [releases](crate#release-notices), which would keep a connection for as long as anybody waits. Which server is used is the pool's
    /// business; on one that is no primary every call fails as [`ReadOnly`](lease_core::ErrorKind::ReadOnly).
    ///
    /// Fails with [`Runtime`](lease_core::ErrorKind::Runtime) outside a tokio runtime.
    pub fn open_pool(self, pool: deadpool_postgres::Pool) -> Result<PostgresStore, StoreError> {
        PostgresStore::on_pool(self, pool)
    }
}

/// The table's name and schema, checked. Displayed quoted, as a statement takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) schema: Identifier,
    pub(crate) name: Identifier,
}

impl Table {
    /// The parameters of the statements that look into the catalogue.
    pub(crate) fn values(&self) -> [Value; 2] {
        [self.schema.as_str().into(), self.name.as_str().into()]
    }

    /// What an announcement of a name in this table begins with. No name of a table has a dot or a space in it.
    pub(crate) fn announced(&self) -> String {
        format!("{}.{} ", self.schema, self.name)
    }

    /// For messages: the schema is said when it is not the default.
    pub(crate) fn shown(&self) -> String {
        match self.schema.as_str() {
            "public" => self.name.to_string(),
            schema => format!("{schema}.{}", self.name),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No quote can be inside.
        write!(f, "\"{}\".\"{}\"", self.schema, self.name)
    }
}
