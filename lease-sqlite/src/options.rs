//! What can be chosen when a store is opened.

use std::fmt;
use std::path::Path;

use lease_core::ErrorKind;
use lease_core::store::{Identifier, StoreError};

use crate::SqliteStore;

/// How a [`SqliteStore`] is opened.
///
/// ```no_run
/// # async fn example() -> Result<(), lease_core::store::StoreError> {
/// use lease_sqlite::SqliteStore;
///
/// let store = SqliteStore::options().table("jobs_leases")?.create(false).open("/var/lib/x/leases.db").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub(crate) table: Table,
    pub(crate) create: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { table: Table::default(), create: true }
    }
}

impl SqliteOptions {
    /// The table's name, `leases` unless given: letters, digits and `_` of ASCII, at most 63, none of
    /// the digits in front, and not one of SQLite's own (`sqlite_...`).
    ///
    /// Fails with [`ErrorKind::Invalid`] on any other name.
    pub fn table(mut self, name: &str) -> Result<Self, StoreError> {
        self.table = Table::new(name)?;
        Ok(self)
    }

    /// Whether a file that does not exist is made. It is unless this says `false`; the folder never is.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens the file, and fails, as [`SqliteStore::open`].
    pub async fn open(self, path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        SqliteStore::open_with(self, path.as_ref()).await
    }
}

/// The table's name. It is displayed quoted, as a statement takes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Table(Identifier);

impl Table {
    pub(crate) fn new(name: &str) -> Result<Self, StoreError> {
        let name = Identifier::new(name)?;
        if name.as_str().len() >= 7 && name.as_str()[..7].eq_ignore_ascii_case("sqlite_") {
            let message = format!(
                "{:?} cannot name the lease table: SQLite keeps such names for itself",
                name.as_str()
            );
            return Err(StoreError::new(ErrorKind::Invalid, message).without_effect());
        }
        Ok(Self(name))
    }

    /// The bare name, for messages and for pragmas that take it as a value.
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_sqlite_keeps_for_itself_name_no_table() {
        for name in ["leases", "sqlite", "sqliteleases", "order"] {
            assert!(Table::new(name).is_ok(), "{name}");
        }
        for name in ["sqlite_x", "SQLite_master", "9a", "a\"b"] {
            assert_eq!(Table::new(name).unwrap_err().kind(), ErrorKind::Invalid, "{name}");
        }
    }
}
