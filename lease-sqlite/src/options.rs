//! What can be chosen when a store is opened.

use std::fmt;
use std::path::Path;

use lease_core::ErrorKind;
use lease_core::store::StoreError;

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
        Self { table: Table("leases".to_owned()), create: true }
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

    /// Opens the file, see [`SqliteStore::open`].
    pub async fn open(self, path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        SqliteStore::open_with(self, path.as_ref()).await
    }
}

/// A table's name, checked. It is displayed quoted, as a statement takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table(String);

/// PostgreSQL's longest identifier, so that one configuration serves every engine.
const TABLE_MAX_BYTES: usize = 63;

impl Table {
    pub(crate) fn new(name: &str) -> Result<Self, StoreError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let problem = if name.is_empty() || name.len() > TABLE_MAX_BYTES {
            format!("1 to {TABLE_MAX_BYTES} characters")
        } else if !name.bytes().all(plain) || name.as_bytes()[0].is_ascii_digit() {
            "letters, digits and _ of ASCII, with no digit in front".to_owned()
        } else if name.len() >= 7 && name[..7].eq_ignore_ascii_case("sqlite_") {
            "a name that SQLite does not keep for itself".to_owned()
        } else {
            return Ok(Self(name.to_owned()));
        };
        let shown: String = name.chars().take(TABLE_MAX_BYTES).collect();
        let message = format!("{shown:?} cannot name the lease table: give it {problem}");
        Err(StoreError::new(ErrorKind::Invalid, message).without_effect())
    }

    /// The bare name, for messages and for pragmas that take it as a value.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No quote can be inside.
        write!(f, "\"{}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_identifiers_name_a_table() {
        for name in ["leases", "_x", "A9", &"t".repeat(63), "order", "sqlite"] {
            assert!(Table::new(name).is_ok(), "{name}");
        }
        for name in
            ["", "9a", "a b", "a\"b", "a;b", "ä", "a\n", "a.b", "sqlite_x", "SQLite_master", &"t".repeat(64)]
        {
            let error = Table::new(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
