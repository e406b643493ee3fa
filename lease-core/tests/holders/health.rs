//! How well a lease is held.

use std::time::Duration;

use lease_core::{ErrorKind, Health};
use lease_testkit::{Fault, Op};

use crate::common::{MS, SECOND, World};

#[tokio::test]
async fn a_lease_is_well_until_its_renewals_fail_for_two_intervals_and_held_until_the_deadline() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let tenure = lease.tenure();
    let fresh = Seen { held: true, renewed_ago: Duration::ZERO, left: SECOND * 10, well: true };
    assert_eq!(seen(lease.health()), fresh);
    world.play(SECOND * 3).await;
    assert_eq!(seen(tenure.health()), Seen { renewed_ago: SECOND, left: SECOND * 9, ..fresh });

    world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Unavailable));
    world.play(SECOND * 3).await;
    let stale = Seen { renewed_ago: SECOND * 4, left: SECOND * 6, ..fresh };
    assert_eq!(seen(tenure.health()), stale);
    world.play(MS).await;
    assert_eq!(
        seen(tenure.health()),
        Seen { renewed_ago: SECOND * 4 + MS, left: SECOND * 6 - MS, well: false, ..fresh }
    );
    world.play(SECOND * 6).await;
    let lost = Seen { held: false, renewed_ago: SECOND * 10 + MS, left: Duration::ZERO, well: false };
    assert_eq!(seen(tenure.health()), lost);
}

#[tokio::test]
async fn a_lease_that_was_given_up_is_not_held_though_it_was_renewed_a_moment_ago() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    lease.release().await.unwrap();
    let over = Seen { held: false, renewed_ago: Duration::ZERO, left: Duration::ZERO, well: false };
    assert_eq!(seen(lease.health()), over);
}

#[tokio::test]
async fn a_deadline_that_nobody_has_noticed_yet_is_seen() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.clock.jump(SECOND * 10);
    assert!(lease.reason().is_none());
    assert!(!lease.health().held && !lease.health().well);
}

/// What there is to see of a `Health`, which nobody but the library makes.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Seen {
    held: bool,
    renewed_ago: Duration,
    left: Duration,
    well: bool,
}

fn seen(health: Health) -> Seen {
    let Health { held, renewed_ago, left, well, .. } = health;
    Seen { held, renewed_ago, left, well }
}
