//! How well a lease is held, for a liveness probe.

use std::time::Duration;

/// How well a lease is held, by the local clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether it is held: what [`Tenure::check`](crate::Tenure::check) says.
    pub held: bool,
    /// How long ago the last successful renewal was sent.
    pub renewed_ago: Duration,
    /// How long it is still held if no further renewal succeeds; zero when lost.
    pub left: Duration,
    /// Held, and renewed within the last two [`renew`](crate::Timings::renew) intervals: renewals work.
    pub well: bool,
}
