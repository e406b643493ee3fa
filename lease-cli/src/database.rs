//! From `--db` to a store.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lease_core::store::StoreError;
use lease_core::{ErrorKind, LeaseStore};
use lease_sqlite::SqliteStore;

use crate::args::DatabaseArguments;
use crate::exit::{DATABASE, Failure};
use crate::text::without_passwords;

/// The table that holds the leases.
pub(crate) const TABLE: &str = "leases";

const VARIABLE: &str = "LEASE_DATABASE_URL";

/// A database that was named, not opened yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Database {
    /// A SQLite file that was given.
    Sqlite(PathBuf),
    /// The SQLite file taken when nothing is given. Its folder, too, is made when needed.
    DefaultSqlite(PathBuf),
}

impl Database {
    /// The database that the arguments or the environment name.
    pub(crate) fn named(arguments: &DatabaseArguments) -> Result<Self, Failure> {
        let from_environment = || env::var_os(VARIABLE).filter(|url| !url.is_empty());
        match arguments.db.clone().or_else(from_environment) {
            Some(url) => parse(&url).map(Self::Sqlite),
            None => default_file(env::var_os("XDG_STATE_HOME"), env::var_os("HOME")).map(Self::DefaultSqlite),
        }
    }

    /// Opens the database, a SQLite file being created if it is missing.
    pub(crate) async fn create(&self) -> Result<Store, Failure> {
        let path = self.path();
        if let (Self::DefaultSqlite(_), Some(folder)) = (self, path.parent()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
                let folder = folder.display();
                Failure::new(
                    DATABASE,
                    format!("cannot create folder {folder}: {error}; name another file with --db, or see that the folder can be made"),
                )
            })?;
        }
        let store = SqliteStore::open(path).await.map_err(|error| not_opened(&error))?;
        Ok(Store(Arc::new(store)))
    }

    /// Opens the database without changing anything; `None` when the default file is not there yet.
    pub(crate) async fn existing(&self) -> Result<Option<Store>, Failure> {
        let path = self.path();
        if path.try_exists().is_ok_and(|exists| !exists) {
            return match self {
                Self::DefaultSqlite(_) => Ok(None),
                Self::Sqlite(_) => Err(Failure::new(
                    DATABASE,
                    format!("no file {}; check --db, or create it with `lease migrate`", path.display()),
                )),
            };
        }
        let store = SqliteStore::options().create(false).open(path).await;
        Ok(Some(Store(Arc::new(store.map_err(|error| not_opened(&error))?))))
    }

    /// The kind and place of the database, for messages.
    pub(crate) fn describe(&self) -> String {
        format!("SQLite file {}", self.path().display())
    }

    /// The table's definition in the dialect of the database.
    pub(crate) fn schema(&self) -> Result<String, Failure> {
        match self {
            Self::Sqlite(_) | Self::DefaultSqlite(_) => {
                SqliteStore::schema(TABLE).map_err(|error| not_opened(&error))
            }
        }
    }

    fn path(&self) -> &Path {
        let (Self::Sqlite(path) | Self::DefaultSqlite(path)) = self;
        path
    }
}

/// An open database.
#[derive(Clone)]
pub(crate) struct Store(pub(crate) Arc<dyn LeaseStore>);

impl Store {
    /// Sees to it that the database can carry leases, with the table made or completed if that is all it lacks.
    pub(crate) async fn make_ready(&self) -> Result<(), Failure> {
        match self.0.check().await {
            Err(error) if error.kind() == ErrorKind::Schema => {
                self.migrate().await?;
                self.check().await
            }
            checked => checked.map_err(|error| self.failure("use", &error)),
        }
    }

    pub(crate) async fn migrate(&self) -> Result<(), Failure> {
        self.0.migrate().await.map_err(|error| self.failure("create the table in", &error))
    }

    pub(crate) async fn check(&self) -> Result<(), Failure> {
        self.0.check().await.map_err(|error| self.failure("use", &error))
    }

    /// What to say of an error: `cannot use SQLite file /x: ...`.
    pub(crate) fn failure(&self, what: &str, error: &StoreError) -> Failure {
        failure(&format!("cannot {what} {}: {error}", self.0.describe()), error)
    }
}

/// A store that is not open says by itself what could not be opened.
fn not_opened(error: &StoreError) -> Failure {
    failure(&error.to_string(), error)
}

fn failure(message: &str, error: &StoreError) -> Failure {
    let advice = match error.kind() {
        ErrorKind::Schema => "create or upgrade the table with `lease migrate`",
        kind => kind.advice(),
    };
    Failure {
        was_busy: matches!(error.kind(), ErrorKind::Busy | ErrorKind::Timeout),
        ..Failure::new(DATABASE, without_passwords(&format!("{message} ({advice})")))
    }
}

