//! Work under a lease: what `run`, `try_run` and `elect` promise.

#![expect(clippy::unchecked_time_subtraction, reason = "constants that a reader can subtract")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::{MS, SECOND, World, granted, name};
use lease_core::{Claimed, Clock, ErrorKind, LeaseStore, LossReason, Ran, RunError, Tenure};
use lease_testkit::{Fault, Op};

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("the work's own error")]
struct OwnError;

type Outcome<T> = Result<T, RunError<T, OwnError>>;

#[tokio::test]
async fn work_returns_its_own_value_and_the_name_is_free() {
    let world = World::new();
    let outcome: Outcome<u32> = world.claim("nightly").await.run(|_| async { Ok(7) }).await;
    assert_eq!(outcome.unwrap(), 7);
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn work_sees_its_tenure_as_argument_and_as_current() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let outcome: Outcome<(i64, i64, bool)> = lease
        .run(|tenure| async move {
            let current = Tenure::current().unwrap();
            let child = tokio::spawn(async { Tenure::current().is_some() }).await.unwrap();
            let scoped =
                tokio::spawn(tenure.clone().scope(async { Tenure::current().is_some() })).await.unwrap();
            Ok((tenure.term().get(), current.term().get(), !child && scoped))
        })
        .await;
    assert_eq!(outcome.unwrap(), (1, 1, true));
    assert!(Tenure::current().is_none());
}

#[tokio::test]
async fn the_works_own_error_comes_back_as_its_own_type() {
    let world = World::new();
    let outcome: Outcome<()> = world.claim("nightly").await.run(|_| async { Err(OwnError) }).await;
    assert!(matches!(outcome, Err(RunError::Work(OwnError))));
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_panic_comes_back_with_its_message_and_the_name_is_free() {
    let world = World::new();
    let number = 42;
    let outcome: Outcome<()> =
        world.claim("nightly").await.run(move |_| async move { panic!("a planted panic {number}") }).await;
    let Err(RunError::Panicked { message, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(message, "a planted panic 42");
    assert!(world.is_free("nightly").await);

    // Also before the first await, where the closure itself runs.
    let outcome: Outcome<()> = world
        .claim("nightly")
        .await
        .run(|_| -> std::future::Ready<Result<(), OwnError>> { panic!("early") })
        .await;
    assert!(matches!(outcome, Err(RunError::Panicked { message, .. }) if message == "early"));
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_loss_midway_is_lost_even_if_the_work_succeeds() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Unavailable));
    let running = tokio::spawn(lease.run(|tenure| async move {
        tenure.lost().await;
        Ok::<_, OwnError>("done all the same")
    }));
    world.play(SECOND * 11).await;
    let outcome = running.await.unwrap();
    let Err(RunError::Lost { reason: LossReason::Deadline { .. }, output: Some(Ok(output)) }) = outcome
    else {
        panic!("{outcome:?}")
    };
    assert_eq!(output, "done all the same");
}

#[tokio::test]
async fn work_that_ends_in_its_grace_does_not_trip_the_failing_hook() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::HangBefore);
    let clock: Arc<dyn Clock> = world.clock.clone();
    let running = tokio::spawn(lease.run(|tenure| async move {
        tenure.lost().await;
        lease_core::clock::sleep_until(&clock, clock.now() + SECOND * 4).await;
        Ok::<_, OwnError>(())
    }));
    world.play(SECOND * 60).await;
    assert!(matches!(running.await.unwrap(), Err(RunError::Lost { output: Some(Ok(())), .. })));
    assert!(world.stuck.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_failing_hook_is_for_work_that_runs_and_not_for_a_release_that_hangs() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::HangBefore);
    world.store.always(Op::Release, Fault::HangBefore);
    drop(tokio::spawn(lease.run(|tenure| async move {
        tenure.lost().await;
        Ok::<_, OwnError>(())
    })));
    world.play(SECOND * 60).await;
    assert!(world.store.calls(Op::Release) > 0);
    // The hook has a thread of its own: what it was told is known when a later one has been told.
    let second = world.leases.claim("second").await.unwrap();
    let lease = granted(second);
    let kept = lease.tenure();
    drop(tokio::spawn(lease.run(|_| std::future::pending::<Result<(), OwnError>>())));
    world.play(SECOND * 60).await;
    assert_eq!(world.wait_for_stuck().name, name("second"));
    drop(kept);
}

