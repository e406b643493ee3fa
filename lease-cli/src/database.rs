//! From `--db` to a store.

use std::env;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lease_core::store::StoreError;
use lease_core::{ErrorKind, LeaseStore};
use lease_mysql::MysqlStore;
use lease_postgres::PostgresStore;
use lease_sqlite::{SqliteOptions, SqliteStore};

use crate::args::DatabaseArguments;
use crate::exit::{DATABASE, Failure};
use crate::text::password;
use crate::url::{self, Url};

pub(crate) const VARIABLE: &str = "LEASE_DATABASE_URL";

/// A database that was named; nothing has been sent to it or looked at yet.
pub(crate) struct Database {
    place: Place,
    /// The table that holds the leases.
    pub(crate) table: String,
    /// The table's definition in the dialect of the database.
    pub(crate) schema: String,
}

enum Place {
    /// A SQLite file that was given.
    Sqlite(PathBuf),
    /// The SQLite file taken when nothing is given. Its folder, too, is made when needed.
    DefaultSqlite(PathBuf),
    Server(Store),
}

impl Database {
    /// The database that the arguments or the environment name.
    pub(crate) fn named(arguments: &DatabaseArguments) -> Result<Self, Failure> {
        let from_environment = || env::var_os(VARIABLE).filter(|url| !url.is_empty());
        let table = arguments.table.clone();
        if password(&table).is_some() {
            return Err(Failure::usage("--table takes the name of a table, and --db the URL of a database"));
        }
        let url = arguments.db.clone().or_else(from_environment).map(|url| url::parse(&url)).transpose()?;
        let (place, schema) = match url {
            None => {
                let file = default_file(env::var_os("XDG_STATE_HOME"), env::var_os("HOME"))?;
                (Place::DefaultSqlite(file), SqliteStore::schema(&table))
            }
            Some(Url::Sqlite(path)) => (Place::Sqlite(path), SqliteStore::schema(&table)),
            Some(Url::Postgres(url)) => {
                let options = PostgresStore::options();
                let (schema, name) = table.split_once('.').unwrap_or(("public", &table));
                let options =
                    options.schema(schema).and_then(|options| options.table(name)).map_err(refused)?;
                let ddl = options.ddl();
                (Place::Server(Store(Arc::new(options.open(&url).map_err(refused)?))), Ok(ddl))
            }
            Some(Url::Mysql(url)) => {
                let options = MysqlStore::options().table(&table).map_err(refused)?;
                let store = Store(Arc::new(options.open(&url).map_err(refused)?));
                (Place::Server(store), MysqlStore::schema(&table))
            }
        };
        Ok(Self { place, schema: schema.map_err(refused)?, table })
    }

    /// Opens the database, a SQLite file being created if it is missing.
    pub(crate) async fn create(&self) -> Result<Store, Failure> {
        let path = match &self.place {
            Place::Server(store) => return Ok(store.clone()),
            Place::Sqlite(path) => path,
            Place::DefaultSqlite(path) => {
                make_folder(path)?;
                path
            }
        };
        self.open_file(SqliteStore::options(), path).await
    }

    /// Opens the database without changing anything; `None` when the default file is not there yet.
    pub(crate) async fn existing(&self) -> Result<Option<Store>, Failure> {
        let (path, is_default) = match &self.place {
            Place::Server(store) => return Ok(Some(store.clone())),
            Place::Sqlite(path) => (path, false),
            Place::DefaultSqlite(path) => (path, true),
        };
        if path.try_exists().is_ok_and(|exists| !exists) {
            if is_default {
                return Ok(None);
            }
            let message =
                format!("no file {}; check --db, or create it with `lease migrate`", path.display());
            return Err(Failure::new(DATABASE, message));
        }
        self.open_file(SqliteStore::options().create(false), path).await.map(Some)
    }

    async fn open_file(&self, options: SqliteOptions, path: &Path) -> Result<Store, Failure> {
        let options = options.table(&self.table).map_err(refused)?;
        // A store that is not open says by itself what could not be opened.
        let store = options.open(path).await.map_err(|error| failure(&error))?;
        Ok(Store(Arc::new(store)))
    }

    /// The kind and place of the database, for messages. It holds no password.
    pub(crate) fn describe(&self) -> String {
        match &self.place {
            Place::Sqlite(path) | Place::DefaultSqlite(path) => format!("SQLite file {}", path.display()),
            Place::Server(store) => store.0.describe(),
        }
    }
}

/// What was given cannot name a database or a table.
fn refused(error: StoreError) -> Failure {
    Failure::usage(error)
}

fn make_folder(file: &Path) -> Result<(), Failure> {
    let Some(folder) = file.parent() else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        let folder = folder.display();
        Failure::new(
            DATABASE,
            format!("cannot create folder {folder}: {error}; name another file with --db, or see that the folder can be made"),
        )
    })
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
            checked => checked.map_err(|error| self.failure("use", error)),
        }
    }

    pub(crate) async fn migrate(&self) -> Result<(), Failure> {
        self.0.migrate().await.map_err(|error| self.failure("create the table in", error))
    }

    pub(crate) async fn check(&self) -> Result<(), Failure> {
        self.0.check().await.map_err(|error| self.failure("use", error))
    }

    /// What to say of an error: `cannot use SQLite file /x: ...`.
    pub(crate) fn failure(&self, what: &str, error: StoreError) -> Failure {
        failure(&error.in_context(format_args!("cannot {what} {}", self.0.describe())))
    }
}

/// What to say of an error that says by itself what could not be done.
fn failure(error: &StoreError) -> Failure {
    let message = match error.advice() {
        Some(_) => error.to_string(),
        None => format!("{error} ({})", error.kind().advice()),
    };
    Failure { may_pass: error.kind().retry_helps(), ..Failure::new(DATABASE, message) }
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