/// Reads what `--db` was given.
fn parse(url: &OsStr) -> Result<PathBuf, Failure> {
    let Some(text) = url.to_str() else { return Ok(url.into()) };
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
        _ => return sqlite_path(text),
    };
    match scheme.as_str() {
        "sqlite" => {
            if rest.contains(['?', '#', '%']) {
                return Err(Failure::usage(
                    "parameters and percent escapes in a sqlite: URL are not supported; give a plain path",
                ));
            }
            sqlite_path(rest.strip_prefix("//").unwrap_or(rest))
        }
        _ => Err(Failure::usage(format!(
            "{:?} names a kind of database that this program does not know; supported: sqlite:PATH, or a plain path (./{scheme}:... if it is one)",
            without_passwords(text),
        ))),
    }
}

fn sqlite_path(path: &str) -> Result<PathBuf, Failure> {
    match path {
        "" => Err(Failure::usage("--db is empty; give sqlite:PATH or a path")),
        ":memory:" => Err(Failure::usage("a database in memory is shared with nobody; give a file to --db")),
        _ => Ok(path.into()),
    }
}

/// Whether this can be the scheme of a URL rather than part of a file's name.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// The XDG base directory specification has it that a relative folder is to be ignored.
fn default_file(state_home: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, Failure> {
    let absolute = |folder: OsString| Some(PathBuf::from(folder)).filter(|folder| folder.is_absolute());
    let home = || home.and_then(absolute).map(|home| home.join(".local/state"));
    let state = state_home.and_then(absolute).or_else(home).ok_or_else(|| {
        Failure::usage(format!("no database: give --db or {VARIABLE}, for HOME is not set"))
    })?;
    Ok(state.join("lease/leases.db"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::USAGE;

    fn refused(url: &str) -> String {
        let failure = parse(OsStr::new(url)).unwrap_err();
        assert_eq!(failure.code, USAGE);
        failure.message
    }

    #[test]
    fn a_url_or_a_plain_path_names_a_file() {
        for (url, path) in [
            ("sqlite:///var/lib/l.db", "/var/lib/l.db"),
            ("sqlite:/var/lib/l.db", "/var/lib/l.db"),
            ("sqlite:l.db", "l.db"),
            ("sqlite://sub/l.db", "sub/l.db"),
            ("SQLite:l.db", "l.db"),
            ("/var/lib/l.db", "/var/lib/l.db"),
            ("l.db", "l.db"),
            ("sub/a:b.db", "sub/a:b.db"),
            ("./a:b.db", "./a:b.db"),
            ("/a?b#c%20d", "/a?b#c%20d"),
        ] {
            assert_eq!(parse(OsStr::new(url)), Ok(path.into()), "{url}");
        }
    }

    #[test]
    fn what_names_no_file_is_refused_with_what_would() {
        for url in ["postgres://h/db", "mysql://h/db", "postgresql:db", "file:l.db", "a:b.db"] {
            assert!(refused(url).contains("sqlite:PATH"), "{url}");
        }
        assert!(refused("").contains("empty"));
        assert!(refused("sqlite:").contains("empty"));
        assert!(refused("sqlite://").contains("empty"));
        assert!(refused(":memory:").contains("memory"));
        assert!(refused("sqlite::memory:").contains("memory"));
        assert!(refused("sqlite:l.db?mode=ro").contains("parameters"));
    }

    #[test]
    fn no_message_holds_a_password() {
        let message = refused("postgres://me:secret@h/db?password=secret");
        assert!(!message.contains("secret") && message.contains("me:***@h"), "{message}");
    }

    #[test]
    fn the_default_is_in_the_users_state_folder() {
        let file = |state: Option<&str>, home: Option<&str>| {
            default_file(state.map(Into::into), home.map(Into::into))
                .ok()
                .map(|path| path.display().to_string())
        };
        assert_eq!(file(Some("/s"), Some("/h")).as_deref(), Some("/s/lease/leases.db"));
        assert_eq!(file(None, Some("/h")).as_deref(), Some("/h/.local/state/lease/leases.db"));
        assert_eq!(file(Some("relative"), Some("/h")).as_deref(), Some("/h/.local/state/lease/leases.db"));
        assert_eq!(file(Some(""), Some("/h")).as_deref(), Some("/h/.local/state/lease/leases.db"));
        assert_eq!(file(None, None), None);
    }
}
