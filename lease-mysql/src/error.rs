//! The server's error numbers, as kinds and effects. Never by the text of a message.

use std::error::Error as _;

use lease_core::ErrorKind;
use lease_core::store::{Effect, StoreError};
use mysql_async::{DriverError, Error, IoError};

/// What stops a statement: the driver's error, not yet classified, or one of our own.
#[derive(Debug)]
pub(crate) enum Failure {
    Driver(Error),
    Store(StoreError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error,
            Failure::Driver(error) => {
                let class = match &error {
                    Error::Server(server) => classify(server.code),
                    other => classify_driver(other),
                };
                class.of(error)
            }
        }
    }
}

/// The error of a connection that could not be opened. Where there was to be TLS, the driver hands on what that has to say as invalid data.
pub(crate) fn of_opening(error: Error, with_tls: bool) -> StoreError {
    match &error {
        Error::Io(IoError::Io(io)) if with_tls && io.kind() == std::io::ErrorKind::InvalidData => {
            NO_TLS.of(error)
        }
        _ => Failure::from(error).into(),
    }
}

impl Class {
    fn of(self, error: Error) -> StoreError {
        let class = self;
        let words = one_line(&error);
        let message = match (&error, class.says) {
            (Error::Server(server), Some(says)) => format!("{says} (error {}: {words})", server.code),
            (Error::Server(server), None) => {
                format!("the server answered with error {}: {words}", server.code)
            }
            (_, Some(says)) => format!("{says} ({words})"),
            (_, None) => format!("the MySQL driver failed: {words}"),
        };
        let mut classified = StoreError::new(class.kind, message).with_source(error);
        if let Some(advice) = class.advice {
            classified = classified.with_advice(advice);
        }
        match class.effect {
            Effect::None => classified.without_effect(),
            Effect::Unknown => classified,
        }
    }
}

/// The server's error number behind an error, when it was the server that answered with one.
pub(crate) fn number(error: &StoreError) -> Option<u16> {
    match error.source()?.downcast_ref::<Error>()? {
        Error::Server(server) => Some(server.code),
        _ => None,
    }
}

