//! Who waits for a name hears that it was given back, and looks no more often than is worth it.

use std::time::Duration;

use futures_util::FutureExt;
use lease_core::store::{DbTime, Hint, Notifier};
use lease_core::{Claimed, Clock, LeaseStore, Leases, Tenure};
use lease_testkit::{Fault, Op};
use tokio::task::JoinHandle;

use super::abandoned::{abandoned, ended};
use crate::common::{MS, SECOND, World, granted, name};

/// Waits for the name and says after how long it came.
fn waits(world: &World, leases: Leases) -> JoinHandle<Duration> {
    let (clock, start) = (world.clock.clone(), world.clock.now());
    tokio::spawn(async move {
        drop(granted(leases.acquire("nightly", SECOND * 60).await.unwrap()));
        clock.now().since(start)
    })
}

#[tokio::test]
async fn a_waiter_comes_at_once_when_another_process_gives_the_name_back() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let waiting = waits(&world, world.other());
    world.play(SECOND).await;
    lease.release().await.unwrap();
    world.play(Duration::ZERO).await;
    assert_eq!(ended(waiting).await, SECOND);
}

#[tokio::test]
async fn a_candidate_leads_at_once_when_the_leader_gives_the_name_back() {
    let world = World::new();
    let lease = world.claim("leader").await;
    let (other, clock, start) = (world.other(), world.clock.clone(), world.clock.now());
    let electing = tokio::spawn(async move {
        let work = move |_: Tenure| {
            let led_after = clock.now().since(start);
            async move { Err::<(), _>(led_after) }
        };
        other.elect("leader", work).await
    });
    world.play(SECOND).await;
    lease.release().await.unwrap();
    world.play(Duration::ZERO).await;
    let ended = ended(electing).await;
    assert!(matches!(ended, Err(lease_core::RunError::Work(after)) if after == SECOND), "{ended:?}");
}

#[tokio::test]
async fn what_is_told_between_the_refusal_and_the_wait_is_heard() {
    let world = World::new();
    let holder = world.other().claim("nightly").await.map(granted).unwrap();
    // The look that follows the refusal sees the holder; its answer comes when the name is free.
    world.store.next(Op::Inspect, Fault::DelayAfter(SECOND));
    let waiting = waits(&world, world.leases.clone());
    world.play(MS * 500).await;
    holder.release().await.unwrap();
    world.play(MS * 500).await;
    assert_eq!(ended(waiting).await, SECOND);
}

#[tokio::test]
async fn what_is_told_while_the_refusal_is_on_its_way_is_heard() {
    let world = World::new();
    let holder = world.other().claim("nightly").await.map(granted).unwrap();
    world.store.next(Op::Claim, Fault::DelayAfter(SECOND));
    let waiting = waits(&world, world.leases.clone());
    world.play(MS * 500).await;
    holder.release().await.unwrap();
    world.play(SECOND).await;
    let came = ended(waiting).await;
    assert!(came < SECOND + MS * 100, "{came:?}");
}

#[tokio::test]
async fn a_name_that_is_free_right_after_a_refusal_is_claimed_a_tick_later() {
    let world = World::new();
    world.store.deafen();
    let holder = world.other().claim("nightly").await.map(granted).unwrap();
    world.store.next(Op::Claim, Fault::DelayAfter(SECOND));
    let waiting = waits(&world, world.leases.clone());
    world.play(MS * 500).await;
    holder.release().await.unwrap();
    world.play(SECOND).await;
    assert_eq!(ended(waiting).await, SECOND + MS * 100);
}

#[tokio::test]
async fn a_name_that_is_free_at_each_look_and_held_at_each_claim_is_claimed_once_a_tick() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    let database = world.database.clone();
    world.store.plan(move |call| {
        let expires_at = if call.op == Op::Claim { DbTime::from_millis(i64::MAX) } else { DbTime::RELEASED };
        database.edit_row(&name("nightly"), |row| row.expires_at = expires_at);
        // Who spins would do so for ever.
        (call.number > 100).then_some(Fault::HangBefore)
    });
    let waiting = waits(&world, world.leases.clone());
    world.play(SECOND).await;
    let claims = world.store.calls(Op::Claim);
    assert!((5..=11).contains(&claims), "{claims} claims in 1 s");
    waiting.abort();
}

#[tokio::test]
async fn names_that_are_said_all_the_time_lead_to_claims_and_looks_at_their_pace() {
    let world = World::new();
    let lease = world.other().claim("nightly").await.map(granted).unwrap();
    let waiting = waits(&world, world.leases.clone());
    world.play(SECOND).await;
    let before = [world.store.calls(Op::Claim), world.store.calls(Op::Inspect)];
    let hint = || world.database.notifier().given_back(Some(name("nightly")));
    // The first one after quiet is worth a claim at once.
    hint();
    world.play(Duration::ZERO).await;
    assert_eq!(world.store.calls(Op::Claim), before[0] + 1);
    for _ in 0..1_000 {
        hint();
        world.play(MS).await;
    }
    let [claims, looks] =
        [world.store.calls(Op::Claim) - before[0], world.store.calls(Op::Inspect) - before[1]];
    assert!(claims <= 250, "{claims} claims in 1 s");
    assert!((100..=250).contains(&looks), "{looks} looks in 1 s");
    // So it is after a second of quiet.
    world.play(SECOND).await;
    let before = world.store.calls(Op::Claim);
    hint();
    world.play(Duration::ZERO).await;
    assert_eq!(world.store.calls(Op::Claim), before + 1);
    assert!(lease.check());
    waiting.abort();
}

