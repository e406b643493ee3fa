//! Names taken at once from a holder that a probe proves dead.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use lease_core::{
    Claimed, Clock, ErrorKind, Liveness, ManualClaimed, Ran, RunError, Slot, SlotClaimed, Tenure,
};
use lease_testkit::{Fault, Op};

use super::abandoned::{abandoned, abandoned_round, changes_before, ended, probing, renewed};
use crate::common::{SECOND, World, granted, name, term};

fn slot(n: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + SECOND * 60 * u32::try_from(n).unwrap()
}

#[tokio::test]
async fn every_claim_of_a_name_takes_it_at_once_from_a_dead_holder_under_the_next_term() {
    let world = World::new();
    let leases = probing(&world, Liveness::Dead);
    let start = world.clock.now();
    for text in ["claim", "manual", "run", "acquire", "acquire without waiting"] {
        abandoned(&world, text).await;
    }
    assert_eq!(term(leases.claim("claim").await.unwrap()).unwrap().get(), 2);
    let ManualClaimed::Granted(manual) = leases.claim_manual("manual").await.unwrap() else { panic!() };
    assert_eq!(manual.term().get(), 2);
    let ran = leases.try_run("run", |tenure| async move { Ok::<_, RunError<(), ()>>(tenure.term()) }).await;
    assert!(matches!(ran.unwrap(), Ran::Done(term) if term.get() == 2));
    assert_eq!(term(leases.acquire("acquire", SECOND * 60).await.unwrap()).unwrap().get(), 2);
    let at_once = leases.acquire("acquire without waiting", Duration::ZERO).await.unwrap();
    assert_eq!(term(at_once).unwrap().get(), 2);
    assert_eq!(world.clock.now(), start);
}

#[tokio::test]
async fn a_candidate_leads_at_once_in_place_of_a_dead_leader() {
    let world = World::new();
    abandoned(&world, "leader").await;
    let leases = probing(&world, Liveness::Dead);
    let led: Arc<Mutex<Vec<i64>>> = Arc::default();
    let noted = Arc::clone(&led);
    let work = move |tenure: Tenure| {
        noted.lock().unwrap().push(tenure.term().get());
        async move {
            tenure.stopping().await;
            Ok::<(), ()>(())
        }
    };
    let electing = tokio::spawn({
        let leases = leases.clone();
        async move { leases.elect("leader", work).await }
    });
    world.play(Duration::ZERO).await;
    assert_eq!(*led.lock().unwrap(), [2]);
    leases.shutdown();
    world.play(SECOND).await;
    ended(electing).await.unwrap();
}

#[tokio::test]
async fn an_instant_is_claimed_at_once_past_a_dead_round_which_is_named_as_given_up() {
    let world = World::new();
    let former = Slot::new(slot(1)).unwrap();
    abandoned_round(&world, "nightly", former).await;
    let leases = probing(&world, Liveness::Dead);
    let claimed = leases.claim_slot("nightly", slot(2), Duration::ZERO).await.unwrap();
    let SlotClaimed::Granted(round) = claimed else { panic!("{claimed:?}") };
    assert_eq!(round.lease().term().get(), 2);
    assert_eq!(round.superseded().unwrap().slot, former);
}

#[tokio::test]
async fn a_holder_that_renews_between_the_look_and_the_write_keeps_its_lease() {
    let world = World::new();
    let leases = probing(&world, Liveness::Dead);
    let holder = abandoned(&world, "nightly").await.holder;
    changes_before(&world, Op::ClaimObserved, "nightly", renewed);
    assert_eq!(term(leases.claim("nightly").await.unwrap()), None);
    assert_eq!(world.store.calls(Op::ClaimObserved), 1);
    changes_before(&world, Op::Clear, "nightly", renewed);
    let claimed = leases.claim_slot("nightly", slot(2), Duration::ZERO).await.unwrap();
    assert!(matches!(claimed, SlotClaimed::Held(_)));
    assert_eq!(world.store.calls(Op::Clear), 1);
    let row = world.inspect("nightly").await.row.unwrap();
    assert_eq!((row.holder, row.term.get()), (holder, 1));
    assert!(!world.is_free("nightly").await);
}

