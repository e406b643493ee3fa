//! What can go wrong, by kind.

use std::borrow::Cow;
use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::{InvalidName, InvalidSlot, InvalidTimings, LeaseName};

/// What went wrong, to match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The database cannot be reached, or the connection ended.
    Unavailable,
    /// No answer came in time.
    Timeout,
    /// Other transactions kept the row or the file locked for the whole attempt.
    Busy,
    /// The database takes no writes now: a replica, or read-only after a failover.
    ReadOnly,
    /// The disk or the quota is full.
    Full,
    /// The login was refused or lacks a right.
    Denied,
    /// The table or one of its columns is missing.
    Schema,
    /// The server, its version or the place of the file cannot carry leases.
    Unsupported,
    /// The database would forget acknowledged writes in a crash.
    NotDurable,
    /// What was read is not what a lease store writes: a damaged file or a row changed by hand.
    Damaged,
    /// The database behind the store is another one than before (a file renamed or replaced).
    Replaced,
    /// A name, timing, slot or setting that cannot be used; no statement was sent.
    Invalid,
    /// The `Leases` the call was made on is closing.
    Closed,
    /// The async runtime that renews is missing or has shut down.
    Runtime,
    /// Anything else; the source says more.
    Other,
}

impl ErrorKind {
    /// Whether the same call can succeed later without anybody changing a setting.
    pub fn retry_helps(self) -> bool {
        matches!(self, Self::Unavailable | Self::Timeout | Self::Busy | Self::ReadOnly | Self::Replaced)
    }

    /// What to do about it, as the end of a sentence.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Unavailable => "see that the database runs and can be reached, then try again",
            Self::Timeout => "the database is slow or out of reach; try again",
            Self::Busy => {
                "another transaction holds the lock for long; shorten it, or keep leases in a database of their own"
            }
            Self::ReadOnly => {
                "the database takes no writes; use the primary, or a file and folder that can be written"
            }
            Self::Full => "free some room, then try again",
            Self::Denied => {
                "see that the user and the password are right, and that the user may read and write the lease table"
            }
            Self::Schema => "create or upgrade the table with migrate()",
            Self::Unsupported => "use a supported database, version and place",
            Self::NotDurable => "turn durable commits on",
            Self::Damaged => "repair the database or restore it; nothing was changed",
            Self::Replaced => "claim again: the lease in the database that was replaced is void",
            Self::Invalid => "correct it; no statement was sent",
            Self::Closed => "claim before close() is called",
            Self::Runtime => {
                "work runs inside a running tokio runtime; so do renewals, in one that outlives them, unless with own_thread()"
            }
            Self::Other => "see the cause",
        }
    }
}

/// Whether a failed statement can have changed the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It changed nothing and will not.
    None,
    /// It may have changed the row, or may still.
    Unknown,
}

/// An error of a store: what happened and, after a semicolon, what to do about it where more is known than its kind tells.
///
/// It never says that a lease is lost: only the answer "no row matched" does.
#[derive(Debug, Clone)]
pub struct StoreError(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    kind: ErrorKind,
    effect: Effect,
    message: String,
    advice: Option<Cow<'static, str>>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl StoreError {
    /// An error with unknown effect. `message` is one line that holds no password.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(Parts { kind, effect: Effect::Unknown, message, advice: None, source: None }))
    }

    /// The same error, of a statement that surely changed nothing and will not.
    #[must_use]
    pub fn without_effect(mut self) -> Self {
        self.0.effect = Effect::None;
        self
    }

    pub(crate) fn with_unknown_effect(mut self) -> Self {
        self.0.effect = Effect::Unknown;
        self
    }

    /// The same error with what to do about it, as the end of a sentence, in place of [`ErrorKind::advice`].
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<Cow<'static, str>>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    /// The same error with the driver's own as its source.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// The same error, its message begun with what was tried: `context: message`.
    #[must_use]
    pub fn in_context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// What went wrong, to match on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the statement can have changed the row.
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// What happened, without what to do about it.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do about it, if more is known than [`ErrorKind::advice`] tells.
    pub fn advice(&self) -> Option<&str> {
        self.0.advice.as_deref()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// An error of `lease-core`: what was asked, of which name and database, what happened and what to do.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
enum Inner {
    Store { asked: Asked, source: Arc<StoreError> },
    Name(InvalidName),
    Timings(InvalidTimings),
    Slot(InvalidSlot),
    Own { kind: ErrorKind, message: String },
}

/// What was asked, of which name, where.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) what: Cow<'static, str>,
    /// `None`: of several names.
    pub(crate) name: Option<LeaseName>,
    pub(crate) database: String,
}

