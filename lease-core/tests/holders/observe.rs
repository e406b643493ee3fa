//! A row that nobody renews is that of a dead holder, whatever the database's clock says.

use std::time::Duration;

use lease_core::store::DbTime;
use lease_core::{Clock, Lease, Leases};
use lease_testkit::ManualClock;
use tokio::task::JoinHandle;

use super::abandoned::{AN_HOUR_BACK, abandoned, ended};
use crate::common::{MS, SECOND, World, granted, name};

/// A ttl and the margin.
const PATIENCE: Duration = Duration::from_millis(15_500);
/// A campaign interval and its fifth.
const POLL: Duration = Duration::from_secs(6);

/// Waits for the name, and says after how long it came.
fn waits(world: &World, leases: Leases) -> JoinHandle<(Lease, Duration)> {
    let (clock, start) = (world.clock.clone(), world.clock.now());
    tokio::spawn(async move {
        let lease = granted(leases.acquire("nightly", SECOND * 3_600).await.unwrap());
        (lease, clock.now().since(start))
    })
}

#[tokio::test]
async fn a_dead_holder_is_replaced_though_the_databases_clock_was_stepped_back_an_hour() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    world.database.step_clock(AN_HOUR_BACK);
    let waiting = waits(&world, world.leases.clone());
    world.play(PATIENCE - MS).await;
    assert!(!waiting.is_finished());
    world.play(POLL).await;
    let (lease, waited) = ended(waiting).await;
    assert_eq!(lease.term().get(), 2);
    assert!(waited >= PATIENCE && waited < PATIENCE + POLL, "{waited:?}");
}

#[tokio::test]
async fn it_is_replaced_though_its_clock_is_stepped_back_while_somebody_waits() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    let waiting = waits(&world, world.leases.clone());
    world.play(SECOND * 10).await;
    world.database.step_clock(AN_HOUR_BACK);
    world.play(PATIENCE + POLL).await;
    let (_, waited) = ended(waiting).await;
    assert!(waited >= PATIENCE && waited < PATIENCE + POLL, "{waited:?}");
}

#[tokio::test]
async fn a_row_with_an_absurd_expiry_strands_nobody() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    world.database.edit_row(&name("nightly"), |row| row.expires_at = DbTime::from_millis(i64::MAX));
    let waiting = waits(&world, world.leases.clone());
    world.play(PATIENCE + POLL).await;
    let (_, waited) = ended(waiting).await;
    assert!(waited >= PATIENCE, "{waited:?}");
}

#[tokio::test]
async fn a_row_is_watched_for_the_ttl_that_its_holder_asked_for() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    world.database.edit_row(&name("nightly"), |row| {
        row.ttl = SECOND * 600;
        row.expires_at = DbTime::from_millis(i64::MAX);
    });
    let waiting = waits(&world, world.leases.clone());
    world.play(SECOND * 600).await;
    assert!(!waiting.is_finished());
    world.play(POLL + SECOND).await;
    assert!(ended(waiting).await.1 > SECOND * 600);
}

#[tokio::test]
async fn a_holder_that_renews_is_never_replaced_whatever_the_databases_clock_says() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.database.step_clock(AN_HOUR_BACK);
    let waiting = waits(&world, world.other());
    world.play(SECOND * 600).await;
    world.database.step_clock(AN_HOUR_BACK);
    world.play(SECOND * 600).await;
    assert!(lease.check());
    assert!(!waiting.is_finished());
    waiting.abort();
}

#[tokio::test]
async fn a_waiter_that_stood_still_does_not_take_a_live_holder_for_dead() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let clock = ManualClock::new();
    let waiter = Leases::builder(world.database.clone()).clock(clock.clone()).build().unwrap();
    let waiting = tokio::spawn(async move { waiter.acquire("nightly", SECOND * 3_600).await });
    for stands_still in [SECOND, SECOND * 20, SECOND * 3_000] {
        for _ in 0..7 {
            clock.play(SECOND).await;
            world.play(SECOND).await;
        }
        // The process is stopped; its clock goes on, as does the world.
        world.play(stands_still).await;
        clock.jump(stands_still);
    }
    for _ in 0..20 {
        clock.play(SECOND).await;
        world.play(SECOND).await;
    }
    assert!(!waiting.is_finished());
    assert!(lease.check());
    assert_eq!(world.inspect("nightly").await.row.unwrap().term.get(), 1);
    waiting.abort();
}

#[tokio::test]
async fn of_two_who_find_a_holder_dead_at_once_one_gets_the_name() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    world.database.step_clock(AN_HOUR_BACK);
    let waiting = [waits(&world, world.other()), waits(&world, world.other())];
    world.play(PATIENCE + POLL).await;
    let granted = waiting.iter().filter(|waiting| waiting.is_finished()).count();
    world.play(SECOND * 120).await;
    assert_eq!((granted, waiting.iter().filter(|waiting| waiting.is_finished()).count()), (1, 1));
    assert_eq!(world.inspect("nightly").await.row.unwrap().term.get(), 2);
    waiting.iter().for_each(JoinHandle::abort);
}
