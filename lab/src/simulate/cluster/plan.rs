//! What a seed makes of a cluster: its size, timings, clocks, guard, and how often something befalls it.

use std::time::Duration;

use lease_core::Timings;

use super::random::Random;
use super::time::{Nanos, nanos};

/// What is simulated. The same plan is the same run, to the last event, where tokio can be told what it draws from: node.rs.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// What all chance is drawn from.
    pub seed: u64,
    /// How much true time passes.
    pub span: Duration,
    /// Also what the promise does not cover: suspensions that a local clock does not see, and clocks of the database stepped
    /// forward by more than the margin. What that breaks is counted apart; the fence must hold all the same.
    pub holes: bool,
    /// Nothing befalls the cluster: to see that floors tell a simulation that tries nothing.
    pub idle: bool,
    /// What is wrong with the database: to see that the checks tell.
    pub broken: Option<Broken>,
}

/// A database that breaks its contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Guarded transactions commit whoever holds the name.
    NoFence,
    /// A claim is granted though the name is held.
    GrantsWhatIsHeld,
    /// A claim does not raise the term.
    RepeatsTerms,
    /// An instant is granted before it has come.
    GrantsEarly,
    /// A finished round is taken for one that was cut short.
    ForgetsEnds,
    /// What is renewed expires all the same.
    ForgetsRenewals,
    /// The session of a client that is gone stays open.
    KeepsSessions,
    /// With the end of a round the instant after it is taken for one that was run.
    SkipsInstants,
}

/// How a guarded transaction keeps a successor out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    /// The lease is looked at with the commit, as on MySQL.
    AtCommit,
    /// Claims of the name are refused while it is open, as on PostgreSQL.
    FromBegin,
    /// Nobody else writes while it is open, as on SQLite; its commit renews.
    OneWriter,
}

/// What is drawn from the seed before time begins.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) clients: usize,
    pub(super) timings: Timings,
    /// How far a client's clock drifts at most, in millionths.
    pub(super) drift: i64,
    /// How far the database's clock is stepped forward at most between two renewals of trust.
    pub(super) forward: Duration,
    pub(super) fence: Fence,
    /// Whether the store hears of names given back.
    pub(super) hears: bool,
    /// Between two faults, on average.
    pub(super) pace: Nanos,
    /// Between two instants of the schedule, in ms of the database.
    pub(super) period_ms: i64,
}

impl Setting {
    pub(super) fn draw(random: &mut Random) -> Self {
        // Long ones mostly: what matters happens per ttl, and an hour of a short one has many.
        let ttl = Duration::from_secs(random.weighted(&[(1, 15), (3, 60), (6, 150), (6, 300)]));
        let timings = Timings::from_ttl(ttl).unwrap_or_default();
        // The margin is spent once: on clocks that drift, or on a database's that is stepped.
        let steps = random.percent(50);
        let (drift, forward) = if steps { (10_000, timings.margin() / 2) } else { (30_000, Duration::ZERO) };
        let fences = [(1, Fence::AtCommit), (1, Fence::FromBegin), (1, Fence::OneWriter)];
        Self {
            clients: usize::try_from(random.within(3..6)).unwrap_or(3),
            timings,
            drift,
            forward,
            fence: random.weighted(&fences),
            hears: random.percent(60),
            pace: nanos(ttl).saturating_mul(3).min(200_000_000_000) / 2,
            period_ms: i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX) * 7 / 5,
        }
    }

    /// A share of the ttl, in hundredths.
    pub(super) fn ttls(&self, hundredths: u64) -> Nanos {
        nanos(self.timings.ttl()) / 100 * hundredths
    }
}
