//! The two sides of a guarded transaction, and the renewals it carries, with the default timings (ttl 15 s, renew 2 s,
//! deadline 10 s) on a clock moved by hand.

#![expect(clippy::unchecked_time_subtraction, reason = "constants that a reader can subtract")]

mod common;

use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::thread;

use common::{MS, SECOND, World};
use lease_core::guard::{CarriedRenewal, Guarding, MustEnd, Watcher};
use lease_core::store::{RenewAnswer, StoreError};
use lease_core::{Clock, ErrorKind, GuardError, GuardedError, LeaseStore, LossReason, ManualClaimed, Tenure};
use lease_testkit::{Fault, Op};
use tokio::runtime::Builder;

/// The answer of a future that has one now.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn begin(tenure: &Tenure) -> (Guarding, Watcher) {
    Guarding::begin(tenure).unwrap()
}

fn is_lost<T>(answer: &Result<T, GuardError>) -> bool {
    matches!(answer, Err(GuardError::Lost(_)))
}

#[tokio::test]
async fn as_long_as_the_lease_is_held_statements_are_sent_and_nothing_is_ended() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let (guarding, watcher) = begin(&lease.tenure());
    for _ in 0..20 {
        world.play(SECOND).await;
        assert!(guarding.check().is_ok());
        assert!(now(watcher.must_end()).is_none());
    }
    assert_eq!(guarding.tenure().term(), lease.term());
    assert_eq!(watcher.tenure().term(), lease.term());
}

#[tokio::test]
async fn under_a_lost_lease_no_transaction_begins() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let tenure = lease.tenure();
    // Nothing has noticed that the deadline has passed.
    world.clock.jump(SECOND * 10);
    assert!(is_lost(&Guarding::begin(&tenure)));
    drop(lease);
    assert!(is_lost(&Guarding::begin(&tenure)));
}

#[tokio::test]
async fn a_lost_lease_ends_the_session_and_keeps_the_commit_from_beginning() {
    for watched_before in [true, false] {
        for commit_first in [true, false] {
            let world = World::new();
            let lease = world.claim("nightly").await;
            let (guarding, watcher) = begin(&lease.tenure());
            let mut ends = pin!(watcher.must_end());
            if watched_before {
                assert!(now(ends.as_mut()).is_none());
            }
            drop(lease);
            if commit_first {
                assert!(is_lost(&guarding.commit_begins()));
            }
            assert!(matches!(now(ends.as_mut()), Some(Some(MustEnd::Lost(LossReason::Released)))));
            assert!(is_lost(&guarding.check()));
            assert!(is_lost(&guarding.commit_begins()));
            assert!(is_lost(&guarding.over()));
        }
    }
}

#[tokio::test]
async fn a_commit_under_way_is_never_ended_though_the_lease_is_lost_meanwhile() {
    for watched_before in [true, false] {
        let world = World::new();
        let lease = world.claim("nightly").await;
        let (guarding, watcher) = begin(&lease.tenure());
        let mut ends = pin!(watcher.must_end());
        if watched_before {
            assert!(now(ends.as_mut()).is_none());
        }
        guarding.commit_begins().unwrap();
        drop(lease);
        assert!(matches!(now(ends.as_mut()), Some(None)));
        guarding.over().unwrap();
        assert!(matches!(now(watcher.must_end()), Some(None)));
    }
}

#[tokio::test]
async fn a_commit_that_is_dropped_under_way_is_not_ended_either() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let (guarding, watcher) = begin(&lease.tenure());
    guarding.commit_begins().unwrap();
    drop(guarding);
    assert!(matches!(now(watcher.must_end()), Some(None)));
    drop(lease);
    assert!(matches!(now(watcher.must_end()), Some(None)));
}

