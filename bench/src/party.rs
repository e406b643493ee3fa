//! Those whose cost is compared: each does the same jobs, on a connection of its own.

use async_trait::async_trait;

use crate::Outcome;
use crate::engine::Place;
use crate::floor;
use crate::ours;
use crate::rivals;

/// What is measured of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    /// Claim a name that is on record and free, and release it.
    Pair,
    /// Extend what is held.
    Renew,
    /// Ask whether it is still held.
    Verify,
    /// Claim a name that nobody has had before.
    First,
    /// Claim a name that somebody else has, and be told so.
    Lost,
    /// A transaction with one write: with a lease guarded, without bare.
    Transaction,
}

/// Who does them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The shortest statements through the bare driver.
    Floor,
    /// This library's store.
    Store,
    /// etcd's lock service, at a port of the loopback.
    Etcd { port: u16 },
    /// A key of Redis, at a port of the loopback.
    Redis { port: u16 },
    /// PostgreSQL's advisory lock through the bare driver.
    Advisory,
    /// The same through sqlx.
    Sqlx,
}

/// Does the jobs one after another. Lives on one thread, in a runtime of its own.
#[async_trait(?Send)]
pub(crate) trait Party {
    /// Brings about what a job begins from. Not measured.
    async fn prepare(&mut self, job: Job) -> Outcome<()>;

    /// Does it once; an error when it had another outcome than it should.
    async fn perform(&mut self, job: Job) -> Outcome<()>;
}

impl Who {
    pub(crate) async fn join(self, place: &Place) -> Outcome<Box<dyn Party>> {
        match self {
            Self::Floor => floor::join(place).await,
            Self::Store => ours::join(place).await,
            Self::Etcd { port } => rivals::join_etcd(port).await,
            Self::Redis { port } => rivals::join_redis(port).await,
            Self::Advisory => rivals::join_advisory(place).await,
            Self::Sqlx => rivals::join_sqlx(place).await,
        }
    }
}

/// Longer than any run, in milliseconds, and another with each call: a database that is told to write what is there already may leave
/// it, and with it the flush.
#[derive(Debug, Default)]
pub(crate) struct Ttls(u16);

impl Ttls {
    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(1);
        3_600_000 + u32::from(self.0)
    }
}

pub(crate) fn expect(is_so: bool, what: &str) -> Outcome<()> {
    if is_so { Ok(()) } else { Err(format!("it should be so, and is not: {what}").into()) }
}
