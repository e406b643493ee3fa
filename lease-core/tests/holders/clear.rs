//! Names freed by hand: only ever from a holder that is proven dead.

use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use lease_core::store::DbTime;
use lease_core::{ClearError, Clock, ErrorKind, Liveness, Sighting, Slot, Standing};
use lease_testkit::{Fault, Op};

use super::abandoned::{AN_HOUR_BACK, abandoned, abandoned_round, changes_before, ended, probing, renewed};
use crate::common::{MS, SECOND, World, name};

const AT_ONCE: Duration = Duration::ZERO;

#[track_caller]
fn live(cleared: Result<Sighting, ClearError>) -> Sighting {
    match cleared {
        Err(ClearError::Live(sighting)) => *sighting,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_live_lease_is_refused_with_its_holder_and_stays() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let refused = world.other().clear("nightly", AT_ONCE).await.unwrap_err();
    let text = refused.to_string();
    assert!(text.starts_with("\"nightly\" is held by ") && text.contains("it is not cleared"), "{text}");
    let sighting = live(Err(refused));
    assert_eq!(sighting.row().unwrap().holder, lease.holder());
    world.play(SECOND * 20).await;
    assert!(lease.check());
}

#[tokio::test]
async fn a_holder_that_renews_while_it_is_watched_is_refused_as_soon_as_it_has() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let (leases, clock, start) = (world.other(), world.clock.clone(), world.clock.now());
    let clearing = tokio::spawn(async move {
        live(leases.clear("nightly", SECOND * 60).await);
        clock.now().since(start)
    });
    world.play(SECOND * 60).await;
    let watched = ended(clearing).await;
    assert!(watched >= SECOND * 2 && watched <= SECOND * 6, "{watched:?}");
    assert!(lease.check());
}

#[tokio::test]
async fn a_free_name_is_answered_as_it_is() {
    let world = World::new();
    assert_eq!(world.leases.clear("never", AT_ONCE).await.unwrap().standing(), Standing::Never);
    world.claim("released").await.release().await.unwrap();
    assert_eq!(world.leases.clear("released", AT_ONCE).await.unwrap().standing(), Standing::Released);
    abandoned(&world, "expired").await;
    world.play(SECOND * 15).await;
    assert_eq!(world.leases.clear("expired", AT_ONCE).await.unwrap().standing(), Standing::Expired);
    assert_eq!(world.store.calls(Op::Clear), 0);
}

#[tokio::test]
async fn a_holder_proven_dead_by_the_probe_is_freed_at_once_and_slots_and_term_stay() {
    let world = World::new();
    let slot = Slot::new(SystemTime::UNIX_EPOCH + SECOND * 60).unwrap();
    abandoned_round(&world, "nightly", slot).await;
    let before = world.inspect("nightly").await.row.unwrap();
    let freed = probing(&world, Liveness::Dead).clear("nightly", AT_ONCE).await.unwrap();
    assert_eq!((freed.standing(), freed.row()), (Standing::Held, Some(&before)));
    let mut after = world.inspect("nightly").await.row.unwrap();
    assert_eq!(after.expires_at, DbTime::RELEASED);
    after.expires_at = before.expires_at;
    assert_eq!(after, before);
}

#[tokio::test]
async fn a_holder_that_does_not_renew_for_a_ttl_and_the_margin_is_freed() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    world.database.step_clock(AN_HOUR_BACK);
    let (leases, clock, start) = (world.other(), world.clock.clone(), world.clock.now());
    let clearing = tokio::spawn(async move {
        let freed = leases.clear("nightly", MS * 15_500).await.unwrap();
        (freed.standing(), clock.now().since(start))
    });
    world.play(SECOND * 20).await;
    assert_eq!(ended(clearing).await, (Standing::Held, MS * 15_500));
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_wait_that_can_prove_nothing_is_not_begun() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    world.database.step_clock(AN_HOUR_BACK);
    live(world.other().clear("nightly", MS * 15_499).await);
    assert!(!world.is_free("nightly").await);
}