#[tokio::test]
async fn the_failing_hook_is_not_for_leases_held_by_hand() {
    let world = World::new();
    let by_hand = world.claim("by hand").await;
    let tenure = by_hand.tenure();
    let lease = world.claim("run").await;
    let also_kept = lease.tenure();
    world.store.always(Op::RenewMany, Fault::HangBefore);
    world.store.always(Op::Renew, Fault::HangBefore);
    world.play(SECOND).await;
    drop(tokio::spawn(lease.run(|_| std::future::pending::<Result<(), OwnError>>())));
    world.play(SECOND * 60).await;
    assert_eq!(world.wait_for_stuck().name, name("run"));
    assert!(!tenure.check());
    assert!(world.stuck.lock().unwrap().iter().all(|stuck| stuck.name == name("run")));
    drop((also_kept, by_hand));
}

#[tokio::test]
async fn async_work_that_ignores_the_loss_is_aborted_before_the_grace_ends() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::HangBefore);
    let running = tokio::spawn(lease.run(|_| std::future::pending::<Result<(), OwnError>>()));
    world.play(SECOND * 10 + MS * 4_049).await;
    assert!(!running.is_finished());
    world.play(MS).await;
    assert!(running.is_finished());
    assert!(matches!(running.await.unwrap(), Err(RunError::Lost { output: None, .. })));
    world.play(SECOND * 60).await;
    assert!(world.stuck.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_child_that_keeps_its_tenure_past_the_grace_trips_the_failing_hook_and_run_does_not_return() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::HangBefore);
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(lease.run(|tenure| async move {
        tokio::spawn(async move {
            let _tenure = tenure;
            let _ = ended.await;
        });
        Ok::<_, OwnError>(())
    }));
    world.play(SECOND * 14 + MS * 499).await;
    assert!(world.stuck.lock().unwrap().is_empty());
    world.play(MS).await;
    let stuck = world.wait_for_stuck();
    assert_eq!((stuck.name, stuck.term.get()), (name("nightly"), 1));
    world.play(SECOND * 600).await;
    assert!(!running.is_finished());
    end.send(()).unwrap();
    assert!(matches!(running.await.unwrap(), Err(RunError::Lost { output: Some(Ok(())), .. })));
}

#[tokio::test]
async fn a_loss_noticed_late_leaves_async_work_the_time_to_end_by_its_abort() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let running = tokio::spawn(lease.run(|_| std::future::pending::<Result<(), OwnError>>()));
    world.play(SECOND).await;
    // The machine was suspended: the grace is over when the loss is noticed.
    world.clock.jump(SECOND * 60);
    world.play(MS * 449).await;
    assert!(matches!(running.await.unwrap(), Err(RunError::Lost { output: None, .. })));
    world.play(SECOND * 60).await;
    assert!(world.stuck.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_loss_noticed_late_trips_the_failing_hook_a_tenth_of_the_grace_later() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let kept = lease.tenure();
    let running = tokio::spawn(lease.run(|_| std::future::pending::<Result<(), OwnError>>()));
    world.play(SECOND).await;
    world.clock.jump(SECOND * 60);
    world.play(MS * 449).await;
    assert!(world.stuck.lock().unwrap().is_empty());
    world.play(MS).await;
    // Lost at 10 s, noticed at 61 s, and a tenth of the grace after that.
    assert_eq!(world.wait_for_stuck().lost_for, SECOND * 51 + MS * 450);
    drop(kept);
    running.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn stopping_completes_at_a_loss_too() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let tenure = lease.tenure();
    assert!(!tenure.is_stopping());
    world.database.edit_row(&name("nightly"), |row| row.holder = lease_core::Holder::from_bytes([7; 16]));
    world.play(SECOND * 2).await;
    assert!(tenure.is_stopping());
    tenure.stopping().await;
}

