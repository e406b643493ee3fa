//! PostgreSQL's error codes (SQLSTATE), as kinds and effects. Never by the text of a message.

use std::error::Error as StdError;
use std::io;

use lease_core::ErrorKind;
use lease_core::store::{Effect, StoreError};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

/// What became of a statement that failed.
pub(crate) fn of_statement(error: Error) -> StoreError {
    let Some(server) = error.as_db_error() else { return of_driver(error) };
    let class = classify(server.code().code());
    let says = if class.says.is_empty() { "the server refused the statement" } else { class.says };
    let message = format!("{says} (SQLSTATE {}: {})", server.code().code(), one_line(server.message()));
    let changed_nothing = was_undone(server) && class.effect == Effect::None;
    let mut classified = StoreError::new(class.kind, message).with_source(error);
    if !class.advice.is_empty() {
        classified = classified.with_advice(class.advice);
    }
    if changed_nothing { classified.without_effect() } else { classified }
}

/// Why there is no connection. No statement was sent.
pub(crate) fn of_connecting(error: Error) -> StoreError {
    let unreachable = error.is_closed() || io_error(&error).is_some_and(|error| !is_certificate(error));
    let login_failed = error.as_db_error().is_none() && !unreachable;
    let failed = if login_failed {
        // The driver refused: no password to give, an authentication it does not know, no TLS to be had,
        // or no certificate that is trusted.
        StoreError::new(ErrorKind::Denied, words(&error))
            .with_advice(
                "see the password, how pg_hba.conf has this user log in, and sslmode and sslrootcert",
            )
            .with_source(error)
    } else {
        of_statement(error)
    };
    failed.without_effect()
}

/// Whether the server has refused the login, which it may by another way.
pub(crate) fn refused_login(error: &StoreError) -> bool {
    let driver = error.source().and_then(|source| source.downcast_ref::<Error>());
    driver.and_then(Error::code).is_some_and(|code| code.code().starts_with("28"))
}

/// Whether the connection is as good as before: the server has answered, and nothing is wrong with the session.
pub(crate) fn leaves_connection(error: &StoreError) -> bool {
    let server = error.source().and_then(|source| source.downcast_ref::<Error>()?.as_db_error());
    let of_the_session = [ErrorKind::ReadOnly, ErrorKind::Unavailable, ErrorKind::Unsupported];
    server.is_some_and(was_undone) && !of_the_session.contains(&error.kind())
}

/// An `ERROR` undoes its transaction. `FATAL` may come after the commit, when the server is stopped
/// while the commit waits for a synchronous standby.
fn was_undone(server: &DbError) -> bool {
    server.parsed_severity() == Some(Severity::Error)
}

/// An error that did not come from the server: mostly, the connection is gone.
fn of_driver(error: Error) -> StoreError {
    let lost = error.is_closed() || io_error(&error).is_some();
    let kind = if lost { ErrorKind::Unavailable } else { ErrorKind::Other };
    StoreError::new(kind, words(&error)).with_source(error)
}

fn io_error(error: &Error) -> Option<&io::Error> {
    error.source()?.downcast_ref()
}

/// Whether what failed is that the server's certificate is not trusted.
fn is_certificate(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
}

/// The driver's words and those of what it came from, on one line.
fn words(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    one_line(&text)
}

fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// What a code means to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class {
    kind: ErrorKind,
    /// Of an error of the severity `ERROR`.
    effect: Effect,
    /// Empty: the server's own words say all.
    says: &'static str,
    /// Empty: the kind's own says all.
    advice: &'static str,
}

impl Class {
    const fn advise(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }
}

/// The code if the table has it, else its class (the first two characters).
fn classify(code: &str) -> Class {
    let find = |code| CLASSES.iter().find(|(known, _)| *known == code).map(|(_, class)| *class);
    find(code).or_else(|| find(code.get(..2)?)).unwrap_or(UNKNOWN)
}

const fn none(kind: ErrorKind, says: &'static str) -> Class {
    Class { kind, effect: Effect::None, says, advice: "" }
}

const fn unknown(kind: ErrorKind, says: &'static str) -> Class {
    Class { kind, effect: Effect::Unknown, says, advice: "" }
}

const UNKNOWN: Class = none(ErrorKind::Other, "");
const CONTENDED: Class = none(ErrorKind::Busy, "another transaction was in the way for the whole attempt");
const FOREIGN_ROW: Class = none(
    ErrorKind::Damaged,
    "the row holds a value that a lease table does not, or its term has no successor",
);
const ENCODING: Class = none(ErrorKind::Unsupported, "the database's encoding is not UTF8").advise(USE_UTF8);
/// No encoding of a database can be changed.
pub(crate) const USE_UTF8: &str = "use a database that was created with ENCODING 'UTF8'";
/// Without it: the login may lack the right to read, to write, or to create.
const GRANT: &str = "grant the role SELECT, INSERT and UPDATE on the lease table; where there is none yet, somebody who may \
                                create tables runs migrate()";
pub(crate) const USE_PRIMARY: &str = "give the URL of the primary";
pub(crate) const MIGRATE: &str = "run migrate()";
pub(crate) const ANOTHER_TABLE: &str = "choose another name with table()";
const FOREIGN_COLUMN: Class =
    none(ErrorKind::Schema, "a column of the table has another type than a lease table's")
        .advise(ANOTHER_TABLE);
const GONE: Class = none(ErrorKind::Unavailable, "the server ended the connection");

