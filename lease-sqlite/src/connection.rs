//! Opening the file: which files are taken, what is said on each connection, and whether the path
//! still leads to the file that was opened.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use lease_core::ErrorKind;
use lease_core::store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi};

use crate::error::{ANOTHER_FILE, Failure, LET_WRITE, MIGRATE, NOT_A_DATABASE};
use crate::files::{Files, Identity, Known, has_one_name};
use crate::options::Table;
use crate::path::shown;
use crate::{file_system, queue, sql};

/// A file, and what one thread's connection to it is for.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Absolute.
    pub(crate) path: PathBuf,
    pub(crate) table: Table,
    pub(crate) role: Role,
    pub(crate) known: Known,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Write,
    Read,
}

/// An open connection, and which files it has.
pub(crate) struct Open {
    pub(crate) connection: Connection,
    pub(crate) files: Files,
    /// What it said when it was last asked whether others had committed.
    pub(crate) version: Option<i64>,
}

/// How often a file may be swapped while it is being opened.
const OPENING_TRIES: usize = 5;

impl Place {
    /// Opens the file, and makes it if it is missing and `create` says so.
    pub(crate) fn open(&self, create: bool) -> Result<Open, StoreError> {
        supported_version(rusqlite::version_number(), rusqlite::version())?;
        file_system::refuse_network(&self.path)?;
        for _ in 0..OPENING_TRIES {
            let before = self.look()?;
            if before.is_none() {
                self.may_be_made(create)?;
            }
            let connection = self.connect(before.is_none())?;
            // The same file before and after is the one that was opened. A file that was just made
            // is opened once more, to be sure that it is ours and not one put in its place.
            if let Some(identity) = before
                && self.look()? == Some(identity)
            {
                let files = Files { identity, log: self.log(&connection)? };
                self.known.tell(Some(files.clone()));
                return Ok(Open { connection, files, version: None });
            }
        }
        let message = "the file was replaced again and again while it was being opened";
        Err(StoreError::new(ErrorKind::Replaced, message))
    }

    /// Says whether the path still leads to the file that was opened, and its log: if not, the error is
    /// [`Replaced`](ErrorKind::Replaced). Any other error leaves that open.
    ///
    /// SQLite would go on with a file that was renamed or deleted, and the lease in it would stand
    /// beside a lease in the file now at the path. Only asks about the file: opening it and closing
    /// it again would drop the locks of the whole process on it (POSIX).
    pub(crate) fn still_holds(&self, files: &Files) -> Result<(), StoreError> {
        match self.metadata(&self.path)? {
            None => return Err(replaced("nothing is in its place")),
            Some(metadata) if Identity::of(&metadata) != files.identity => {
                return Err(replaced("another file is in its place"));
            }
            Some(metadata) => has_one_name(&metadata)?,
        }
        let Some((path, identity)) = &files.log else { return Ok(()) };
        match self.metadata(path)? {
            None => Err(replaced(LOG_IS_GONE)),
            Some(metadata) if Identity::of(&metadata) != *identity => {
                Err(replaced("another -wal file is beside it"))
            }
            Some(_) => Ok(()),
        }
    }

    /// [`still_holds`](Self::still_holds), asked on another thread than the connection's.
    pub(crate) fn still_there(&self) -> Result<(), StoreError> {
        match self.known.ask() {
            Some(files) => self.still_holds(&files),
            None => {
                Err(StoreError::new(ErrorKind::Unavailable, "the store has not opened its file again yet"))
            }
        }
    }

    /// Which file is at the path; refuses what cannot be a database.
    fn look(&self) -> Result<Option<Identity>, StoreError> {
        let Some(metadata) = self.metadata(&self.path)? else { return Ok(None) };
        if metadata.is_dir() {
            let error = StoreError::new(ErrorKind::Invalid, "it is a folder");
            return Err(error.with_advice("give the path of a file in it"));
        }
        if !metadata.is_file() {
            let error = StoreError::new(ErrorKind::Invalid, "it is not a regular file");
            return Err(error.with_advice("give the path of one, or of a file to be made"));
        }
        has_one_name(&metadata)?;
        file_system::refuse_mounted(&self.path)?;
        Ok(Some(Identity::of(&metadata)))
    }

    /// The log of a connection in WAL mode. It stays while the connection is open, for only the last to
    /// close the file removes it.
    fn log(&self, connection: &Connection) -> Result<Option<(PathBuf, Identity)>, StoreError> {
        // The first read opens the log, and makes it if it is missing.
        ask::<i64>(connection, sql::PAGE_COUNT).map_err(Failure::from)?;
        if ask::<String>(connection, sql::JOURNAL_MODE).map_err(Failure::from)? != "wal" {
            return Ok(None);
        }
        // Beside the file itself, where links lead to it.
        let mut path =
            fs::canonicalize(&self.path).map_err(|error| self.out_of_reach(error))?.into_os_string();
        path.push("-wal");
        let path = PathBuf::from(path);
        let metadata = self.metadata(&path)?.ok_or_else(|| replaced(LOG_IS_GONE))?;
        Ok(Some((path, Identity::of(&metadata))))
    }