#[tokio::test]
async fn children_of_work_that_has_returned_are_told_to_stop() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let outcome: Outcome<()> = lease
        .run(|tenure| async move {
            tokio::spawn(async move { tenure.stopping().await });
            Ok(())
        })
        .await;
    outcome.unwrap();
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_shutdown_is_told_to_the_work_and_waited_for_without_a_grace() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let clock: Arc<dyn Clock> = world.clock.clone();
    let running = tokio::spawn(lease.run(|tenure| async move {
        tenure.stopping().await;
        // Longer than ttl and grace together: renewals outlive the request.
        lease_core::clock::sleep_until(&clock, clock.now() + SECOND * 100).await;
        assert!(tenure.check());
        Ok::<_, OwnError>(())
    }));
    world.play(SECOND).await;
    let leases = world.leases.clone();
    let closing = tokio::spawn(async move { leases.close().await });
    world.play(SECOND * 99).await;
    assert!(!closing.is_finished() && !world.is_free("nightly").await);
    world.play(SECOND * 2).await;
    running.await.unwrap().unwrap();
    closing.await.unwrap();
    assert!(world.is_free("nightly").await);
    assert!(world.stuck.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_loss_during_a_shutdown_starts_the_grace() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let running = tokio::spawn(lease.run(|_| std::future::pending::<Result<(), OwnError>>()));
    world.play(SECOND).await;
    world.leases.shutdown();
    world.play(SECOND * 60).await;
    assert!(!running.is_finished());
    world.store.always(Op::Renew, Fault::HangBefore);
    world.play(SECOND * 15).await;
    assert!(matches!(running.await.unwrap(), Err(RunError::Lost { output: None, .. })));
}

#[tokio::test]
async fn a_dropped_run_aborts_its_work_and_then_gives_the_name_back() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let running = tokio::spawn(lease.run(|_| std::future::pending::<Result<(), OwnError>>()));
    world.play(SECOND).await;
    running.abort();
    world.play(MS).await;
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_dropped_run_keeps_renewing_until_its_work_has_ended() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let asked = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&asked);
    let running = tokio::spawn(lease.run(|tenure| async move {
        tokio::spawn(async move {
            tenure.stopping().await;
            noted.store(true, Ordering::SeqCst);
            let _ = ended.await;
        });
        std::future::pending::<Result<(), OwnError>>().await
    }));
    world.play(SECOND).await;
    running.abort();
    world.play(SECOND * 600).await;
    assert!(asked.load(Ordering::SeqCst));
    assert!(!world.is_free("nightly").await);
    end.send(()).unwrap();
    world.play(MS).await;
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_run_dropped_before_it_is_polled_gives_the_name_back() {
    let world = World::new();
    drop(world.claim("nightly").await.run(|_| async { Ok::<_, OwnError>(()) }));
    world.play(MS).await;
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_run_dropped_after_a_loss_still_waits_for_its_work_before_it_lets_go() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::HangBefore);
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(lease.run(|tenure| async move {
        let _tenure = tenure;
        let _ = ended.await;
        Ok::<_, OwnError>(())
    }));
    world.play(SECOND * 11).await;
    running.abort();
    world.play(MS).await;
    // The abort ended the work; the name is given back before the ttl is over.
    assert!(world.is_free("nightly").await);
    drop(end);
}

#[tokio::test]
async fn work_is_not_begun_under_a_lease_that_is_lost() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.clock.advance(SECOND * 10);
    let begun = Arc::new(AtomicBool::new(false));
    let note = Arc::clone(&begun);
    let outcome: Outcome<()> = lease
        .run(|_| async move {
            note.store(true, Ordering::SeqCst);
            Ok(())
        })
        .await;
    assert!(matches!(outcome, Err(RunError::Lost { output: None, .. })));
    world.play(SECOND).await;
    assert!(!begun.load(Ordering::SeqCst));
}