/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>, in its order.
const CLASSES: &[(&str, Class)] = &[
    ("08", unknown(ErrorKind::Unavailable, "the connection failed")),
    ("0A", none(ErrorKind::Unsupported, "")),
    ("21", UNKNOWN),
    ("22003", FOREIGN_ROW),
    ("22021", ENCODING),
    ("22P05", ENCODING),
    (
        "23502",
        none(ErrorKind::Schema, "the table has a column without a default that no lease table has")
            .advise("give that column a default, or choose another name with table()"),
    ),
    ("23514", FOREIGN_ROW),
    (
        "25006",
        none(ErrorKind::ReadOnly, "the server takes no writes: it is a standby, or set to read-only")
            .advise(USE_PRIMARY),
    ),
    (
        "25P03",
        none(ErrorKind::Other, "the transaction stood still for longer than its idle bound")
            .advise("raise the bound or shorten the pause"),
    ),
    (
        "28",
        none(ErrorKind::Denied, "the login was refused")
            .advise("see that user and password are right, and that pg_hba.conf lets the user in from here"),
    ),
    ("3D", none(ErrorKind::Invalid, "there is no such database").advise("create it, or correct the URL")),
    ("3F", none(ErrorKind::Schema, "the schema is missing").advise("create it, or name another")),
    ("40", CONTENDED),
    ("40003", unknown(ErrorKind::Busy, "nobody knows how the statement ended")),
    ("42501", none(ErrorKind::Denied, "the role lacks a right").advise(GRANT)),
    ("42703", none(ErrorKind::Schema, "a column of the lease table is missing").advise(MIGRATE)),
    ("42804", FOREIGN_COLUMN),
    ("42883", FOREIGN_COLUMN),
    ("42809", none(ErrorKind::Schema, "the name does not stand for a table").advise(ANOTHER_TABLE)),
    ("42P01", none(ErrorKind::Schema, "the lease table is missing").advise(MIGRATE)),
    ("53", none(ErrorKind::Unavailable, "the server has no more to give")),
    ("53100", none(ErrorKind::Full, "the server's disk is full")),
    (
        "55000",
        none(ErrorKind::Schema, "the name does not stand for a table that can be written")
            .advise(ANOTHER_TABLE),
    ),
    ("55006", CONTENDED),
    ("55P03", CONTENDED),
    // Somebody cancelled it, or a timeout that was set over ours.
    ("57014", none(ErrorKind::Busy, "the statement was cancelled")),
    ("57", GONE),
    ("58", none(ErrorKind::Unavailable, "the server's system failed")),
    ("XX001", none(ErrorKind::Damaged, "the server finds damage in the table")),
    ("XX002", none(ErrorKind::Damaged, "the server finds damage in an index")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_kind_and_effect() {
        use Effect::{None as Without, Unknown};
        use ErrorKind::{
            Busy, Damaged, Denied, Full, Invalid, Other, ReadOnly, Schema, Unavailable, Unsupported,
        };
        for (name, code, kind, effect) in [
            ("connection_exception", "08000", Unavailable, Unknown),
            ("connection_failure", "08006", Unavailable, Unknown),
            ("protocol_violation, PgBouncer's own", "08P01", Unavailable, Unknown),
            ("feature_not_supported", "0A000", Unsupported, Without),
            ("cardinality_violation", "21000", Other, Without),
            ("numeric_value_out_of_range", "22003", Damaged, Without),
            ("character_not_in_repertoire", "22021", Unsupported, Without),
            ("untranslatable_character", "22P05", Unsupported, Without),
            ("division_by_zero", "22012", Other, Without),
            ("not_null_violation", "23502", Schema, Without),
            ("unique_violation", "23505", Other, Without),
            ("check_violation", "23514", Damaged, Without),
            ("read_only_sql_transaction", "25006", ReadOnly, Without),
            ("in_failed_sql_transaction", "25P02", Other, Without),
            ("invalid_authorization_specification", "28000", Denied, Without),
            ("invalid_password", "28P01", Denied, Without),
            ("invalid_catalog_name", "3D000", Invalid, Without),
            ("invalid_schema_name", "3F000", Schema, Without),
            ("serialization_failure", "40001", Busy, Without),
            ("statement_completion_unknown", "40003", Busy, Unknown),
            ("deadlock_detected", "40P01", Busy, Without),
            ("insufficient_privilege", "42501", Denied, Without),
            ("syntax_error", "42601", Other, Without),
            ("undefined_column", "42703", Schema, Without),
            ("datatype_mismatch", "42804", Schema, Without),
            ("wrong_object_type", "42809", Schema, Without),
            ("undefined_function", "42883", Schema, Without),
            ("undefined_table", "42P01", Schema, Without),
            ("disk_full", "53100", Full, Without),
            ("too_many_connections", "53300", Unavailable, Without),
            ("object_not_in_prerequisite_state", "55000", Schema, Without),
            ("object_in_use", "55006", Busy, Without),
            ("lock_not_available", "55P03", Busy, Without),
            ("query_canceled", "57014", Busy, Without),
            ("admin_shutdown", "57P01", Unavailable, Without),
            ("cannot_connect_now", "57P03", Unavailable, Without),
            ("io_error", "58030", Unavailable, Without),
            ("internal_error", "XX000", Other, Without),
            ("data_corrupted", "XX001", Damaged, Without),
            ("index_corrupted", "XX002", Damaged, Without),
            ("a code of a later version", "ZZ999", Other, Without),
            ("no code at all", "", Other, Without),
        ] {
            let class = classify(code);
            assert_eq!((class.kind, class.effect), (kind, effect), "{name}");
        }
    }
}
