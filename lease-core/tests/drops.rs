//! What a dropped future or handle leaves behind, at each point: no panic, no name free beside
//! running work, the name free within one ttl.

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::thread;

use common::{MS, SECOND, World, granted, name, term};
use lease_core::{Claimed, ErrorKind, Leases, SystemClock};
use lease_testkit::{Fault, FaultStore, ManualClock, MemoryStore, Op};
use tokio::runtime::Builder;

/// Polls once, which sends a future on its way, and drops it.
fn poll_once<F: Future>(future: F) {
    let mut future = pin!(future);
    assert!(matches!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
}

#[tokio::test]
async fn a_claim_dropped_before_it_is_polled_does_nothing() {
    let world = World::new();
    drop(world.leases.claim("nightly"));
    world.play(SECOND).await;
    assert_eq!(world.store.log(), []);
}

#[tokio::test]
async fn a_claim_dropped_before_it_is_sent_sends_nothing() {
    let world = World::new();
    // Polled once: its task is spawned and has not run yet.
    poll_once(world.leases.claim("nightly"));
    world.play(SECOND).await;
    assert_eq!(world.store.log(), []);
    tokio::time::timeout(SECOND * 60, world.leases.close()).await.unwrap();
}

#[tokio::test]
async fn a_claim_dropped_after_it_is_sent_is_given_back_when_it_is_granted() {
    let world = World::new();
    world.store.next(Op::Claim, Fault::DelayAfter(SECOND));
    let leases = world.leases.clone();
    let claiming = tokio::spawn(async move { leases.claim("nightly").await });
    world.play(MS).await;
    claiming.abort();
    assert!(!world.is_free("nightly").await);
    world.play(SECOND).await;
    assert!(world.is_free("nightly").await);
    assert_eq!(world.store.calls(Op::Release), 1);
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_is_given_back() {
    let world = World::new();
    world.store.next(Op::Claim, Fault::FailAfter(ErrorKind::Unavailable));
    let error = world.leases.claim("nightly").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    world.play(MS).await;
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_claim_that_surely_failed_is_not_released() {
    let world = World::new();
    world.store.next(Op::Claim, Fault::FailBefore(ErrorKind::Unavailable));
    world.leases.claim("nightly").await.unwrap_err();
    world.play(SECOND * 30).await;
    assert_eq!(world.store.calls(Op::Release), 0);
}

#[tokio::test]
async fn a_claim_that_lands_after_its_caller_gave_up_is_found_and_given_back() {
    let world = World::new();
    world.store.next(Op::Claim, Fault::Ghost(SECOND * 12));
    let leases = world.leases.clone();
    let claiming = tokio::spawn(async move { leases.claim("nightly").await });
    world.play(SECOND * 5).await;
    assert_eq!(claiming.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    world.play(SECOND * 7).await;
    // Granted just now to nobody; the next release finds it.
    world.play(SECOND * 2).await;
    assert!(world.is_free("nightly").await);
    assert_eq!(world.inspect("nightly").await.row.unwrap().term.get(), 1);
    let sent = world.store.calls(Op::Release);
    world.play(SECOND * 60).await;
    assert_eq!(world.store.calls(Op::Release), sent);
}

#[tokio::test]
async fn a_claim_granted_after_its_caller_gave_up_is_given_back() {
    let world = World::new();
    world.store.next(Op::Claim, Fault::DelayBefore(SECOND * 8));
    let leases = world.leases.clone();
    let claiming = tokio::spawn(async move { leases.claim("nightly").await });
    world.play(SECOND * 5).await;
    assert_eq!(claiming.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    world.play(SECOND * 4).await;
    // It was in flight all the time and never cancelled.
    assert_eq!(world.inspect("nightly").await.row.unwrap().term.get(), 1);
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_claim_that_never_lands_is_released_for_a_ttl_and_no_longer() {
    let world = World::new();
    world.store.next(Op::Claim, Fault::HangBefore);
    let leases = world.leases.clone();
    let claiming = tokio::spawn(async move { leases.claim("nightly").await });
    world.play(SECOND * 5).await;
    assert_eq!(claiming.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(world.store.calls(Op::Release), 1);
    world.play(SECOND * 60).await;
    // One each renew interval within the ttl: at 0, 2, ... 14 s.
    assert_eq!(world.store.calls(Op::Release), 8);
    tokio::time::timeout(SECOND * 60, world.leases.close()).await.unwrap();
}

#[tokio::test]
async fn a_claim_answered_after_its_caller_gave_up_ends_the_releases_once_it_can_no_longer_be_granted() {
    // Refused late: by a holder, or by an error that surely changed nothing.
    for held in [true, false] {
        let world = World::new();
        let _holder = if held { Some(granted(world.other().claim("nightly").await.unwrap())) } else { None };
        if !held {
            world.database.drop_table();
        }
        world.store.next(Op::Claim, Fault::DelayBefore(SECOND * 8));
        world.store.always(Op::Release, Fault::FailBefore(ErrorKind::Unavailable));
        let leases = world.leases.clone();
        let claiming = tokio::spawn(async move { leases.claim("nightly").await });
        world.play(SECOND * 60).await;
        claiming.await.unwrap().unwrap_err();
        // At 5 and 7 s; the answer came at 8 s.
        assert_eq!(world.store.calls(Op::Release), 2, "held: {held}");
    }
}

#[tokio::test]
async fn a_claim_that_fails_late_with_unknown_effect_is_released_on() {
    let world = World::new();
    world.store.next(Op::Claim, Fault::FailLate(SECOND * 8, ErrorKind::Unavailable));
    world.store.always(Op::Release, Fault::FailBefore(ErrorKind::Unavailable));
    let leases = world.leases.clone();
    let claiming = tokio::spawn(async move { leases.claim("nightly").await });
    world.play(SECOND * 60).await;
    claiming.await.unwrap().unwrap_err();
    // At 5 and 7 s, then from the answer at 8 s on until a ttl has passed since 5 s.
    assert_eq!(world.store.calls(Op::Release), 8);
}

#[tokio::test]
async fn a_dropped_acquire_leaves_nothing_behind() {
    let world = World::new();
    let holder = granted(world.other().claim("nightly").await.unwrap());
    let leases = world.leases.clone();
    let waiting = tokio::spawn(async move { leases.acquire("nightly", SECOND * 3_600).await });
    world.play(SECOND * 20).await;
    assert!(world.store.calls(Op::Inspect) > 1);
    waiting.abort();
    world.play(MS).await;
    let sent = world.store.log().len();
    drop(holder);
    world.play(SECOND * 60).await;
    assert_eq!(world.store.log().len(), sent);
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_dropped_lease_without_tenures_is_given_back_at_once() {
    let world = World::new();
    drop(world.claim("nightly").await);
    world.play(MS).await;
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_dropped_lease_is_given_back_when_its_last_tenure_is_gone() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let tenure = lease.tenure();
    let clone = tenure.clone();
    drop(lease);
    assert!(!tenure.check() && !clone.check());
    world.play(SECOND).await;
    drop(tenure);
    world.play(SECOND).await;
    assert!(!world.is_free("nightly").await);
    drop(clone);
    world.play(MS).await;
    assert!(world.is_free("nightly").await);
    // A later drop of the same kind is no second release.
    assert_eq!(world.store.calls(Op::Release), 1);
}

#[tokio::test]
async fn a_dropped_lease_whose_tenure_stays_is_free_within_one_ttl() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let tenure = lease.tenure();
    world.play(SECOND * 3).await;
    drop(lease);
    world.play(SECOND * 15).await;
    assert!(world.is_free("nightly").await && !tenure.check());
    // Nothing waits for the tenure for ever.
    let leases = world.leases.clone();
    let closing = tokio::spawn(async move { leases.close().await });
    world.play(SECOND * 10).await;
    assert!(closing.is_finished());
}

#[tokio::test]
async fn close_gives_back_leases_that_somebody_still_has_in_hand() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    tokio::time::timeout(SECOND * 60, world.leases.close()).await.unwrap();
    assert!(!lease.check());
    assert!(world.is_free("nightly").await);
    assert_eq!(world.leases.claim("other").await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn close_waits_for_work_under_a_lease_that_somebody_has_in_hand() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let tenure = lease.tenure();
    let leases = world.leases.clone();
    let closing = tokio::spawn(async move { leases.close().await });
    world.play(SECOND * 60).await;
    assert!(tenure.is_stopping() && tenure.check());
    assert!(!closing.is_finished() && !world.is_free("nightly").await);
    drop(tenure);
    world.play(MS).await;
    assert!(closing.is_finished() && !lease.check());
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn close_ends_though_the_database_never_answers() {
    let world = World::new();
    let _lease = world.claim("nightly").await;
    world.store.always(Op::Release, Fault::HangBefore);
    let leases = world.leases.clone();
    let closing = tokio::spawn(async move { leases.close().await });
    // A ttl, a margin and two attempts.
    world.play(SECOND * 25 + MS * 501).await;
    assert!(closing.is_finished());
}

#[test]
fn no_claim_is_sent_after_close_has_returned() {
    let clock = SystemClock::shared().unwrap();
    let driver = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    for _ in 0..2_000 {
        let store = FaultStore::new(MemoryStore::new(), clock.clone());
        let leases = {
            let _inside = driver.enter();
            Leases::builder(store.clone()).build().unwrap()
        };
        let barrier = Arc::new(Barrier::new(2));
        let (other, theirs) = (leases.clone(), Arc::clone(&barrier));
        let claiming = thread::spawn(move || {
            theirs.wait();
            drop(Builder::new_current_thread().build().unwrap().block_on(other.claim("nightly")));
        });
        barrier.wait();
        Builder::new_current_thread().build().unwrap().block_on(leases.close());
        let sent = store.calls(Op::Claim);
        claiming.join().unwrap();
        assert_eq!(store.calls(Op::Claim), sent);
    }
}

#[tokio::test]
async fn a_claim_in_flight_goes_on_while_the_release_of_its_token_hangs() {
    let world = World::new();
    world.store.next(Op::Claim, Fault::DelayBefore(SECOND * 6));
    world.store.next(Op::Release, Fault::HangBefore);
    let leases = world.leases.clone();
    let claiming = tokio::spawn(async move { leases.claim("nightly").await });
    world.play(SECOND * 7).await;
    claiming.await.unwrap().unwrap_err();
    // Sent at 6 s, though the release that began at 5 s waits until 10 s.
    assert!(world.inspect("nightly").await.row.is_some());
    world.play(SECOND * 4).await;
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_claim_granted_during_the_shutdown_is_given_back() {
    let world = World::new();
    world.store.next(Op::Claim, Fault::DelayAfter(SECOND));
    let leases = world.leases.clone();
    let claiming = tokio::spawn(async move { leases.claim("nightly").await });
    world.play(MS).await;
    let leases = world.leases.clone();
    let closing = tokio::spawn(async move { leases.close().await });
    world.play(MS).await;
    assert!(!closing.is_finished());
    world.play(SECOND).await;
    assert!(closing.is_finished());
    let lease = granted(claiming.await.unwrap().unwrap());
    assert!(!lease.check());
    assert!(world.is_free("nightly").await);
}

#[test]
fn without_a_runtime_building_is_refused_and_dropping_does_not_panic() {
    let refused = Leases::new(MemoryStore::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Runtime);

    let clock = ManualClock::new();
    let database = MemoryStore::with_clock(clock.clone());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (lease, leases) = runtime.block_on(async {
        let leases = Leases::builder(database.clone()).clock(clock.clone()).build().unwrap();
        (granted(leases.claim("nightly").await.unwrap()), leases)
    });
    let tenure = lease.tenure();
    drop(runtime);
    // Nobody renews any more: the deadline ends it all the same.
    assert!(tenure.check());
    clock.advance(SECOND * 10);
    assert!(!tenure.check() && tenure.reason().is_some());
    drop(lease);
    drop(tenure);
    clock.advance(SECOND * 5);

    let second = Builder::new_current_thread().enable_all().build().unwrap();
    second.block_on(async {
        assert_eq!(leases.claim("x").await.unwrap_err().kind(), ErrorKind::Runtime);
        leases.close().await;
        let fresh = Leases::builder(database).clock(clock).build().unwrap();
        assert!(matches!(fresh.claim("nightly").await.unwrap(), Claimed::Granted(_)));
    });
}

#[test]
fn a_release_after_the_runtime_has_gone_says_so() {
    let clock = ManualClock::new();
    let database = MemoryStore::with_clock(clock.clone());
    let runtime = Builder::new_current_thread().build().unwrap();
    let lease = runtime.block_on(async {
        let leases = Leases::builder(database).clock(clock).build().unwrap();
        granted(leases.claim("nightly").await.unwrap())
    });
    drop(runtime);
    let second = Builder::new_current_thread().build().unwrap();
    let error = second.block_on(lease.release()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Runtime);
    assert!(!lease.check());
}

#[test]
fn a_runtime_that_shuts_down_in_the_middle_of_everything_does_not_panic() {
    let clock = ManualClock::new();
    let database = MemoryStore::with_clock(clock.clone());
    let store = FaultStore::new(database.clone(), clock.clone());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let leases = Leases::builder(store.clone()).clock(clock.clone()).build().unwrap();
        let lease = granted(leases.claim("running").await.unwrap());
        tokio::spawn(lease.run(|_| std::future::pending::<Result<(), ErrorText>>()));
        let electing = leases.clone();
        tokio::spawn(async move {
            electing.elect("elected", |_| std::future::pending::<Result<(), ErrorText>>()).await.unwrap();
        });
        clock.play(SECOND).await;
        store.always(Op::Claim, Fault::HangAfter);
        store.always(Op::Release, Fault::HangBefore);
        tokio::spawn(async move { leases.claim("claiming").await });
        clock.play(SECOND).await;
    });
    drop(runtime);
    clock.advance(SECOND * 15);
    let second = Builder::new_current_thread().build().unwrap();
    second.block_on(async {
        let other = Leases::builder(database).clock(clock).build().unwrap();
        for text in ["running", "elected", "claiming"] {
            assert!(term(other.claim(text).await.unwrap()).is_some(), "{text}");
        }
    });
}

#[derive(Debug, thiserror::Error)]
#[error("failed")]
struct ErrorText;

#[test]
fn with_a_thread_of_its_own_no_runtime_is_needed_to_build_or_drop() {
    let leases = Leases::builder(MemoryStore::new()).own_thread().build().unwrap();
    let runtime = Builder::new_current_thread().build().unwrap();
    let lease = runtime.block_on(async { granted(leases.claim("nightly").await.unwrap()) });
    drop(runtime);
    drop(lease);
    let second = Builder::new_current_thread().build().unwrap();
    second.block_on(leases.close());
    assert_eq!(second.block_on(leases.store().last_slot(&name("nightly"), SECOND)).unwrap(), None);
}