#[tokio::test]
async fn mere_hints_lead_to_looks_at_their_own_pace_and_to_no_claim() {
    let world = World::new();
    let lease = world.other().claim("nightly").await.map(granted).unwrap();
    let waiting = waits(&world, world.leases.clone());
    world.play(Duration::ZERO).await;
    let claims = world.store.calls(Op::Claim);
    for _ in 0..4_000 {
        world.database.notifier().given_back(None);
        world.play(MS).await;
    }
    let looks = world.store.calls(Op::Inspect);
    assert!((100..=802).contains(&looks), "{looks} looks in 4 s");
    assert_eq!(world.store.calls(Op::Claim), claims);
    assert!(lease.check());
    waiting.abort();
}

#[tokio::test]
async fn a_mere_hint_is_as_good_as_a_name_once_that_is_free() {
    let world = World::new();
    let lease = world.other().claim("nightly").await.map(granted).unwrap();
    let waiting = waits(&world, world.leases.clone());
    world.play(SECOND).await;
    // Nobody announces it.
    world.database.release(&name("nightly"), &lease.holder(), SECOND).await.unwrap();
    world.database.notifier().given_back(None);
    world.play(Duration::ZERO).await;
    assert_eq!(ended(waiting).await, SECOND);
}

#[tokio::test]
async fn who_has_missed_what_was_told_looks() {
    let world = World::new();
    let lease = world.other().claim("nightly").await.map(granted).unwrap();
    let waiting = waits(&world, world.leases.clone());
    world.play(SECOND).await;
    world.database.release(&name("nightly"), &lease.holder(), SECOND).await.unwrap();
    world.database.notifier().given_back(Some(name("nightly")));
    for n in 0..1_000 {
        world.database.notifier().given_back(Some(name(&format!("another {n}"))));
    }
    world.play(Duration::ZERO).await;
    assert_eq!(ended(waiting).await, SECOND);
}

#[tokio::test]
async fn hints_about_other_names_lead_to_nothing() {
    let world = World::new();
    let _lease = world.other().claim("nightly").await.map(granted).unwrap();
    let waiting = waits(&world, world.leases.clone());
    world.play(Duration::ZERO).await;
    let calls = world.store.log().len();
    for _ in 0..50 {
        world.database.notifier().given_back(Some(name("nightly 2")));
    }
    world.play(SECOND).await;
    assert_eq!(world.store.log().len(), calls);
    waiting.abort();
}

#[tokio::test]
async fn a_wait_that_has_ended_listens_no_more() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    assert!(!world.database.notifier().is_heard());
    let waiting = waits(&world, world.other());
    world.play(SECOND).await;
    assert!(world.database.notifier().is_heard());
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert!(!world.database.notifier().is_heard());

    let over = tokio::spawn({
        let other = world.other();
        async move { other.acquire("nightly", SECOND).await }
    });
    world.play(SECOND).await;
    assert!(matches!(ended(over).await, Ok(Claimed::Held(_))));
    assert!(!world.database.notifier().is_heard());

    lease.release().await.unwrap();
    let granted = granted(world.other().acquire("nightly", SECOND).await.unwrap());
    assert!(!world.database.notifier().is_heard());
    drop(granted);
}

#[tokio::test]
async fn where_nothing_is_heard_a_waiter_looks_once_per_renew_interval_and_claims_only_what_is_free() {
    let world = World::new();
    world.store.deafen();
    let lease = world.other().claim("nightly").await.map(granted).unwrap();
    let waiting = waits(&world, world.leases.clone());
    world.play(SECOND * 40).await;
    let looks = world.store.calls(Op::Inspect);
    assert!((20..=25).contains(&looks), "{looks} looks in 40 s");
    assert_eq!(world.store.calls(Op::Claim), 1);
    lease.release().await.unwrap();
    world.play(SECOND * 2).await;
    let came = ended(waiting).await;
    assert!(came <= SECOND * 42, "{came:?}");
}

#[tokio::test]
async fn what_was_heard_by_now_is_one_hint() {
    let notifier = Notifier::new();
    let mut notices = notifier.listen();
    let nightly = name("nightly");
    for _ in 0..10 {
        notifier.given_back(None);
    }
    assert_eq!(notices.about(&nightly).now_or_never(), Some(Hint::Perhaps));
    assert_eq!(notices.about(&nightly).now_or_never(), None);
    // Of the two the better one.
    notifier.given_back(None);
    notifier.given_back(Some(name("another")));
    notifier.given_back(Some(nightly.clone()));
    notifier.given_back(None);
    assert_eq!(notices.about(&nightly).now_or_never(), Some(Hint::GivenBack));
    assert_eq!(notices.about(&nightly).now_or_never(), None);
    notifier.given_back(Some(name("another")));
    assert_eq!(notices.about(&nightly).now_or_never(), None);
    drop(notifier);
    assert_eq!(notices.about(&nightly).now_or_never(), None);
}