#[test]
fn of_a_commit_and_the_end_of_the_session_exactly_one_takes_place() {
    const ROUNDS: usize = 300;
    let runtime = Builder::new_current_thread().build().unwrap();
    let world = runtime.block_on(async { World::new() });
    for round in 0..ROUNDS {
        let lease = runtime.block_on(world.claim(&format!("job {round}")));
        let (guarding, watcher) = begin(&lease.tenure());
        let start = Barrier::new(3);
        let (commits, ends) = thread::scope(|threads| {
            let watching = threads.spawn(|| {
                start.wait();
                Builder::new_current_thread().build().unwrap().block_on(watcher.must_end())
            });
            let committing = threads.spawn(|| {
                start.wait();
                guarding.commit_begins().is_ok()
            });
            start.wait();
            drop(lease);
            (committing.join().unwrap(), watching.join().unwrap().is_some())
        });
        assert!(commits != ends, "round {round}: committed {commits}, ended {ends}");
        assert_eq!(guarding.over().is_ok(), commits);
    }
}

#[tokio::test]
async fn a_guard_dropped_in_the_middle_has_its_session_ended() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    for watched_before in [true, false] {
        let (guarding, watcher) = begin(&lease.tenure());
        let mut ends = pin!(watcher.must_end());
        if watched_before {
            assert!(now(ends.as_mut()).is_none());
        }
        drop(guarding);
        assert!(matches!(now(ends.as_mut()), Some(Some(MustEnd::Abandoned))));
        assert!(matches!(now(watcher.must_end()), Some(Some(MustEnd::Abandoned))));
    }
    assert!(lease.check());
}

#[tokio::test]
async fn a_loss_after_the_drop_of_the_guard_changes_no_answer() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let (guarding, watcher) = begin(&lease.tenure());
    drop(guarding);
    drop(lease);
    assert!(matches!(now(watcher.must_end()), Some(Some(MustEnd::Abandoned))));
}

#[tokio::test]
async fn the_watcher_says_again_what_it_said() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let (guarding, watcher) = begin(&lease.tenure());
    drop(lease);
    for _ in 0..3 {
        assert!(matches!(now(watcher.must_end()), Some(Some(MustEnd::Lost(LossReason::Released)))));
    }
    drop(guarding);
    assert!(matches!(now(watcher.must_end()), Some(Some(MustEnd::Lost(LossReason::Released)))));
}

#[tokio::test]
async fn a_transaction_that_is_over_has_nothing_to_be_ended() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    for watched_before in [true, false] {
        for commits in [true, false] {
            let (guarding, watcher) = begin(&lease.tenure());
            let mut ends = pin!(watcher.must_end());
            if watched_before {
                assert!(now(ends.as_mut()).is_none());
            }
            if commits {
                guarding.commit_begins().unwrap();
            }
            guarding.over().unwrap();
            assert!(matches!(now(ends.as_mut()), Some(None)));
        }
    }
}

#[tokio::test]
async fn a_transaction_rolled_back_before_the_loss_was_noticed_has_nothing_to_be_ended() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let (guarding, watcher) = begin(&lease.tenure());
    drop(lease);
    guarding.over().unwrap();
    assert!(matches!(now(watcher.must_end()), Some(None)));
}

#[tokio::test]
async fn a_name_is_given_back_only_when_both_sides_are_gone() {
    let world = World::new();
    for watcher_last in [true, false] {
        let lease = world.claim("nightly").await;
        let (guarding, watcher) = begin(&lease.tenure());
        drop(lease);
        let last: Box<dyn Send> = if watcher_last {
            drop(guarding);
            Box::new(watcher)
        } else {
            drop(watcher);
            Box::new(guarding)
        };
        world.play(SECOND).await;
        assert!(!world.is_free("nightly").await, "watcher last: {watcher_last}");
        drop(last);
        world.play(SECOND).await;
        assert!(world.is_free("nightly").await);
    }
}

#[tokio::test]
async fn the_end_and_the_error_of_work_come_back_as_they_are() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let (guarding, _watcher) = begin(&lease.tenure());
    assert!(matches!(guarding.work(async { Ok::<_, Infallible>(7) }).await, Ok(7)));
    let failed = guarding.work(async { Err::<(), _>("the program's own") }).await;
    assert!(matches!(failed, Err(GuardedError::Work("the program's own"))));
}