#[tokio::test]
async fn try_run_claims_once_and_does_not_wait() {
    let world = World::new();
    let ran = world.leases.try_run("nightly", |_| async { Ok::<_, OwnError>(1) }).await.unwrap();
    assert!(matches!(ran, Ran::Done(1)));
    let _holder = granted(world.other().claim("nightly").await.unwrap());
    let ran = world.leases.try_run("nightly", |_| async { Ok::<_, OwnError>(1) }).await.unwrap();
    assert!(matches!(ran, Ran::Held(refusal) if refusal.name().as_str() == "nightly"));
    let refused = world.leases.try_run("", |_| async { Ok::<_, OwnError>(1) }).await;
    assert!(matches!(refused, Err(RunError::Store(error)) if error.kind() == ErrorKind::Invalid));
}

#[tokio::test]
async fn acquire_is_granted_when_the_dead_holders_row_expires() {
    let world = World::new();
    let other = world.other();
    let Claimed::Granted(holder) = other.claim("nightly").await.unwrap() else { panic!("held") };
    // Dead: nobody renews, nobody releases.
    std::mem::forget(holder);
    world.database.edit_row(&name("nightly"), |row| row.holder = lease_core::Holder::from_bytes([7; 16]));
    let leases = world.leases.clone();
    let waiting = tokio::spawn(async move { leases.acquire("nightly", SECOND * 60).await });
    world.play(SECOND * 15 - MS).await;
    assert!(!waiting.is_finished());
    // The expiry is read in whole milliseconds.
    world.play(MS * 2).await;
    assert!(waiting.is_finished());
    assert_eq!(granted(waiting.await.unwrap().unwrap()).term().get(), 2);
}

#[tokio::test]
async fn acquire_gives_up_at_its_deadline_and_not_before() {
    let world = World::new();
    let _holder = granted(world.other().claim("nightly").await.unwrap());
    let leases = world.leases.clone();
    let waiting = tokio::spawn(async move { leases.acquire("nightly", SECOND * 30).await });
    world.play(SECOND * 30 - MS).await;
    assert!(!waiting.is_finished());
    world.play(MS).await;
    assert!(matches!(waiting.await.unwrap().unwrap(), Claimed::Held(_)));
    // Seven looks at 5 to 6 s each, not a busy loop.
    assert!(world.store.calls(Op::Claim) <= 8, "{}", world.store.calls(Op::Claim));
}

#[tokio::test]
async fn acquire_waits_out_failures_that_may_pass_and_returns_those_that_do_not() {
    let world = World::new();
    world.store.next(Op::Claim, Fault::FailBefore(ErrorKind::Unavailable));
    let leases = world.leases.clone();
    let waiting = tokio::spawn(async move { leases.acquire("nightly", SECOND * 30).await });
    world.play(SECOND * 3).await;
    drop(granted(waiting.await.unwrap().unwrap()));

    world.store.next(Op::Claim, Fault::FailBefore(ErrorKind::Schema));
    let error = world.leases.acquire("nightly", SECOND * 30).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
}

#[tokio::test]
async fn a_look_that_hangs_holds_up_neither_acquire_nor_a_shutdown() {
    let world = World::new();
    let _holder = granted(world.other().claim("nightly").await.unwrap());
    world.store.always(Op::Inspect, Fault::HangBefore);
    let leases = world.leases.clone();
    let waiting = tokio::spawn(async move { leases.acquire("nightly", SECOND * 30).await });
    world.play(SECOND * 36).await;
    assert!(waiting.is_finished());

    let leases = world.leases.clone();
    let waiting = tokio::spawn(async move { leases.acquire("nightly", SECOND * 3_600).await });
    world.play(SECOND).await;
    world.leases.shutdown();
    world.play(MS).await;
    assert!(waiting.is_finished());
}

#[tokio::test]
async fn acquire_does_not_look_who_holds_the_name_when_its_time_is_over() {
    let world = World::new();
    let _holder = granted(world.other().claim("nightly").await.unwrap());
    let Claimed::Held(_) = world.leases.acquire("nightly", std::time::Duration::ZERO).await.unwrap() else {
        panic!("granted")
    };
    assert_eq!((world.store.calls(Op::Claim), world.store.calls(Op::Inspect)), (1, 0));
}

