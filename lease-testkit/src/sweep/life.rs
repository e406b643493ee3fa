//! The sweep over the messages of a lease as programs have one: through [`Leases`], which claims, renews and gives back by itself.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use lease_core::store::ClaimAnswer;
use lease_core::{Claimed, Error, Holder, Lease, LeaseName, Leases, TimingParts, Timings};

use super::extent::Extent;
use super::mishap::{Mishap, Place};
use super::operation::claim;
use super::wire::Server;
use crate::{Direction, Proxy};

/// For what must go well, on however slow a machine.
const LONG: Duration = Duration::from_secs(120);

/// One that [`LONG`] does not outlast: what frees a name before is no expiry.
const UNEXPIRED: Duration = Duration::from_secs(300);

/// So many at once.
const AT_ONCE: usize = 16;

/// About so many are in a part of the sweep.
const PART: usize = 60;

/// The step of a lease's life that is disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Claim,
    Renew,
    Release,
}

#[derive(Clone, Copy)]
struct Point {
    step: Step,
    place: Place,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}", self.step, self.place)
    }
}

/// Sweeps over the claim, a renewal and the release of a lease, at each message: after the claim, whatever became of it, and
/// after the release the name can be had by somebody else, long before the lease would expire where the server is there
/// again, and at its expiry where it is not; a lease that is renewed survives.
///
/// # Panics
///
/// When that is not so, or when the sweep has not come to so many points as `at_least`.
pub async fn sweep_lives(server: &Server, at_least: usize) {
    let (extent, since) = (Extent::told(), Instant::now());
    println!("{extent:?}");
    let mut points = Vec::new();
    for step in [Step::Claim, Step::Renew, Step::Release] {
        let messages = messages(server, step).await;
        let mishaps: &[Mishap] = match step {
            Step::Claim | Step::Release => &[Mishap::Cut, Mishap::Silent, Mishap::Late, Mishap::Away],
            Step::Renew => &[Mishap::Cut, Mishap::Silent, Mishap::Late],
        };
        for (direction, last) in [Direction::ToServer, Direction::ToClient].into_iter().zip(messages) {
            assert!(last > 0, "{step:?}: no message goes by");
            for mishap in mishaps {
                for is_after in [false, true] {
                    let place = |n| Place { mishap: *mishap, is_after, direction, n };
                    points.extend((1..=last).map(|n| Point { step, place: place(n) }));
                }
            }
        }
    }
    let (all, one_in) = (points.len(), points.len().div_ceil(PART));
    let points = points.into_iter().enumerate().filter(|(place, _)| extent.has(*place, one_in));
    let points: Vec<Point> = points.map(|(_, point)| point).collect();
    let ran = stream::iter(points).map(|point| point.run(server)).buffer_unordered(AT_ONCE);
    let came: Vec<bool> = ran.collect().await;
    let came = came.into_iter().filter(|came| *came).count();
    println!("{came} points of {all} in the lives of leases in {:?}", since.elapsed());
    assert!(came >= at_least, "the sweep has come to {came} points");
}

/// How many messages of an undisturbed step go each way. On a machine that stands still for a while renewals would go by beside; so there
/// are few.
async fn messages(server: &Server, step: Step) -> [u64; 2] {
    let life = Life::warm(server, UNEXPIRED, SELDOM).await;
    let count = |way| life.proxy.log().iter().filter(|passed| passed.direction == way).count() as u64;
    let both = || [count(Direction::ToServer), count(Direction::ToClient)];
    life.proxy.reset();
    let lease = life.held().await;
    if step == Step::Claim {
        return both();
    }
    life.proxy.reset();
    life.is_renewed(server, "undisturbed").await;
    // Its answer may still be on the way.
    tokio::time::sleep(SELDOM / 4).await;
    if step == Step::Renew {
        return both();
    }
    life.proxy.reset();
    let _ = lease.release().await;
    both()
}