#[tokio::test]
async fn work_is_dropped_when_the_lease_is_lost() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let (guarding, _watcher) = begin(&lease.tenure());
    let alive = Arc::new(());
    let inside = Arc::clone(&alive);
    let work = guarding.work(async move {
        pending::<()>().await;
        drop(inside);
        Ok::<_, Infallible>(())
    });
    let mut work = Box::pin(work);
    assert!(now(work.as_mut()).is_none());
    drop(lease);
    assert!(matches!(
        now(work.as_mut()),
        Some(Err(GuardedError::Guard(GuardError::Lost(LossReason::Released))))
    ));
    drop(work);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[tokio::test]
async fn work_that_has_ended_when_the_lease_was_lost_is_lost() {
    for ended in [Ok(()), Err("its session was ended")] {
        for noticed in [true, false] {
            let world = World::new();
            let lease = world.claim("nightly").await;
            let (guarding, _watcher) = begin(&lease.tenure());
            let ends = async {
                // A jump is a loss that only a look at the clock finds.
                if noticed {
                    drop(lease);
                } else {
                    world.clock.jump(SECOND * 10);
                }
                ended
            };
            let outcome = guarding.work(ends).await;
            assert!(matches!(outcome, Err(GuardedError::Guard(GuardError::Lost(_)))), "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_carried_renewal_counts_from_its_start() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Unavailable));
    world.play(SECOND * 4).await;
    let begun = world.clock.now();
    let carried = lease.tenure().carry_renewal();
    world.play(SECOND * 3).await;
    carried.committed(false);
    assert_eq!(lease.deadline(), begun + SECOND * 10);
    world.play(SECOND * 7 - MS).await;
    assert!(lease.check());
    world.play(MS).await;
    assert!(matches!(lease.reason(), Some(LossReason::Deadline { .. })));
}

#[tokio::test]
async fn a_renewal_that_is_begun_and_not_committed_counts_for_nothing() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Unavailable));
    world.play(SECOND * 4).await;
    let deadline = lease.deadline();
    drop(lease.tenure().carry_renewal());
    assert_eq!(lease.deadline(), deadline);
}

#[tokio::test]
async fn a_carried_renewal_tells_that_the_holder_is_asked_to_step_down() {
    let world = World::new();
    for step_down in [false, true] {
        let lease = world.claim(&format!("asked: {step_down}")).await;
        lease.tenure().carry_renewal().committed(step_down);
        assert_eq!(lease.tenure().is_stopping(), step_down);
        assert!(lease.check());
    }
}

#[tokio::test]
async fn a_carried_renewal_never_moves_the_deadline_back() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let carried = lease.tenure().carry_renewal();
    world.play(SECOND * 5).await;
    let deadline = lease.deadline();
    carried.committed(false);
    assert_eq!(lease.deadline(), deadline);
}

#[tokio::test]
async fn a_renewal_committed_after_the_deadline_does_not_revive_the_lease() {
    for noticed in [true, false] {
        let world = World::new();
        let lease = world.claim("nightly").await;
        world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Unavailable));
        world.play(SECOND * 9).await;
        let carried = lease.tenure().carry_renewal();
        if noticed {
            world.play(SECOND).await;
        } else {
            world.clock.jump(SECOND);
        }
        carried.committed(false);
        assert!(!lease.check());
        assert!(matches!(lease.reason(), Some(LossReason::Deadline { .. })));
    }
}

#[tokio::test]
async fn renewals_carried_by_transactions_keep_the_lease_while_its_own_fail_and_those_go_on_afterwards() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let tenure = lease.tenure();
    // One writer keeps all others out: back to back, no renewal of the driver's comes through.
    world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Busy));
    for _ in 0..20 {
        let carried = tenure.carry_renewal();
        let renewed = world.database.renew(tenure.name(), &tenure.holder(), SECOND * 15, SECOND).await;
        assert!(matches!(renewed, Ok(RenewAnswer::Renewed(_))));
        world.play(SECOND * 3).await;
        carried.committed(false);
        assert!(tenure.check());
    }
    world.store.heal();
    let renewals = world.store.calls(Op::Renew);
    world.play(SECOND * 60).await;
    assert!(tenure.check());
    assert_eq!(world.store.calls(Op::Renew) - renewals, 30);
}

