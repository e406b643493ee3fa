//! SQLite's result codes, as kinds and effects. Never by the text of a message.

use std::error::Error as _;
use std::ffi::c_int;

use lease_core::ErrorKind;
use lease_core::store::{Effect, StoreError};
use rusqlite::ffi;

/// What stops a statement: the driver's error, not yet classified, or one of our own.
#[derive(Debug)]
pub(crate) enum Failure {
    Driver(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Driver(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    /// SQLite's extended result code, when it was SQLite that failed.
    pub(crate) fn code(&self) -> Option<c_int> {
        let Self::Driver(error) = self else { return None };
        // The one way that covers `SqliteFailure` and `SqlInputError`, which exists or not by the
        // driver's version and features.
        Some(error.source()?.downcast_ref::<ffi::Error>()?.extended_code)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        let code = failure.code();
        let error = match failure {
            Failure::Store(error) => return error,
            Failure::Driver(error) => error,
        };
        let Some(code) = code else {
            let text = one_line(&error);
            let (kind, message) = match error {
                rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::FromSqlConversionFailure(..) => {
                    (ErrorKind::Damaged, format!("a row holds a value that no lease store writes: {text}"))
                }
                _ => (ErrorKind::Other, format!("the SQLite driver failed: {text}")),
            };
            return Self::new(kind, message).with_source(error);
        };
        let class = classify(code);
        let message = match class.says {
            Some(says) => format!("{says} (SQLite result code {code})"),
            None => format!("SQLite failed with result code {code}: {}", one_line(&error)),
        };
        let mut classified = Self::new(class.kind, message).with_source(error);
        if let Some(advice) = class.advice {
            classified = classified.with_advice(advice);
        }
        match class.effect {
            Effect::None => classified.without_effect(),
            Effect::Unknown => classified,
        }
    }
}

/// A driver's words, which may quote a name out of a hostile file, on one line.
fn one_line(error: &rusqlite::Error) -> String {
    let text = match error {
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
        // Its own text holds the statement, which has line breaks.
        error => error.source().map_or_else(|| error.to_string(), ToString::to_string),
    };
    text.replace(char::is_control, " ")
}

/// What a result code means to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class {
    kind: ErrorKind,
    effect: Effect,
    /// `None`: the driver's own words say more.
    says: Option<&'static str>,
    /// `None`: the kind's own says all.
    advice: Option<&'static str>,
}

impl Class {
    const fn advise(self, advice: &'static str) -> Self {
        Self { advice: Some(advice), ..self }
    }
}

/// The extended code if the table has it, else its primary code (the low byte).
fn classify(code: c_int) -> Class {
    let find = |code| CLASSES.iter().find(|(known, _)| *known == code).map(|(_, class)| *class);
    find(code).or_else(|| find(code & 0xff)).unwrap_or(UNKNOWN)
}

const UNKNOWN: Class = Class { kind: ErrorKind::Other, effect: Effect::Unknown, says: None, advice: None };

/// A statement that failed with one of these was rolled back before its commit reached the file.
const fn none(kind: ErrorKind, says: &'static str) -> Class {
    Class { kind, effect: Effect::None, says: Some(says), advice: None }
}

/// A commit that failed with one of these may be complete on disk all the same, and come to light
/// when the file is next opened.
const fn unknown(kind: ErrorKind, says: &'static str) -> Class {
    Class { kind, effect: Effect::Unknown, says: Some(says), advice: None }
}

const LOCKED: Class = none(ErrorKind::Busy, "another connection kept the file locked for the whole attempt");
const READ_ONLY: Class =
    none(ErrorKind::ReadOnly, "the file or its folder cannot be written").advise(LET_WRITE);
pub(crate) const LET_WRITE: &str =
    "let this user read and write the file and its folder, on a disk that can be written";
pub(crate) const MIGRATE: &str = "run migrate()";
pub(crate) const ANOTHER_TABLE: &str = "choose another name with table()";
pub(crate) const ANOTHER_FILE: &str = "name another file, or restore this one from a backup";
const DAMAGED: Class = unknown(ErrorKind::Damaged, "the database file is damaged");
const FOREIGN_ROW: Class = none(
    ErrorKind::Damaged,
    "the row holds a value that a lease table does not, or its term has no successor",
);

/// <https://www.sqlite.org/rescode.html>, primary codes by number, each with those of its extended codes that differ.
const CLASSES: &[(c_int, Class)] = &[
    (ffi::SQLITE_ERROR, Class { kind: ErrorKind::Other, effect: Effect::None, says: None, advice: None }),
    (ffi::SQLITE_PERM, none(ErrorKind::Denied, "the file's permissions forbid it").advise(LET_WRITE)),
    (ffi::SQLITE_BUSY, LOCKED),
    (ffi::SQLITE_LOCKED, LOCKED),
    (ffi::SQLITE_READONLY, READ_ONLY),
    (ffi::SQLITE_READONLY_DBMOVED, none(ErrorKind::Replaced, "the file was renamed, replaced or deleted")),
    (ffi::SQLITE_INTERRUPT, none(ErrorKind::Other, "the statement was interrupted")),
    (ffi::SQLITE_IOERR, unknown(ErrorKind::Unavailable, "reading or writing the file failed")),
    // The shared memory beside a WAL file cannot grow; it has no code of its own for a full disk.
    (ffi::SQLITE_IOERR_SHMSIZE, unknown(ErrorKind::Full, "the disk has no room for the -shm file")),
    (ffi::SQLITE_IOERR_NOMEM, unknown(ErrorKind::Other, "no memory is left")),
    (ffi::SQLITE_IOERR_CORRUPTFS, DAMAGED),
    (ffi::SQLITE_CORRUPT, DAMAGED),
    (ffi::SQLITE_FULL, none(ErrorKind::Full, "the disk is full")),
    (
        ffi::SQLITE_CANTOPEN,
        none(ErrorKind::ReadOnly, "the file cannot be opened, or its journal cannot be made beside it")
            .advise(LET_WRITE),
    ),
    // A race of many connections at the start of a transaction in WAL mode.
    (ffi::SQLITE_PROTOCOL, LOCKED),
    (
        ffi::SQLITE_CONSTRAINT,
        Class { kind: ErrorKind::Other, effect: Effect::None, says: None, advice: None },
    ),
    (ffi::SQLITE_CONSTRAINT_CHECK, FOREIGN_ROW),
    (SQLITE_CONSTRAINT_DATATYPE, FOREIGN_ROW),
    (
        ffi::SQLITE_CONSTRAINT_NOTNULL,
        none(ErrorKind::Schema, "the table has a column without a default that no lease table has")
            .advise("give that column a default, or choose another name with table()"),
    ),
    (ffi::SQLITE_MISMATCH, FOREIGN_ROW),
    (ffi::SQLITE_NOLFS, none(ErrorKind::Unsupported, "the file system cannot hold so large a file")),
    (ffi::SQLITE_AUTH, none(ErrorKind::Denied, "an authorizer forbids it")),
    (ffi::SQLITE_NOTADB, none(ErrorKind::Damaged, NOT_A_DATABASE).advise(ANOTHER_FILE)),
];

pub(crate) const NOT_A_DATABASE: &str = "the file is not an SQLite database, or its start is damaged";

/// From 3.37; the driver's oldest bindings lack it.
const SQLITE_CONSTRAINT_DATATYPE: c_int = 3091;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_result_code_has_its_kind_and_effect() {
        use Effect::{None as Without, Unknown};
        use ErrorKind::{
            Busy, Damaged, Denied, Full, Other, ReadOnly, Replaced, Schema, Unavailable, Unsupported,
        };
        for (name, code, kind, effect) in [
            ("ERROR", 1, Other, Without),
            ("INTERNAL", 2, Other, Unknown),
            ("PERM", 3, Denied, Without),
            ("ABORT", 4, Other, Unknown),
            ("BUSY", 5, Busy, Without),
            ("BUSY_RECOVERY", 261, Busy, Without),
            ("BUSY_SNAPSHOT", 517, Busy, Without),
            ("BUSY_TIMEOUT", 773, Busy, Without),
            ("LOCKED", 6, Busy, Without),
            ("LOCKED_SHAREDCACHE", 262, Busy, Without),
            ("NOMEM", 7, Other, Unknown),
            ("READONLY", 8, ReadOnly, Without),
            ("READONLY_DBMOVED", 1032, Replaced, Without),
            ("READONLY_DIRECTORY", 1544, ReadOnly, Without),
            ("INTERRUPT", 9, Other, Without),
            ("IOERR", 10, Unavailable, Unknown),
            ("IOERR_WRITE", 778, Unavailable, Unknown),
            ("IOERR_FSYNC", 1034, Unavailable, Unknown),
            ("IOERR_SHMSIZE", 4874, Full, Unknown),
            ("IOERR_NOMEM", 3082, Other, Unknown),
            ("IOERR_CORRUPTFS", 8458, Damaged, Unknown),
            ("CORRUPT", 11, Damaged, Unknown),
            ("CORRUPT_INDEX", 779, Damaged, Unknown),
            ("FULL", 13, Full, Without),
            ("CANTOPEN", 14, ReadOnly, Without),
            ("PROTOCOL", 15, Busy, Without),
            ("CONSTRAINT_CHECK", 275, Damaged, Without),
            ("CONSTRAINT_DATATYPE", 3091, Damaged, Without),
            ("CONSTRAINT_NOTNULL", 1299, Schema, Without),
            ("CONSTRAINT_UNIQUE", 2067, Other, Without),
            ("MISMATCH", 20, Damaged, Without),
            ("MISUSE", 21, Other, Unknown),
            ("NOLFS", 22, Unsupported, Without),
            ("AUTH", 23, Denied, Without),
            ("NOTADB", 26, Damaged, Without),
            ("a code of a later version", 12_345_678, Other, Unknown),
        ] {
            let driver = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let error = StoreError::from(Failure::from(driver));
            assert_eq!((error.kind(), error.effect()), (kind, effect), "{name}");
            assert!(error.to_string().contains(&code.to_string()), "{name}: {error}");
        }
    }

    #[test]
    fn an_error_is_one_line_and_keeps_the_drivers_own() {
        let text = Some("no such\ntable: a\0b".to_owned());
        let driver = rusqlite::Error::SqliteFailure(ffi::Error::new(1), text);
        let error = StoreError::from(Failure::from(driver));
        assert_eq!(error.to_string(), "SQLite failed with result code 1: no such table: a b");
        assert!(error.source().unwrap().is::<rusqlite::Error>());
    }

    #[test]
    fn a_statement_that_does_not_compile_is_known_by_its_code_whatever_the_driver_calls_it() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        for sql in ["SELECT 1 FROM missing", "SELECT\nsyntax error here"] {
            let failure = Failure::from(connection.prepare(sql).unwrap_err());
            assert_eq!(failure.code(), Some(ffi::SQLITE_ERROR), "{sql}");
            let error = StoreError::from(failure);
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
