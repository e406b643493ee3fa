//! From the name of a database to a store that is ready.

use std::sync::Arc;

use lease_core::LeaseStore;
use lease_core::store::StoreError;
use lease_mysql::MysqlStore;
use lease_postgres::PostgresStore;
use lease_sqlite::SqliteStore;

/// Opens the database, makes the table if it is missing, and sees to it that it can carry leases.
pub(crate) async fn open(database: &str) -> Result<Arc<dyn LeaseStore>, StoreError> {
    let store: Arc<dyn LeaseStore> = match database.split_once("://").map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => Arc::new(PostgresStore::open(database)?),
        Some("mysql" | "mariadb") => Arc::new(MysqlStore::open(database)?),
        _ => Arc::new(SqliteStore::open(database).await?),
    };
    store.migrate().await?;
    store.check().await?;
    Ok(store)
}