impl Error {
    pub(crate) fn store(asked: Asked, source: Arc<StoreError>) -> Self {
        Self(Box::new(Inner::Store { asked, source }))
    }

    pub(crate) fn own(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner::Own { kind, message: message.into() }))
    }

    /// What went wrong, to match on.
    pub fn kind(&self) -> ErrorKind {
        match &*self.0 {
            Inner::Store { source, .. } => source.kind(),
            Inner::Name(_) | Inner::Timings(_) | Inner::Slot(_) => ErrorKind::Invalid,
            Inner::Own { kind, .. } => *kind,
        }
    }

    /// Whether the same call can succeed later without anybody changing a setting.
    pub fn retry_helps(&self) -> bool {
        self.kind().retry_helps()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Inner::Store { asked: Asked { what, name, database }, source } => {
                write!(f, "cannot {what} ")?;
                if let Some(name) = name {
                    write!(f, "{name:?} ")?;
                }
                write!(f, "in {database}: {source}")?;
                // Unless it says so itself.
                match source.advice() {
                    Some(_) => Ok(()),
                    None => write!(f, " ({})", source.kind().advice()),
                }
            }
            Inner::Name(invalid) => invalid.fmt(f),
            Inner::Timings(invalid) => invalid.fmt(f),
            Inner::Slot(invalid) => invalid.fmt(f),
            Inner::Own { kind, message } => write!(f, "{message} ({})", kind.advice()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &*self.0 {
            Inner::Store { source, .. } => Some(&**source),
            Inner::Name(invalid) => Some(invalid),
            Inner::Timings(invalid) => Some(invalid),
            Inner::Slot(invalid) => Some(invalid),
            Inner::Own { .. } => None,
        }
    }
}

impl From<InvalidName> for Error {
    fn from(invalid: InvalidName) -> Self {
        Self(Box::new(Inner::Name(invalid)))
    }
}

impl From<InvalidTimings> for Error {
    fn from(invalid: InvalidTimings) -> Self {
        Self(Box::new(Inner::Timings(invalid)))
    }
}

impl From<InvalidSlot> for Error {
    fn from(invalid: InvalidSlot) -> Self {
        Self(Box::new(Inner::Slot(invalid)))
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_error_says_what_was_asked_of_which_name_what_happened_and_what_to_do() {
        let asked = Asked {
            what: "claim lease".into(),
            name: Some(LeaseName::new("nightly").unwrap()),
            database: "SQLite file /x".to_owned(),
        };
        let error =
            Error::store(asked, Arc::new(StoreError::new(ErrorKind::Full, "database or disk is full")));
        assert_eq!(
            error.to_string(),
            r#"cannot claim lease "nightly" in SQLite file /x: database or disk is full (free some room, then try again)"#
        );
        assert_eq!(error.kind(), ErrorKind::Full);
        assert!(!error.retry_helps());
    }

    #[test]
    fn what_a_store_advises_stands_in_place_of_what_its_kind_does() {
        let asked = Asked { what: "list leases".into(), name: None, database: "SQLite file /x".to_owned() };
        let error = StoreError::new(ErrorKind::Schema, "the table is missing").with_advice("run migrate()");
        assert_eq!((error.message(), error.advice()), ("the table is missing", Some("run migrate()")));
        assert_eq!(
            Error::store(asked, Arc::new(error)).to_string(),
            "cannot list leases in SQLite file /x: the table is missing; run migrate()"
        );
    }

    #[test]
    fn a_context_takes_nothing_from_an_error() {
        let error = StoreError::new(ErrorKind::Denied, "it may not be read")
            .with_advice("make it readable")
            .with_source(std::io::Error::other("the system's words"))
            .without_effect()
            .in_context("cannot open /x");
        assert_eq!(error.to_string(), "cannot open /x: it may not be read; make it readable");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Denied, Effect::None));
        assert_eq!(error.source().unwrap().to_string(), "the system's words");
    }

    #[test]
    fn the_drivers_own_error_stays_reachable() {
        let source = std::io::Error::other("the driver's words");
        let error = StoreError::new(ErrorKind::Other, "failed").with_source(source);
        assert_eq!(error.source().unwrap().to_string(), "the driver's words");
    }
}
