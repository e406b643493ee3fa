//! How a guarded transaction is isolated, and how long it may stand still.

use std::time::Duration;

/// How a guarded transaction is isolated from others. The guard keeps its promise at each level.
///
/// The level `READ UNCOMMITTED` is left out: to PostgreSQL it is read committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    #[default]
    ReadCommitted,
    /// All statements see what was committed before the first, which is the guard's. Can fail with contention (SQLSTATE 40001) where
    /// it writes what others have written; never by renewals of its lease.
    RepeatableRead,
    /// As if transactions had run one after another. Can fail with contention at any statement, the commit among them; never by renewals of
    /// its lease.
    Serializable,
}

impl Isolation {
    pub(crate) fn level(self) -> &'static str {
        match self {
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }
}

/// How soon the server ends a guarded transaction whose process stands still or is gone, for until then no successor can claim.
/// **A healthy transaction that is slower is ended, too.** The settings hold until the transaction ends, and are
/// never looser than the session's own. In whole milliseconds, at least 1; `None` leaves the session's own.
///
/// From a pooler on it is the pooler's connection to the server that `unread` and `check` bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The longest pause between two statements (`idle_in_transaction_session_timeout`).
    pub idle: Option<Duration>,
    /// The longest statement (`statement_timeout`), the commit excepted.
    pub statement: Option<Duration>,
    /// How long the server waits with a result that nobody reads, or for a host that acknowledges nothing
    /// (`tcp_user_timeout`). Not on a Unix-domain socket, nor where the server's system has no such option.
    pub unread: Option<Duration>,
    /// How often, during a statement, the server looks whether the connection was closed (`client_connection_check_interval`). A server on
    /// a system that cannot do so refuses it: then choose `None`.
    pub check: Option<Duration>,
}

impl Bounds {
    /// What guards use unless told otherwise: `idle` and `unread` one ttl, `statement` four, `check` an eighth.
    pub fn of_ttl(ttl: Duration) -> Self {
        Self {
            idle: Some(ttl),
            statement: Some(ttl.saturating_mul(4)),
            unread: Some(ttl),
            check: Some(ttl / 8),
        }
    }

    /// The settings, in the server's milliseconds.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static str, u128)> {
        let settings = [
            ("idle_in_transaction_session_timeout", self.idle),
            ("statement_timeout", self.statement),
            ("tcp_user_timeout", self.unread),
            ("client_connection_check_interval", self.check),
        ];
        let in_ms = |time: Duration| time.as_millis().clamp(1, i32::MAX as u128);
        settings.into_iter().filter_map(move |(setting, time)| Some((setting, in_ms(time?))))
    }

    /// How long a transaction can stand still until the server has ended it, if each bound is met once.
    pub(super) fn total(&self) -> Duration {
        [self.idle, self.statement, self.unread]
            .into_iter()
            .flatten()
            .fold(Duration::ZERO, Duration::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_never_none_by_rounding_nor_more_than_the_server_takes() {
        let bounds =
            Bounds { idle: Some(Duration::ZERO), statement: Some(Duration::MAX), unread: None, check: None };
        let settings: Vec<_> = bounds.settings().collect();
        assert_eq!(
            settings,
            [("idle_in_transaction_session_timeout", 1), ("statement_timeout", 2_147_483_647)]
        );
        assert_eq!(Bounds::of_ttl(Duration::MAX).total(), Duration::MAX);
    }
}
