//! How a guarded transaction is isolated, and how long it may stand still.

use std::time::Duration;

/// How a guarded transaction is isolated from others. The guard keeps its promise at both levels.
///
/// Left out are `READ UNCOMMITTED`, which would show what is never committed, and `SERIALIZABLE`, which makes every read
/// a locking one: the first look at the lease's row would stop the renewals of the lease itself. A session that has either as its default
/// is at the guard's level for the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    #[default]
    ReadCommitted,
    /// All plain reads see what was committed before the first of them. Writes and locking reads see what is newest, or,
    /// on MariaDB with `innodb_snapshot_isolation`, fail with contention (error 1020); the guard's own never do so for renewals of its lease.
    RepeatableRead,
}

impl Isolation {
    pub(crate) fn level(self) -> &'static str {
        match self {
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
        }
    }
}

/// How soon the server ends a guarded transaction whose process stands still or is gone. No successor's claim is kept out
/// by it, but until then others wait for the rows that it has written. **A healthy transaction that is slower is ended, too.** The settings
/// hold until the transaction ends, and are never looser than the session's own; `None` leaves that. What the program
/// sets of them meanwhile is lost with the end, and so is what it sets of `autocommit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    idle: Option<Duration>,
    statement: Option<Duration>,
    unread: Option<Duration>,
}

/// The most that the servers take for any of these: a year.
const MOST: Duration = Duration::from_secs(31_536_000);

impl Bounds {
    /// What guards use unless told otherwise: `idle` and `unread` one ttl, `statement` four.
    pub fn of_ttl(ttl: Duration) -> Self {
        Self { idle: Some(ttl), statement: Some(ttl.saturating_mul(4)), unread: Some(ttl) }
    }

    /// The longest pause between two statements, and within the sending of one (`wait_timeout`, `net_read_timeout`). Rounded up to whole
    /// seconds.
    pub fn idle(self, idle: impl Into<Option<Duration>>) -> Self {
        Self { idle: idle.into(), ..self }
    }

    /// The longest statement, the commit excepted: on MariaDB any (`max_statement_time`); **on MySQL only a `SELECT` that
    /// locks nothing** (`max_execution_time`). In whole milliseconds, at least 1.
    pub fn statement(self, statement: impl Into<Option<Duration>>) -> Self {
        Self { statement: statement.into(), ..self }
    }

    /// How long the server waits with a result that nobody reads (`net_write_timeout`). Rounded up to whole seconds.
    pub fn unread(self, unread: impl Into<Option<Duration>>) -> Self {
        Self { unread: unread.into(), ..self }
    }

    pub(crate) fn idle_seconds(&self) -> Option<u64> {
        self.idle.map(seconds)
    }

    pub(crate) fn unread_seconds(&self) -> Option<u64> {
        self.unread.map(seconds)
    }

    pub(crate) fn statement_ms(&self) -> Option<u128> {
        // MySQL's has 32 bits.
        self.statement.map(|time| time.as_millis().clamp(1, u128::from(u32::MAX)))
    }

    /// After so long one of them can have ended the transaction.
    pub(super) fn tightest(&self) -> Option<Duration> {
        [self.idle, self.statement, self.unread].into_iter().flatten().min()
    }

    /// How long a transaction can stand still until the server has ended it, if each bound is met once. What is not set bounds nothing.
    pub(super) fn total(&self) -> Duration {
        [self.idle, self.statement, self.unread]
            .into_iter()
            .fold(Duration::ZERO, |sum, bound| sum.saturating_add(bound.unwrap_or(Duration::MAX)))
    }
}

fn seconds(time: Duration) -> u64 {
    let time = time.min(MOST);
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_never_none_by_rounding_nor_more_than_the_server_takes() {
        let zero = Some(Duration::ZERO);
        let bounds =
            Bounds::of_ttl(Duration::ZERO).idle(zero).statement(zero).unread(Duration::from_millis(1001));
        assert_eq!(
            (bounds.idle_seconds(), bounds.unread_seconds(), bounds.statement_ms()),
            (Some(1), Some(2), Some(1))
        );
        let bounds = Bounds::of_ttl(Duration::MAX).unread(None);
        assert_eq!((bounds.idle_seconds(), bounds.unread_seconds()), (Some(31_536_000), None));
        assert_eq!(bounds.statement_ms(), Some(4_294_967_295));
        assert_eq!(bounds.total(), Duration::MAX);
    }
}