#[tokio::test]
async fn a_shutdown_ends_a_wait() {
    let world = World::new();
    let _holder = granted(world.other().claim("nightly").await.unwrap());
    let leases = world.leases.clone();
    let waiting = tokio::spawn(async move { leases.acquire("nightly", SECOND * 3_600).await });
    world.play(SECOND).await;
    world.leases.shutdown();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn of_two_candidates_one_leads_and_the_other_follows_when_it_is_gone() {
    let world = World::new();
    let (first, second) = (world.leases.clone(), world.other());
    let leading: Arc<[AtomicUsize; 2]> = Arc::default();
    let elect = |leases: lease_core::Leases, n: usize| {
        let leading = Arc::clone(&leading);
        tokio::spawn(async move {
            let work = move |tenure: Tenure| {
                let leading = Arc::clone(&leading);
                async move {
                    leading[n].fetch_add(1, Ordering::SeqCst);
                    tenure.stopping().await;
                    leading[n].fetch_sub(1, Ordering::SeqCst);
                    Ok::<_, OwnError>(())
                }
            };
            leases.elect("leader", work).await
        })
    };
    let one = elect(first.clone(), 0);
    world.play(SECOND).await;
    let two = elect(second.clone(), 1);
    world.play(SECOND * 60).await;
    let now = || [0, 1].map(|n| leading[n].load(Ordering::SeqCst));
    assert_eq!(now(), [1, 0]);
    first.shutdown();
    world.play(SECOND * 7).await;
    assert_eq!(now(), [0, 1]);
    assert!(one.is_finished() && !two.is_finished());
    one.await.unwrap().unwrap();
    second.shutdown();
    two.await.unwrap().unwrap();
    assert_eq!(world.inspect("leader").await.row.unwrap().term.get(), 2);
}

#[tokio::test]
async fn a_leader_that_steps_down_stands_aside_until_the_other_leads() {
    for n in 0..100_u32 {
        let world = World::new();
        let (first, second) = (world.leases.clone(), world.other());
        let again = Arc::new(AtomicBool::new(false));
        let leads = |leases: lease_core::Leases, is_first: bool| {
            let again = Arc::clone(&again);
            tokio::spawn(async move {
                let work = move |tenure: Tenure| {
                    if is_first && tenure.term().get() == 2 {
                        again.store(true, Ordering::SeqCst);
                    }
                    async move {
                        tenure.stopping().await;
                        Ok::<_, OwnError>(())
                    }
                };
                leases.elect("leader", work).await
            })
        };
        let one = leads(first, true);
        world.play(SECOND).await;
        let two = leads(second, false);
        world.play(SECOND * 20 + MS * 73 * n).await;
        let row = world.inspect("leader").await.row.unwrap();
        world.database.resign(&name("leader"), row.term, SECOND).await.unwrap();
        world.play(SECOND * 14).await;
        assert!(!world.is_free("leader").await && !again.load(Ordering::SeqCst), "round {n}");
        one.abort();
        two.abort();
    }
}

#[tokio::test]
async fn an_election_survives_losses_and_ends_with_the_works_error() {
    let world = World::new();
    let rounds = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&rounds);
    let leases = world.leases.clone();
    let electing = tokio::spawn(async move {
        let work = move |tenure: Tenure| {
            let round = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                if round < 2 {
                    tenure.lost().await;
                    Ok(())
                } else {
                    Err(OwnError)
                }
            }
        };
        leases.elect("leader", work).await
    });
    for _ in 0..2 {
        world.play(SECOND).await;
        world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Unavailable));
        world.play(SECOND * 12).await;
        world.store.heal();
        world.play(SECOND * 10).await;
    }
    let outcome = electing.await.unwrap();
    assert!(matches!(outcome, Err(RunError::Work(OwnError))), "{outcome:?}");
    assert_eq!(rounds.load(Ordering::SeqCst), 3);
    assert!(world.is_free("leader").await);
}