/// Whether there was no session to be ended.
pub(crate) fn is_gone<T>(killed: Result<T, StoreError>) -> Result<bool, StoreError> {
    match killed {
        Ok(_) => Ok(false),
        Err(error) if number(&error) == Some(NO_SUCH_THREAD) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Whether an error with this number is contention; InnoDB has rolled back the whole transaction for some of them.
pub(crate) fn is_contention(number: u16) -> bool {
    classify(number).kind == ErrorKind::Busy
}

/// What an insert of a name says when the name is taken: there is a row, or somebody has it locked or is just making it.
pub(crate) const NAME_TAKEN: [u16; 3] = [1062, LOCK_WAIT_TIMEOUT, LOCK_NOWAIT];
/// A lock was waited for as long as the session lets it, or, on MariaDB, not at all.
pub(crate) const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// A lock was not to be had at once.
pub(crate) const LOCK_NOWAIT: u16 = 3572;
/// A transaction is open already.
pub(crate) const IN_TRANSACTION: u16 = 1568;
/// The session to be ended is not there.
pub(crate) const NO_SUCH_THREAD: u16 = 1094;
/// The savepoint is not there: the transaction is another one.
pub(crate) const NO_SAVEPOINT: u16 = 1305;
/// The table is not there.
pub(crate) const NO_SUCH_TABLE: u16 = 1146;
/// The column is there already.
pub(crate) const DUPLICATE_COLUMN: u16 = 1060;

/// The words of whoever failed, on one line. A server quotes what it was sent: names, never a password.
fn one_line(error: &Error) -> String {
    let text = match error {
        Error::Server(server) => server.message.clone(),
        // Its own text would show the packet.
        Error::Driver(DriverError::UnexpectedPacket { .. }) => "an unexpected packet".to_owned(),
        // Its own text would show the row.
        Error::Driver(DriverError::FromRow { .. }) => "a row of an unexpected shape".to_owned(),
        other => other.source().map_or_else(|| other.to_string(), ToString::to_string),
    };
    text.replace(char::is_control, " ")
}

/// What an error means to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class {
    kind: ErrorKind,
    effect: Effect,
    /// `None`: the other side's own words say more.
    says: Option<&'static str>,
    /// `None`: the kind's own says all.
    advice: Option<&'static str>,
}

impl Class {
    const fn advise(self, advice: &'static str) -> Self {
        Self { advice: Some(advice), ..self }
    }
}

fn classify(number: u16) -> Class {
    let known = CLASSES.iter().find(|(numbers, _)| numbers.contains(&number));
    known.map_or(UNKNOWN, |(_, class)| *class)
}

fn classify_driver(error: &Error) -> Class {
    match error {
        Error::Io(IoError::Tls(_)) => NO_TLS,
        // A packet that makes no sense.
        Error::Io(IoError::Io(io)) if io.kind() == std::io::ErrorKind::InvalidData => UNKNOWN,
        Error::Io(IoError::Io(_))
        | Error::Driver(DriverError::ConnectionClosed | DriverError::PoolDisconnected) => {
            unknown(ErrorKind::Unavailable, "the connection failed")
        }
        Error::Driver(DriverError::NoClientSslFlagFromServer) => {
            none(ErrorKind::Denied, "the server offers no TLS, and ssl-mode asks for it")
                .advise("have the server offer TLS, or set another ssl-mode")
        }
        Error::Driver(
            DriverError::UnknownAuthPlugin { .. }
            | DriverError::MysqlOldPasswordDisabled
            | DriverError::CleartextPluginDisabled,
        ) => none(
            ErrorKind::Denied,
            "the server refuses the login, or asks this user for it by a method that is not supported",
        )
        .advise("see that user and password are right, or give the user another authentication plugin"),
        Error::Driver(DriverError::PacketTooLarge) => none(ErrorKind::Other, "the statement is too large"),
        Error::Url(_) => none(ErrorKind::Invalid, "the URL or driver configuration cannot be used"),
        _ => UNKNOWN,
    }
}

const NO_TLS: Class = none(ErrorKind::Denied, "no TLS connection")
    .advise("see the server's certificate, ssl-mode, ssl-ca, ssl-cert and ssl-key");

const GRANT: &str = "grant the user SELECT, INSERT and UPDATE on the lease table; where there is none yet, somebody who may create \
                     tables runs migrate()";
pub(crate) const USE_PRIMARY: &str = "give the URL of the primary";
pub(crate) const MIGRATE: &str = "run migrate()";
pub(crate) const ANOTHER_TABLE: &str = "choose another name with table()";

const UNKNOWN: Class = Class { kind: ErrorKind::Other, effect: Effect::Unknown, says: None, advice: None };

/// The server refused the statement, or rolled it back: InnoDB undoes the whole of a statement that fails.
const fn none(kind: ErrorKind, says: &'static str) -> Class {
    Class { kind, effect: Effect::None, says: Some(says), advice: None }
}

/// The statement may have been committed all the same.
const fn unknown(kind: ErrorKind, says: &'static str) -> Class {
    Class { kind, effect: Effect::Unknown, says: Some(says), advice: None }
}

/// <https://dev.mysql.com/doc/mysql-errors/en/server-error-reference.html>,
/// <https://mariadb.com/kb/en/mariadb-error-code-reference/>, by what they mean here.
const CLASSES: &[(&[u16], Class)] = &[
    // Deadlock; lock wait timeout; row changed since the snapshot (MariaDB); lock not to be had at once;
    // rolled back by group replication during its commit; table changed, statement to be prepared again.
    (
        &[1213, LOCK_WAIT_TIMEOUT, 1020, LOCK_NOWAIT, 3101, 1412, 1615],
        none(ErrorKind::Busy, "another transaction has the row or the table locked"),
    ),
    // `read_only`, `super_read_only` and other options; a read-only transaction; InnoDB read-only, as servers
    // and versions say it.
    (
        &[1290, 1792, 1836, 1036, 1874],
        none(ErrorKind::ReadOnly, "the server takes no writes").advise(USE_PRIMARY),
    ),
    (
        &[IN_TRANSACTION],
        none(ErrorKind::Unavailable, "somebody has left a transaction open on a connection of the pool")
            .advise("end every transaction before its connection goes back to the pool"),
    ),
    (
        &[1045, 1698],
        none(ErrorKind::Denied, "the server refuses the login")
            .advise("see that user and password are right, and that the user may log in from this host"),
    ),
    (
        &[1820, 1862],
        none(ErrorKind::Denied, "the user's password has expired").advise("give the user a new one"),
    ),
    (&[3118, 4151], none(ErrorKind::Denied, "the user's account is locked").advise("unlock it")),
    (
        &[3159, 4164],
        none(ErrorKind::Denied, "the server wants TLS").advise("set ssl-mode=REQUIRED or stricter"),
    ),
    (&[1044], none(ErrorKind::Denied, "the user may not use the database").advise(GRANT)),
    // To write.
    (&[1142, 1143, 1227, 1370], none(ErrorKind::Denied, "the user lacks a right").advise(GRANT)),
    (
        &[1095],
        none(ErrorKind::Denied, "the session to be ended is another user's")
            .advise("use one user for all that work under the lease"),
    ),
    (
        &[1049],
        none(ErrorKind::Schema, "the database does not exist")
            .advise("create it, then run migrate(); or correct the URL"),
    ),
    (&[1046], none(ErrorKind::Invalid, "no database is chosen").advise("name it in the URL")),
    (&[NO_SUCH_TABLE], none(ErrorKind::Schema, "the lease table is missing").advise(MIGRATE)),
    (&[1054], none(ErrorKind::Schema, "the lease table lacks a column").advise(MIGRATE)),
    // Not null without a default; a value does not fit the column (three ways); a view; no primary key.
    (
        &[1048, 1364, 1265, 1366, 1406, 1288, 1347, 1356, 1471, 1176],
        none(ErrorKind::Schema, "the table is not a lease table").advise(ANOTHER_TABLE),
    ),
    // Out of range, two ways; a CHECK of MySQL and of MariaDB.
    (
        &[1690, 1264, 3819, 4025],
        none(
            ErrorKind::Damaged,
            "the row holds a value that no lease store writes, or its term has no successor",
        ),
    ),
    // A transaction has more locks than there is memory for.
    (&[1206], none(ErrorKind::Busy, "the server has no room for another lock")),
    (&[1021, 1114], none(ErrorKind::Full, "the server has no room left")),
    // Syntax; a feature it lacks; an unknown function, character set or system variable.
    (&[1064, 1235, 1305, 1115, 1193], none(ErrorKind::Unsupported, "the server does not take the statement")),
    (
        &[1665],
        none(ErrorKind::Unsupported, "binlog_format=STATEMENT cannot log row locks")
            .advise("set it to ROW or MIXED"),
    ),
    // Of the server, and of the user, twice.
    (&[1037, 1038, 1041, 1135], none(ErrorKind::Unavailable, "the server has no memory or thread to spare")),
    (&[1040, 1203, 1226], none(ErrorKind::Unavailable, "the server has no connection to spare")),
    (&[1461], none(ErrorKind::Unavailable, "the server has no prepared statement to spare")),
    (&[3032], none(ErrorKind::Unavailable, "the server is in offline mode")),
    (&[1047], none(ErrorKind::Unavailable, "the node is not ready (Galera)")),
    (
        &[1129, 1130],
        none(ErrorKind::Denied, "the server refuses connections from this host")
            .advise("create the user for this host too; a host that is blocked for its errors is let in again by FLUSH HOSTS"),
    ),
    // The connection had been idle too long: it was closed before the statement came.
    (&[4031], none(ErrorKind::Unavailable, "the server had closed the idle connection")),
    // Shutdown; killed; the network, as seen by the server.
    (
        &[1053, 1077, 1079, 1317, 1927, 1152, 1158, 1159, 1160, 1161, 1184],
        unknown(ErrorKind::Unavailable, "the server ended the connection or the statement"),
    ),
    // A session of MySQL whose variables were not restored, or that was killed in between.
    (&[3168, 3169], unknown(ErrorKind::Unavailable, "the server ended the session")),
    (&[1180], unknown(ErrorKind::Unavailable, "the server failed to commit")),
    (&[3024, 1969], unknown(ErrorKind::Timeout, "the server's limit of time for a statement has passed")),
    (&[3100], unknown(ErrorKind::Unavailable, "group replication did not take the commit")),
    (&[1034, 1194, 1195, 1712], unknown(ErrorKind::Damaged, "the server finds damage in the table")),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: u16, message: &str) -> StoreError {
        let (message, state) = (message.to_owned(), "HY000".to_owned());
        Failure::from(Error::Server(mysql_async::ServerError { code, message, state })).into()
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn each_error_number_has_its_kind_and_effect() {
        use Effect::{None as Without, Unknown};
        use ErrorKind::{
            Busy, Damaged, Denied, Full, Invalid, Other, ReadOnly, Schema, Timeout, Unavailable, Unsupported,
        };
        for (name, code, kind, effect) in [
            ("LOCK_DEADLOCK", 1213, Busy, Without),
            ("LOCK_WAIT_TIMEOUT", 1205, Busy, Without),
            ("CHECKREAD", 1020, Busy, Without),
            ("LOCK_NOWAIT", 3572, Busy, Without),
            ("TRANSACTION_ROLLBACK_DURING_COMMIT", 3101, Busy, Without),
            ("TABLE_DEF_CHANGED", 1412, Busy, Without),
            ("NEED_REPREPARE", 1615, Busy, Without),
            ("OPTION_PREVENTS_STATEMENT", 1290, ReadOnly, Without),
            ("CANT_EXECUTE_IN_READ_ONLY_TRANSACTION", 1792, ReadOnly, Without),
            ("READ_ONLY_MODE", 1836, ReadOnly, Without),
            ("OPEN_AS_READONLY", 1036, ReadOnly, Without),
            ("INNODB_READ_ONLY", 1874, ReadOnly, Without),
            ("CANT_CHANGE_TX_CHARACTERISTICS", 1568, Unavailable, Without),
            ("ACCESS_DENIED", 1045, Denied, Without),
            ("ACCESS_DENIED_NO_PASSWORD", 1698, Denied, Without),
            ("MUST_CHANGE_PASSWORD", 1820, Denied, Without),
            ("MUST_CHANGE_PASSWORD_LOGIN", 1862, Denied, Without),
            ("ACCOUNT_HAS_BEEN_LOCKED", 3118, Denied, Without),
            ("ACCOUNT_HAS_BEEN_LOCKED of MariaDB", 4151, Denied, Without),
            ("SECURE_TRANSPORT_REQUIRED", 3159, Denied, Without),
            ("SECURE_TRANSPORT_REQUIRED of MariaDB", 4164, Denied, Without),
            ("DBACCESS_DENIED", 1044, Denied, Without),
            ("TABLEACCESS_DENIED", 1142, Denied, Without),
            ("COLUMNACCESS_DENIED", 1143, Denied, Without),
            ("SPECIFIC_ACCESS_DENIED", 1227, Denied, Without),
            ("PROCACCESS_DENIED", 1370, Denied, Without),
            ("HOST_IS_BLOCKED", 1129, Denied, Without),
            ("HOST_NOT_PRIVILEGED", 1130, Denied, Without),
            ("BAD_DB", 1049, Schema, Without),
            ("NO_DB", 1046, Invalid, Without),
            ("NO_SUCH_TABLE", 1146, Schema, Without),
            ("BAD_FIELD", 1054, Schema, Without),
            ("BAD_NULL", 1048, Schema, Without),
            ("NO_DEFAULT_FOR_FIELD", 1364, Schema, Without),
            ("DATA_TRUNCATED", 1265, Schema, Without),
            ("TRUNCATED_WRONG_VALUE_FOR_FIELD", 1366, Schema, Without),
            ("DATA_TOO_LONG", 1406, Schema, Without),
            ("NON_UPDATABLE_TABLE", 1288, Schema, Without),
            ("WRONG_OBJECT", 1347, Schema, Without),
            ("VIEW_INVALID", 1356, Schema, Without),
            ("NON_INSERTABLE_TABLE", 1471, Schema, Without),
            ("DATA_OUT_OF_RANGE", 1690, Damaged, Without),
            ("WARN_DATA_OUT_OF_RANGE", 1264, Damaged, Without),
            ("CHECK_CONSTRAINT_VIOLATED", 3819, Damaged, Without),
            ("CONSTRAINT_FAILED of MariaDB", 4025, Damaged, Without),
            ("NOT_KEYFILE", 1034, Damaged, Unknown),
            ("CRASHED_ON_USAGE", 1194, Damaged, Unknown),
            ("CRASHED_ON_REPAIR", 1195, Damaged, Unknown),
            ("INDEX_CORRUPT", 1712, Damaged, Unknown),
            ("LOCK_TABLE_FULL", 1206, Busy, Without),
            ("OUTOFMEMORY", 1037, Unavailable, Without),
            ("OUT_OF_SORTMEMORY", 1038, Unavailable, Without),
            ("OUT_OF_RESOURCES", 1041, Unavailable, Without),
            ("CANT_CREATE_THREAD", 1135, Unavailable, Without),
            ("SERVER_ISNT_AVAILABLE", 3168, Unavailable, Unknown),
            ("SESSION_WAS_KILLED", 3169, Unavailable, Unknown),
            ("ERROR_DURING_COMMIT", 1180, Unavailable, Unknown),
            ("KEY_DOES_NOT_EXITS", 1176, Schema, Without),
            ("DISK_FULL", 1021, Full, Without),
            ("RECORD_FILE_FULL", 1114, Full, Without),
            ("PARSE_ERROR", 1064, Unsupported, Without),
            ("NOT_SUPPORTED_YET", 1235, Unsupported, Without),
            ("SP_DOES_NOT_EXIST", 1305, Unsupported, Without),
            ("UNKNOWN_CHARACTER_SET", 1115, Unsupported, Without),
            ("UNKNOWN_SYSTEM_VARIABLE", 1193, Unsupported, Without),
            ("BINLOG_STMT_MODE_AND_ROW_ENGINE", 1665, Unsupported, Without),
            ("CON_COUNT", 1040, Unavailable, Without),
            ("TOO_MANY_USER_CONNECTIONS", 1203, Unavailable, Without),
            ("USER_LIMIT_REACHED", 1226, Unavailable, Without),
            ("MAX_PREPARED_STMT_COUNT_REACHED", 1461, Unavailable, Without),
            ("SERVER_OFFLINE_MODE", 3032, Unavailable, Without),
            ("UNKNOWN_COM of a Galera node", 1047, Unavailable, Without),
            ("CLIENT_INTERACTION_TIMEOUT", 4031, Unavailable, Without),
            ("SERVER_SHUTDOWN", 1053, Unavailable, Unknown),
            ("NORMAL_SHUTDOWN", 1077, Unavailable, Unknown),
            ("SHUTDOWN_COMPLETE", 1079, Unavailable, Unknown),
            ("QUERY_INTERRUPTED", 1317, Unavailable, Unknown),
            ("CONNECTION_KILLED of MariaDB", 1927, Unavailable, Unknown),
            ("ABORTING_CONNECTION", 1152, Unavailable, Unknown),
            ("NET_READ_ERROR", 1158, Unavailable, Unknown),
            ("NET_READ_INTERRUPTED", 1159, Unavailable, Unknown),
            ("NET_ERROR_ON_WRITE", 1160, Unavailable, Unknown),
            ("NET_WRITE_INTERRUPTED", 1161, Unavailable, Unknown),
            ("NEW_ABORTING_CONNECTION", 1184, Unavailable, Unknown),
            ("RUN_HOOK_ERROR", 3100, Unavailable, Unknown),
            ("QUERY_TIMEOUT", 3024, Timeout, Unknown),
            ("STATEMENT_TIMEOUT of MariaDB", 1969, Timeout, Unknown),
            ("DUP_ENTRY", 1062, Other, Unknown),
            ("a number of a later version", 65_000, Other, Unknown),
        ] {
            let error = server(code, "its words");
            assert_eq!((error.kind(), error.effect()), (kind, effect), "{name}");
            assert_eq!(number(&error), Some(code));
            let text = error.to_string();
            assert!(text.contains(&code.to_string()) && text.contains("its words"), "{name}: {text}");
        }
    }

    #[test]
    fn no_number_stands_in_the_table_twice() {
        let mut numbers: Vec<u16> = CLASSES.iter().flat_map(|(numbers, _)| *numbers).copied().collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }

    #[test]
    fn what_the_driver_says_of_a_connection_is_known_by_its_type() {
        let kinds = |error: Error| {
            let error = StoreError::from(Failure::from(error));
            (error.kind(), error.effect())
        };
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        assert_eq!(kinds(Error::from(reset)), (ErrorKind::Unavailable, Effect::Unknown));
        let invalid = || Error::from(std::io::Error::new(std::io::ErrorKind::InvalidData, "invalid"));
        assert_eq!(kinds(invalid()), (ErrorKind::Other, Effect::Unknown));
        assert_eq!(of_opening(invalid(), true).kind(), ErrorKind::Denied);
        assert_eq!(of_opening(invalid(), false).kind(), ErrorKind::Other);
        let closed = Error::Driver(DriverError::ConnectionClosed);
        assert_eq!(kinds(closed), (ErrorKind::Unavailable, Effect::Unknown));
        let no_tls = Error::Driver(DriverError::NoClientSslFlagFromServer);
        assert_eq!(kinds(no_tls), (ErrorKind::Denied, Effect::None));
        let plugin = Error::Driver(DriverError::UnknownAuthPlugin { name: "gssapi".to_owned() });
        assert_eq!(kinds(plugin), (ErrorKind::Denied, Effect::None));
        let order = Error::Driver(DriverError::PacketOutOfOrder);
        assert_eq!(kinds(order), (ErrorKind::Other, Effect::Unknown));
    }

    #[test]
    fn an_error_is_one_line_and_keeps_the_drivers_own() {
        let error = server(1064, "near 'a\nb\0'");
        assert_eq!(error.to_string(), "the server does not take the statement (error 1064: near 'a b ')");
        assert!(error.source().unwrap().is::<Error>());
        let packet = Error::Driver(DriverError::UnexpectedPacket { payload: b"secret".to_vec() });
        let text = StoreError::from(Failure::from(packet)).to_string();
        assert_eq!(text, "the MySQL driver failed: an unexpected packet");
    }
}
