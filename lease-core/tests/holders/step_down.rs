//! Leadership handed over on request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_core::{Clock, ErrorKind, Leases, ManualClaimed, Standing, Tenure};
use lease_testkit::Op;

use super::abandoned::{abandoned, changes_before, ended};
use crate::common::{SECOND, World};

/// Who led from when.
type Led = Arc<Mutex<Vec<(&'static str, Duration)>>>;

/// Leads as `who` until it is asked to stop.
fn elects(world: &World, leases: Leases, who: &'static str, led: &Led) {
    let (clock, start, led) = (world.clock.clone(), world.clock.now(), Arc::clone(led));
    drop(tokio::spawn(async move {
        let work = move |tenure: Tenure| {
            led.lock().unwrap().push((who, clock.now().since(start)));
            async move {
                tenure.stopping().await;
                Ok::<(), ()>(())
            }
        };
        leases.elect("leader", work).await
    }));
}

#[tokio::test]
async fn a_request_moves_the_leadership_within_two_renew_intervals_and_it_does_not_come_back_by_itself() {
    let world = World::new();
    let led = Led::default();
    elects(&world, world.other(), "first", &led);
    world.play(SECOND).await;
    elects(&world, world.leases.clone(), "second", &led);
    world.play(SECOND * 9).await;
    let asked = world.other().request_step_down("leader").await.unwrap();
    assert_eq!((asked.standing(), asked.term().unwrap().get()), (Standing::Held, 1));
    world.play(SECOND * 120).await;
    let led = led.lock().unwrap().clone();
    let [("first", first), ("second", second)] = led[..] else { panic!("{led:?}") };
    assert_eq!(first, Duration::ZERO);
    assert!(second >= SECOND * 10 && second <= SECOND * 14, "{second:?}");
}

#[tokio::test]
async fn so_it_does_where_nothing_is_heard_and_each_time() {
    let world = World::new();
    world.store.deafen();
    let led = Led::default();
    let deaf = Leases::builder(world.store.clone()).clock(world.clock.clone()).build().unwrap();
    elects(&world, deaf, "first", &led);
    world.play(SECOND).await;
    elects(&world, world.leases.clone(), "second", &led);
    for n in 1..=12 {
        // Whoever stood aside is a candidate again by now.
        world.play(SECOND * 13).await;
        let asked = world.clock.now();
        world.leases.request_step_down("leader").await.unwrap();
        world.play(SECOND * 13).await;
        let led = led.lock().unwrap().clone();
        assert_eq!(led.len(), n + 1, "{led:?}");
        let [.., (before, _), (after, at)] = led[..] else { panic!("{led:?}") };
        assert_ne!(before, after, "{led:?}");
        assert!(at <= asked.since_zero() + SECOND * 4, "{led:?}");
    }
}

#[tokio::test]
async fn who_has_the_name_meanwhile_is_asked_anew() {
    let world = World::new();
    abandoned(&world, "leader").await;
    changes_before(&world, Op::Resign, "leader", |row| {
        if row.term.get() < 3 {
            row.term = lease_core::Term::new(row.term.get() + 1).unwrap();
        }
    });
    let leases = world.leases.clone();
    let asking = tokio::spawn(async move { leases.request_step_down("leader").await });
    world.play(SECOND).await;
    let asked = ended(asking).await.unwrap();
    assert_eq!(asked.term().unwrap().get(), 3);
    assert_eq!(world.store.calls(Op::Resign), 3);
    assert_eq!(world.inspect("leader").await.row.unwrap().resign_term, 3);
}

#[tokio::test]
async fn of_a_free_name_nobody_is_asked() {
    let world = World::new();
    assert_eq!(world.leases.request_step_down("never").await.unwrap().standing(), Standing::Never);
    world.claim("released").await.release().await.unwrap();
    assert_eq!(world.leases.request_step_down("released").await.unwrap().standing(), Standing::Released);
    assert_eq!(world.store.calls(Op::Resign), 0);
}

#[tokio::test]
async fn the_request_rides_on_the_renewals_and_leaves_the_lease_held() {
    let world = World::new();
    let lease = world.claim("leader").await;
    let tenure = lease.tenure();
    world.other().request_step_down("leader").await.unwrap();
    assert!(!tenure.is_stopping());
    let before = world.store.log().len();
    world.play(SECOND * 60).await;
    assert!(tenure.is_stopping());
    tenure.stopping().await;
    assert!(tenure.check());
    let log = world.store.log();
    assert_eq!(log.len() - before, 30);
    assert!(log[before..].iter().all(|call| call.op == Op::Renew));
}

#[tokio::test]
async fn a_lease_of_a_batch_hears_of_its_own_request_alone() {
    let world = World::new();
    let (asked, other) = (world.claim("asked").await, world.claim("other").await);
    world.other().request_step_down("asked").await.unwrap();
    world.play(SECOND * 2).await;
    assert_eq!(world.store.calls(Op::RenewMany), 1);
    assert!(asked.tenure().is_stopping());
    assert!(!other.tenure().is_stopping());
}

#[tokio::test]
async fn a_lease_that_is_renewed_by_hand_hears_of_it_with_its_next_renewal() {
    let world = World::new();
    let ManualClaimed::Granted(lease) = world.leases.claim_manual("leader").await.unwrap() else { panic!() };
    let tenure = lease.tenure();
    world.other().request_step_down("leader").await.unwrap();
    assert!(!tenure.is_stopping());
    assert!(lease.renew().await.unwrap());
    assert!(tenure.is_stopping());
    assert!(lease.check());
}

#[tokio::test]
async fn a_renewal_that_a_transaction_carried_brings_the_request_along() {
    let world = World::new();
    let tenure = world.claim("leader").await.tenure();
    let lease = world.claim("other").await;
    let carried = lease.tenure();
    carried.carry_renewal().committed(false);
    assert!(!carried.is_stopping());
    carried.carry_renewal().committed(true);
    assert!(carried.is_stopping());
    drop(tenure);
}

#[tokio::test]
async fn a_request_concerns_no_later_term() {
    let world = World::new();
    let first = world.claim("leader").await;
    world.leases.request_step_down("leader").await.unwrap();
    first.release().await.unwrap();
    let second = world.claim("leader").await;
    world.play(SECOND * 10).await;
    assert!(!second.tenure().is_stopping());
}

#[tokio::test]
async fn a_request_that_is_always_too_late_ends_with_the_shutdown_and_does_not_spin() {
    let world = World::new();
    abandoned(&world, "leader").await;
    changes_before(&world, Op::Resign, "leader", |row| {
        // Who spins would do so for ever.
        if row.term.get() < 100 {
            row.term = lease_core::Term::new(row.term.get() + 1).unwrap();
        }
    });
    let leases = world.leases.clone();
    let asking = tokio::spawn(async move { leases.request_step_down("leader").await });
    world.play(SECOND).await;
    let asked = world.store.calls(Op::Resign);
    assert!((5..=11).contains(&asked), "{asked} requests in 1 s");
    assert!(!asking.is_finished());
    world.leases.shutdown();
    world.play(Duration::ZERO).await;
    assert_eq!(ended(asking).await.unwrap_err().kind(), ErrorKind::Closed);
}