    /// `None`: nothing is there.
    fn metadata(&self, path: &Path) -> Result<Option<Metadata>, StoreError> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.out_of_reach(error)),
        }
    }

    fn out_of_reach(&self, error: io::Error) -> StoreError {
        let folder = shown(self.folder());
        let (kind, message, advice) = match error.kind() {
            io::ErrorKind::PermissionDenied => (
                ErrorKind::Denied,
                format!("folder {folder} may not be searched by this user"),
                "let this user search the folder and those above it",
            ),
            io::ErrorKind::NotADirectory => {
                (ErrorKind::Invalid, format!("{folder} is not a folder"), "correct the path")
            }
            _ => (
                ErrorKind::Unavailable,
                format!("the file is out of reach: {error}"),
                "see the path and its disk, then try again",
            ),
        };
        StoreError::new(kind, message).with_advice(advice).with_source(error)
    }

    fn may_be_made(&self, create: bool) -> Result<(), StoreError> {
        let folder = self.folder();
        let (message, advice) = if !folder.is_dir() {
            (format!("folder {} does not exist", shown(folder)), "make it first")
        } else if !create {
            ("the file does not exist".to_owned(), "correct the path, or have the file made")
        } else {
            return Ok(());
        };
        Err(StoreError::new(ErrorKind::Unavailable, message).with_advice(advice))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    fn connect(&self, create: bool) -> Result<Connection, StoreError> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
        let mut connection = Connection::open_with_flags(&self.path, flags).map_err(|error| {
            let failure = Failure::from(error);
            if failure.code() != Some(ffi::SQLITE_CANTOPEN) {
                return StoreError::from(failure);
            }
            let what = if create { "made in its folder" } else { "opened" };
            StoreError::new(ErrorKind::Denied, format!("the file cannot be {what}"))
                .with_advice(LET_WRITE)
                .with_source(StoreError::from(failure))
        })?;
        self.prepare(&mut connection)?;
        Ok(connection)
    }

    fn prepare(&self, connection: &mut Connection) -> Result<(), Failure> {
        connection.busy_handler(Some(queue::busy_handler as fn(i32) -> bool))?;
        connection.set_prepared_statement_cache_capacity(32);
        // What a file brings along may not change what our statements do: no trigger fires on them,
        // no view stands for the table.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        if connection.is_readonly("main")? {
            // SQLite opens a file that it may not write for reading, without a word.
            let message = "this user may not write the file, or nobody may on its file system";
            return Err(StoreError::new(ErrorKind::ReadOnly, message).with_advice(LET_WRITE).into());
        }
        for pragma in sql::SESSION {
            say(connection, pragma)?;
        }
        if self.is_new(connection)? && wal_is_sound(rusqlite::version_number()) {
            if self.role == Role::Read {
                let error = StoreError::new(ErrorKind::Unavailable, "the file is empty");
                return Err(error.with_advice(MIGRATE).into());
            }
            say(connection, sql::USE_WAL)?;
        }
        is_fit(connection)?;
        if self.role == Role::Read {
            say(connection, sql::READ_ONLY)?;
        }
        Ok(())
    }

    /// Whether nobody has written to the file yet. SQLite takes a short text for an empty database,
    /// and would write over it. The count is asked again, for another process may just have made the
    /// first page, or died of it and left a journal that the first count rolled back.
    fn is_new(&self, connection: &Connection) -> Result<bool, Failure> {
        let is_empty = || Ok::<_, Failure>(ask::<i64>(connection, sql::PAGE_COUNT)? == 0);
        if !is_empty()? {
            return Ok(false);
        }
        let has_bytes = fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() > 0);
        if has_bytes && is_empty()? {
            return Err(StoreError::new(ErrorKind::Damaged, NOT_A_DATABASE).with_advice(ANOTHER_FILE).into());
        }
        Ok(!has_bytes)
    }
}

const LOG_IS_GONE: &str = "its -wal file is gone";

fn replaced(what: &str) -> StoreError {
    let message = format!("the file was renamed, replaced or deleted since it was opened; {what}");
    StoreError::new(ErrorKind::Replaced, message)
}