#[tokio::test]
async fn a_holder_that_may_live_is_waited_for() {
    let world = World::new();
    let leases = probing(&world, Liveness::Unknown);
    abandoned(&world, "nightly").await;
    assert_eq!(term(leases.claim("nightly").await.unwrap()), None);
    let start = world.clock.now();
    let clock = world.clock.clone();
    let waiting = tokio::spawn(async move {
        let lease = granted(leases.acquire("nightly", SECOND * 60).await.unwrap());
        (lease.term().get(), clock.now().since(start))
    });
    world.play(SECOND * 60).await;
    let (term, waited) = ended(waiting).await;
    assert_eq!(term, 2);
    assert!(waited >= SECOND * 15 && waited < SECOND * 16, "{waited:?}");
}

#[tokio::test]
async fn facts_that_are_damaged_prove_nothing() {
    let world = World::new();
    let leases = probing(&world, Liveness::Dead);
    abandoned(&world, "nightly").await;
    for text in ["", "boot=", "nonsense"] {
        world.database.edit_row(&name("nightly"), |row| text.clone_into(&mut row.process));
        assert_eq!(term(leases.claim("nightly").await.unwrap()), None, "{text:?}");
    }
    assert_eq!(world.store.calls(Op::ClaimObserved), 0);
}

#[tokio::test]
async fn a_refusal_costs_a_statement_more_only_where_a_probe_is_asked() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    let slot = slot(2);
    assert_eq!(term(world.leases.claim("nightly").await.unwrap()), None);
    assert!(matches!(
        world.leases.claim_slot("nightly", slot, Duration::ZERO).await.unwrap(),
        SlotClaimed::Held(_)
    ));
    assert_eq!(world.store.calls(Op::Inspect), 0);
    let leases = probing(&world, Liveness::Unknown);
    assert_eq!(term(leases.claim("nightly").await.unwrap()), None);
    assert_eq!(world.store.calls(Op::Inspect), 1);
    // Nor is one that is granted.
    drop(granted(leases.claim("free").await.unwrap()));
    assert_eq!(world.store.calls(Op::Inspect), 1);
}

#[tokio::test]
async fn a_look_that_fails_leaves_it_at_the_refusal() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    let leases = probing(&world, Liveness::Dead);
    world.store.next(Op::Inspect, Fault::FailBefore(ErrorKind::Unavailable));
    assert_eq!(term(leases.claim("nightly").await.unwrap()), None);
    world.store.next(Op::Inspect, Fault::HangBefore);
    let claiming = tokio::spawn(async move { leases.claim("nightly").await });
    world.play(SECOND * 5).await;
    assert!(matches!(ended(claiming).await, Ok(Claimed::Held(_))));
}

#[tokio::test]
async fn a_takeover_of_unknown_outcome_is_given_back() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    let leases = probing(&world, Liveness::Dead);
    world.store.next(Op::ClaimObserved, Fault::FailAfter(ErrorKind::Unavailable));
    let error = leases.claim("nightly").await.unwrap_err();
    assert!(error.to_string().starts_with("cannot claim lease \"nightly\""), "{error}");
    world.play(SECOND).await;
    assert!(world.is_free("nightly").await);
    assert_eq!(world.inspect("nightly").await.row.unwrap().term.get(), 2);
}

#[tokio::test]
async fn a_probe_that_is_wrong_again_and_again_makes_no_waiter_spin() {
    let world = World::new();
    let leases = probing(&world, Liveness::Dead);
    let holder = abandoned(&world, "nightly").await.holder;
    changes_before(&world, Op::ClaimObserved, "nightly", renewed);
    let waiting = tokio::spawn(async move { leases.acquire("nightly", SECOND * 10).await });
    world.play(SECOND * 10).await;
    assert!(matches!(ended(waiting).await, Ok(Claimed::Held(_))));
    assert_eq!(world.inspect("nightly").await.row.unwrap().holder, holder);
    // Ten a second: one a tick.
    let tries = world.store.calls(Op::ClaimObserved);
    assert!((2..=102).contains(&tries), "{tries} tries");
}