impl Point {
    /// Whether it came to the message.
    async fn run(self, server: &Server) -> bool {
        let is_away = self.place.mishap == Mishap::Away;
        let ttl = if is_away { server.beside.min_ttl().max(Duration::from_secs(3)) } else { UNEXPIRED };
        let life = Life::warm(server, ttl, OFTEN).await;
        if is_away && self.step == Step::Claim {
            life.proxy.refuse();
        }
        let planned = match self.step {
            Step::Claim => {
                let planned = self.place.plan(&life.proxy);
                // Told or not, nobody wants it.
                drop(life.claimed().await);
                planned
            }
            Step::Renew => {
                let lease = life.held().await;
                life.is_renewed(server, "undisturbed").await;
                let planned = self.place.plan(&life.proxy);
                self.comes(&life.proxy).await;
                tokio::time::sleep(ATTEMPT).await;
                planned.is_through();
                planned.ends(&life.proxy);
                life.is_renewed(server, &self.to_string()).await;
                assert!(lease.check(), "{self}: lost: {:?}", lease.reason());
                drop(lease);
                planned
            }
            Step::Release => {
                let lease = life.held().await;
                if is_away {
                    life.proxy.refuse();
                }
                let planned = self.place.plan(&life.proxy);
                let released = tokio::spawn(async move { lease.release().await });
                self.comes(&life.proxy).await;
                if !is_away {
                    tokio::time::sleep(ATTEMPT).await;
                }
                drop(released);
                planned
            }
        };
        let came = life.proxy.planned() == 0;
        planned.is_through();
        if !is_away {
            planned.ends(&life.proxy);
        }
        life.is_free(server, self).await;
        came
    }

    /// Waits until it has come to the message. A renewal of a lease that is released is not sent any more, so it may not.
    async fn comes(self, proxy: &Proxy) {
        let give_up = Instant::now() + Duration::from_secs(5);
        while proxy.planned() > 0 && Instant::now() < give_up {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// How often a lease is renewed, so that none has to wait for it,
const OFTEN: Duration = Duration::from_millis(100);

/// and where a renewal more would be in the way.
const SELDOM: Duration = Duration::from_secs(2);

/// How long an attempt takes at most.
const ATTEMPT: Duration = Duration::from_millis(1_000);

/// A client whose connections have been used before, and a name.
struct Life {
    proxy: Arc<Proxy>,
    leases: Leases,
    name: LeaseName,
}

impl Life {
    async fn warm(server: &Server, ttl: Duration, renew: Duration) -> Self {
        let (proxy, store) = server.wired();
        let timings = Timings::new(TimingParts {
            ttl,
            renew,
            attempt: ATTEMPT.max(renew * 2),
            deadline: (ttl / 3 * 2).max(ATTEMPT * 2),
            grace: ttl / 10,
            margin: ttl / 10,
        });
        let timings = timings.expect("timings that fit together");
        let leases = Leases::builder_shared(store).timings(timings).on_stuck(|_| {}).build().expect("leases");
        let name =
            LeaseName::new(&format!("life-{}", Holder::mint().expect("random numbers"))).expect("a name");
        let life = Self { proxy: Arc::new(proxy), leases, name };
        let lease = life.held().await;
        // One that can expire meanwhile need not be renewed in time on a slow machine.
        if ttl == UNEXPIRED {
            life.is_renewed(server, "undisturbed").await;
        }
        // If that fails, it goes on by itself.
        let _ = lease.release().await;
        life
    }

    /// A claim that nothing disturbs. On a slow machine it can take more than the time for an attempt.
    async fn held(&self) -> Lease {
        let give_up = Instant::now() + LONG;
        loop {
            match self.claimed().await {
                Ok(lease) => return lease,
                Err(error) => assert!(Instant::now() < give_up, "{error}"),
            }
        }
    }

    async fn claimed(&self) -> Result<Lease, Error> {
        let give_up = Instant::now() + LONG;
        loop {
            match self.leases.claim(self.name.clone()).await? {
                Claimed::Granted(lease) => return Ok(lease),
                // One of its own before this is being given back.
                Claimed::Held(_) => assert!(Instant::now() < give_up, "held by nobody"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a renewal has taken place that was sent after now.
    async fn is_renewed(&self, server: &Server, point: &str) {
        let seen = server.beside.inspect(&self.name, LONG).await.expect("an answer");
        let give_up = Instant::now() + LONG;
        loop {
            let now = server.beside.inspect(&self.name, LONG).await.expect("an answer").row.expect("a row");
            if now.renewed_at > seen.now {
                return;
            }
            assert!(Instant::now() < give_up, "{point}: not renewed any more");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Somebody else gets it, and its term is the next.
    async fn is_free(&self, server: &Server, point: Point) {
        let give_up = Instant::now() + LONG;
        let next = loop {
            let next = claim(self.name.clone(), Holder::mint().expect("random numbers"));
            match server.beside.claim(&next, LONG).await.expect("an answer") {
                ClaimAnswer::Granted(_) => break next,
                ClaimAnswer::Held => {
                    assert!(Instant::now() < give_up, "{point}: nobody gets the name any more");
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let verified = server.beside.renew(&next.name, &next.holder, next.ttl, LONG).await;
        assert!(matches!(verified, Ok(lease_core::store::RenewAnswer::Renewed(_))), "{point}: {verified:?}");
    }
}