/// Refuses a connection whose commits would not be durable, or a file whose names would sort otherwise.
pub(crate) fn is_fit(connection: &Connection) -> Result<(), Failure> {
    let journal: String = ask(connection, sql::JOURNAL_MODE)?;
    let synchronous: i64 = ask(connection, sql::SYNCHRONOUS)?;
    if !matches!(journal.as_str(), "wal" | "delete" | "truncate" | "persist") || synchronous < 3 {
        let message = format!(
            "commits would not survive a crash: SQLite insists on journal_mode {journal}, synchronous {synchronous}"
        );
        return Err(StoreError::new(ErrorKind::NotDurable, message).into());
    }
    let encoding: String = ask(connection, sql::ENCODING)?;
    if encoding != "UTF-8" {
        let message = format!("the file keeps its texts in {encoding}, not UTF-8");
        let error = StoreError::new(ErrorKind::Unsupported, message);
        return Err(error.with_advice("give leases a file of their own").into());
    }
    Ok(())
}

/// Runs a pragma, whether or not it answers with a row.
fn say(connection: &Connection, pragma: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(pragma)?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

fn ask<T: rusqlite::types::FromSql>(connection: &Connection, pragma: &str) -> rusqlite::Result<T> {
    connection.query_row(pragma, [], |row| row.get(0))
}

/// Refuses an SQLite without a clock in milliseconds.
pub(crate) fn supported_version(number: i32, text: &str) -> Result<(), StoreError> {
    if number >= 3_042_000 {
        return Ok(());
    }
    let message = format!("this program uses SQLite {text}, and leases need 3.42 or later");
    Err(StoreError::new(ErrorKind::Unsupported, message).with_advice("build with the feature `bundled`"))
}

/// Whether this version resets a write-ahead log without a race that can damage the file: 3.51.3, and
/// the older lines it was carried back to (<https://www.sqlite.org/wal.html#walresetbug>). With
/// another a new file keeps the rollback journal.
fn wal_is_sound(number: i32) -> bool {
    number >= 3_051_003 || matches!(number, 3_050_007..=3_050_999 | 3_044_006..=3_044_999)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_without_the_clock_is_refused_by_its_version() {
        assert!(supported_version(3_042_000, "3.42.0").is_ok());
        let error = supported_version(3_041_002, "3.41.2").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        // The page of errors has these words.
        let words = "this program uses SQLite 3.41.2, and leases need 3.42 or later; build with the feature `bundled`";
        assert_eq!(error.to_string(), words);
    }

    #[test]
    fn a_new_file_has_a_write_ahead_log_only_where_its_reset_is_sound() {
        for (number, sound) in [
            (3_042_000, false),
            (3_044_005, false),
            (3_044_006, true),
            (3_045_000, false),
            (3_050_006, false),
            (3_050_007, true),
            (3_051_002, false),
            (3_051_003, true),
            (3_053_000, true),
        ] {
            assert_eq!(wal_is_sound(number), sound, "{number}");
        }
    }

    #[test]
    fn a_connection_whose_commits_would_not_last_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("x.db")).unwrap();
        let kind = |pragmas: &str| {
            connection.execute_batch(pragmas).unwrap();
            is_fit(&connection).map_err(|failure| StoreError::from(failure).kind())
        };
        assert_eq!(kind("PRAGMA synchronous = EXTRA"), Ok(()));
        assert_eq!(kind("PRAGMA synchronous = NORMAL"), Err(ErrorKind::NotDurable));
        assert_eq!(
            kind("PRAGMA synchronous = EXTRA; PRAGMA journal_mode = MEMORY"),
            Err(ErrorKind::NotDurable)
        );
        assert_eq!(kind("PRAGMA journal_mode = DELETE"), Ok(()));
    }

    #[test]
    fn a_reader_leaves_an_empty_file_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        fs::write(&path, "").unwrap();
        let place = Place {
            path: path.clone(),
            table: Table::new("leases").unwrap(),
            role: Role::Read,
            known: Known::default(),
        };
        assert_eq!(place.open(false).err().map(|error| error.kind()), Some(ErrorKind::Unavailable));
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn every_connection_is_durable_and_the_readers_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let place = |role| Place {
            path: folder.path().join("leases.db"),
            table: Table::new("leases").unwrap(),
            role,
            known: Known::default(),
        };
        let writer = place(Role::Write).open(true).unwrap().connection;
        let reader = place(Role::Read).open(false).unwrap().connection;
        for connection in [&writer, &reader] {
            assert_eq!(ask::<i64>(connection, sql::SYNCHRONOUS).unwrap(), 3);
            assert_eq!(ask::<i64>(connection, "PRAGMA mmap_size").unwrap(), 0);
            assert_eq!(ask::<i64>(connection, "PRAGMA trusted_schema").unwrap(), 0);
        }
        assert!(writer.execute_batch("CREATE TABLE x (y)").is_ok());
        assert!(reader.execute_batch("CREATE TABLE z (y)").is_err());
    }
}