#[test]
fn an_error_says_what_is_known_and_what_to_do() {
    let store = |kind| StoreError::new(kind, "the server hung up");
    let lost = GuardError::Lost(LossReason::Refused);
    assert_eq!((lost.kind(), lost.retry_helps(), lost.source().is_none()), (None, false, true));
    assert!(lost.to_string().contains("not committed"), "{lost}");

    let unknown = GuardError::Unknown(store(ErrorKind::Unavailable));
    assert!(!unknown.retry_helps(), "what may be committed is not to be done again");
    let ended = GuardError::Ended(store(ErrorKind::Busy));
    assert!(!ended.retry_helps(), "what may be committed is not to be done again");
    assert!(GuardError::Failed(store(ErrorKind::Busy)).retry_helps());
    assert!(!GuardError::Failed(store(ErrorKind::Schema)).retry_helps());

    for error in [unknown, ended, GuardError::Failed(store(ErrorKind::Busy))] {
        assert!(error.kind().is_some() && error.source().is_some());
        let text = GuardedError::<std::fmt::Error>::from(error).to_string();
        assert!(text.contains("the server hung up") && !text.contains('\n'), "{text}");
    }
    assert_eq!(GuardedError::Work(std::fmt::Error).to_string(), std::fmt::Error.to_string());
}

/// Lets a transaction commit the lease's renewal, begun now, in the row; the process is not told yet.
async fn renew_row(world: &World, tenure: &Tenure) -> CarriedRenewal {
    let carried = tenure.carry_renewal();
    let renewed = world.database.renew(tenure.name(), &tenure.holder(), SECOND * 15, SECOND).await;
    assert!(matches!(renewed, Ok(RenewAnswer::Renewed(_))));
    carried
}

#[tokio::test]
async fn a_carried_renewal_keeps_a_lease_whose_own_attempt_hangs_over_the_old_deadline() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::HangBefore);
    world.play(SECOND * 8).await;
    let carried = renew_row(&world, &lease.tenure()).await;
    world.play(SECOND).await;
    carried.committed(false);
    world.store.heal();
    world.play(SECOND * 30).await;
    assert!(lease.check());
}

#[tokio::test]
async fn a_carried_renewal_keeps_a_lease_whose_own_attempt_is_answered_after_the_old_deadline() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Unavailable));
    world.play(SECOND * 8 - MS).await;
    world.store.always(Op::Renew, Fault::DelayAfter(SECOND));
    world.play(MS * 2).await;
    let carried = renew_row(&world, &lease.tenure()).await;
    world.play(MS * 500).await;
    carried.committed(false);
    world.store.heal();
    // The process stands still when the answer comes.
    world.clock.jump(SECOND * 2);
    world.play(SECOND * 30).await;
    assert!(lease.check());
}

#[tokio::test]
async fn a_carried_renewal_keeps_a_lease_whose_own_next_attempt_is_due_at_the_old_deadline() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Unavailable));
    world.play(SECOND * 9).await;
    let carried = renew_row(&world, &lease.tenure()).await;
    world.play(MS * 500).await;
    carried.committed(false);
    world.store.heal();
    world.play(SECOND * 30).await;
    assert!(lease.check());
}

#[tokio::test]
async fn a_name_is_given_back_again_and_again_as_long_as_a_carried_renewal_may_keep_it() {
    let world = World::new();
    let ManualClaimed::Granted(lease) = world.leases.claim_manual("nightly").await.unwrap() else {
        panic!("the name is free");
    };
    world.play(SECOND * 9).await;
    let carried = renew_row(&world, &lease.tenure()).await;
    carried.committed(false);
    world.store.always(Op::Release, Fault::FailBefore(ErrorKind::Unavailable));
    drop(lease);
    // An attempt, a ttl and a margin after the claim; the row expires at 24 s.
    world.play(SECOND * 12).await;
    assert!(!world.is_free("nightly").await);
    world.store.heal();
    world.play(SECOND * 2).await;
    assert!(world.is_free("nightly").await);
}