#[tokio::test]
async fn a_wait_ends_with_the_expiry() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    let (leases, clock, start) = (world.leases.clone(), world.clock.clone(), world.clock.now());
    let clearing = tokio::spawn(async move {
        let seen = leases.clear("nightly", SECOND * 15).await.unwrap();
        (seen.standing(), clock.now().since(start))
    });
    world.play(SECOND * 20).await;
    assert_eq!(ended(clearing).await, (Standing::Expired, SECOND * 15));
    assert_eq!(world.store.calls(Op::Clear), 0);
}

#[tokio::test]
async fn a_holder_that_renews_between_the_look_and_the_write_keeps_its_lease() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    changes_before(&world, Op::Clear, "nightly", renewed);
    live(probing(&world, Liveness::Dead).clear("nightly", AT_ONCE).await);
    assert_eq!(world.store.calls(Op::Clear), 1);
    assert!(!world.is_free("nightly").await);
}

#[tokio::test]
async fn a_name_given_back_between_the_look_and_the_write_is_answered_as_free() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    changes_before(&world, Op::Clear, "nightly", |row| row.expires_at = DbTime::RELEASED);
    let seen = probing(&world, Liveness::Dead).clear("nightly", AT_ONCE).await.unwrap();
    assert_eq!(seen.standing(), Standing::Released);
}

#[tokio::test]
async fn a_lost_answer_is_an_error_and_the_statement_is_not_sent_again() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    world.store.always(Op::Clear, Fault::FailAfter(ErrorKind::Unavailable));
    let error = probing(&world, Liveness::Dead).clear("nightly", AT_ONCE).await.unwrap_err();
    assert!(matches!(&error, ClearError::Store(error) if error.kind() == ErrorKind::Unavailable));
    assert!(error.to_string().starts_with("cannot clear lease \"nightly\""), "{error}");
    world.play(SECOND * 60).await;
    assert_eq!(world.store.calls(Op::Clear), 1);
}

#[tokio::test]
async fn a_holder_whose_facts_are_damaged_is_not_proven_dead() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    world.database.edit_row(&name("nightly"), |row| row.process.push_str(" pid=1"));
    live(probing(&world, Liveness::Dead).clear("nightly", AT_ONCE).await);
    assert!(!world.is_free("nightly").await);
}

#[tokio::test]
async fn who_waits_for_the_name_is_told_and_clear_does_not_wait_for_that() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    let waiter = world.other();
    let waiting = tokio::spawn(async move { waiter.acquire("nightly", SECOND * 60).await });
    world.play(SECOND).await;
    let leases = probing(&world, Liveness::Dead);
    world.store.next(Op::Announce, Fault::DelayBefore(SECOND));
    leases.clear("nightly", AT_ONCE).await.unwrap();
    world.play(SECOND - MS).await;
    assert!(!waiting.is_finished());
    world.play(MS).await;
    assert!(waiting.is_finished());
    ended(waiting).await.map(drop).unwrap();
}

#[tokio::test]
async fn a_look_that_fails_while_it_watches_is_made_again_and_a_first_one_is_an_error() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    world.database.step_clock(AN_HOUR_BACK);
    world.store.next(Op::Inspect, Fault::FailBefore(ErrorKind::Unavailable));
    let error = world.leases.clear("nightly", SECOND * 60).now_or_never().unwrap().unwrap_err();
    assert!(matches!(&error, ClearError::Store(error) if error.kind() == ErrorKind::Unavailable), "{error}");
    let leases = world.leases.clone();
    let clearing = tokio::spawn(async move { leases.clear("nightly", SECOND * 60).await });
    world.play(SECOND).await;
    world.store.always(Op::Inspect, Fault::FailBefore(ErrorKind::Unavailable));
    world.play(SECOND * 10).await;
    assert!(!clearing.is_finished());
    world.store.heal();
    world.play(SECOND * 20).await;
    ended(clearing).await.unwrap();
    assert!(world.is_free("nightly").await);
}
