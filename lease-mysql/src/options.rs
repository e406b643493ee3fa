//! What can be chosen when a store is opened.

use lease_core::store::{Identifier, StoreError};
use mysql_async::{Opts, Pool};

use crate::MysqlStore;
use crate::connections::Connections;
use crate::url::Target;

/// How a [`MysqlStore`] is opened.
///
/// ```
/// use lease_mysql::MysqlStore;
///
/// let store = MysqlStore::options().table("jobs_leases")?.open("mysql://app@db.example/app")?;
/// # Ok::<(), lease_core::store::StoreError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct MysqlOptions {
    table: Option<Identifier>,
}

impl MysqlOptions {
    /// The table's name, `leases` unless given: letters, digits and `_` of ASCII, at most 63, none of
    /// the digits in front.
    ///
    /// Fails with [`ErrorKind::Invalid`](lease_core::ErrorKind::Invalid) on any other name.
    pub fn table(mut self, name: &str) -> Result<Self, StoreError> {
        self.table = Some(Identifier::new(name)?);
        Ok(self)
    }

    /// Opens a store with connections of its own, and fails, as [`MysqlStore::open`].
    pub fn open(self, url: &str) -> Result<MysqlStore, StoreError> {
        self.on(Connections::own(&Target::of_url(url)?)?)
    }

    /// Opens a store with connections of its own, by a configuration of the driver: with its TLS, socket and
    /// the rest as they are there. It must name a database. (The driver prefers the server's socket unless told otherwise,
    /// and then connects twice.) Fails as [`MysqlStore::open`].
    pub fn open_config(self, config: impl Into<Opts>) -> Result<MysqlStore, StoreError> {
        self.on(Connections::own(&Target::of_config(config.into())?)?)
    }

    /// Opens a store on a pool of yours. [The front page](crate#a-pool-of-yours) says what that risks and costs. It fails with
    /// [`Unavailable`](lease_core::ErrorKind::Unavailable) when the system has no thread left; the pool is asked for nothing yet.
    pub fn open_pool(self, pool: Pool) -> Result<MysqlStore, StoreError> {
        self.on(Connections::borrowed(pool))
    }

    fn on(self, connections: Connections) -> Result<MysqlStore, StoreError> {
        let table = self.table.map_or_else(|| Identifier::new("leases"), Ok)?;
        MysqlStore::new(connections, table)
    }
}
