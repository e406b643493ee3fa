//! The whole protocol with its default timings (ttl 15 s, renew 2 s, attempt 5 s, deadline 10 s,
//! grace 4.5 s) on a clock moved by hand.

#![expect(clippy::unchecked_time_subtraction, reason = "constants that a reader can subtract")]

mod common;

use std::sync::Arc;

use common::{MS, SECOND, World, granted, name, term};
use lease_core::clock::{Alarm, AlarmBook, Ring};
use lease_core::store::Page;
use lease_core::{Claimed, Clock, ErrorKind, Holder, LeaseStore, Leases, LossReason, ManualClaimed, Moment};
use lease_testkit::{Fault, FaultStore, ManualClock, MemoryStore, Op};

#[tokio::test]
async fn a_healthy_holder_keeps_its_lease_for_a_day_with_one_renewal_each_two_seconds() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.play(SECOND * 86_400).await;
    assert!(lease.check());
    assert_eq!(world.store.calls(Op::Renew), 43_200);
    assert_eq!(term(world.other().claim("nightly").await.unwrap()), None);
}

#[tokio::test]
async fn without_the_database_the_lease_is_lost_at_the_deadline_and_free_at_the_ttl() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let tenure = lease.tenure();
    world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Unavailable));
    let other = world.other();

    world.play(SECOND * 10 - MS).await;
    assert!(tenure.check());
    assert!(tenure.reason().is_none());
    world.play(MS).await;
    assert!(!tenure.check());
    let reason = tenure.lost().await;
    assert!(matches!(reason, LossReason::Deadline { last_error: Some(_) }), "{reason}");
    assert_eq!(world.store.calls(Op::Renew), 4);

    world.play(SECOND * 5 - MS).await;
    assert_eq!(term(other.claim("nightly").await.unwrap()), None);
    world.play(MS).await;
    let successor = granted(other.claim("nightly").await.unwrap());
    assert_eq!(successor.term().get(), 2);
}

#[tokio::test]
async fn the_deadline_counts_from_the_start_of_the_last_success() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    // Renewed at 2 s, answered at 3 s; from then on nothing answers.
    world.store.next(Op::Renew, Fault::DelayAfter(SECOND));
    for _ in 0..5 {
        world.store.next(Op::Renew, Fault::HangBefore);
    }
    world.play(SECOND * 12 - MS).await;
    assert!(lease.check());
    world.play(MS).await;
    assert!(!lease.check());
    assert!(matches!(lease.reason(), Some(LossReason::Deadline { .. })));
}

#[tokio::test]
async fn a_renewal_that_hangs_does_not_delay_the_loss() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::HangAfter);
    world.play(SECOND * 10).await;
    assert!(matches!(lease.reason(), Some(LossReason::Deadline { .. })));
    // At 2 s for 5 s, then at 7 s for what was left.
    assert_eq!(world.store.calls(Op::Renew), 2);
}

#[tokio::test]
async fn an_answer_after_the_deadline_does_not_revive_the_lease() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Renew, Fault::DelayAfter(SECOND * 4));
    world.play(SECOND * 2).await;
    // The process stands still past its deadline, the answer of 2 s waiting for it.
    world.clock.jump(SECOND * 20);
    assert!(!lease.check());
    world.play(SECOND).await;
    assert!(!lease.check());
    assert!(matches!(lease.reason(), Some(LossReason::Deadline { .. })));
}

/// A clock whose alarms never ring: a watchdog that is late for ever.
#[derive(Debug)]
struct DeafClock(Arc<ManualClock>, Arc<AlarmBook>);

impl Clock for DeafClock {
    fn now(&self) -> Moment {
        self.0.now()
    }

    fn alarm(&self, at: Moment, ring: Ring) -> Alarm {
        self.1.set(at, ring).0
    }
}

#[tokio::test]
async fn check_reads_the_clock_before_anything_has_noticed_the_deadline() {
    let clock = ManualClock::new();
    let deaf = Arc::new(DeafClock(clock.clone(), Arc::default()));
    let leases = Leases::builder(MemoryStore::with_clock(clock.clone())).clock(deaf).build().unwrap();
    let lease = granted(leases.claim("nightly").await.unwrap());
    clock.advance(SECOND * 10 - MS);
    assert!(lease.check());
    clock.advance(MS);
    assert!(!lease.check() && lease.reason().is_none());
}

#[tokio::test]
async fn the_trust_window_opens_when_the_claim_is_sent() {
    let world = World::new();
    let sent = world.clock.now();
    world.store.next(Op::Claim, Fault::DelayAfter(SECOND * 3));
    let leases = world.leases.clone();
    // By hand, since a lease that took so long is renewed at once.
    let claiming = tokio::spawn(async move { leases.claim_manual("nightly").await });
    world.play(SECOND * 3).await;
    let ManualClaimed::Granted(lease) = claiming.await.unwrap().unwrap() else { panic!("held") };
    assert_eq!(lease.deadline(), sent + SECOND * 10);
}

#[tokio::test]
async fn the_trust_window_opens_when_a_batch_is_sent_and_when_a_renewal_by_hand_is_sent() {
    let world = World::new();
    let start = world.clock.now();
    let (a, _b) = (world.claim("a").await, world.claim("b").await);
    world.store.next(Op::RenewMany, Fault::DelayAfter(SECOND));
    world.play(SECOND * 3).await;
    assert_eq!(a.deadline(), start + SECOND * 12);

    let ManualClaimed::Granted(lease) = world.leases.claim_manual("by hand").await.unwrap() else {
        panic!("held")
    };
    let sent = world.clock.now();
    world.store.next(Op::Renew, Fault::DelayAfter(SECOND));
    let renewing = tokio::spawn(async move {
        assert!(lease.renew().await.unwrap());
        lease.deadline()
    });
    world.play(SECOND).await;
    assert_eq!(renewing.await.unwrap(), sent + SECOND * 10);
}

#[tokio::test]
async fn a_refused_renewal_is_a_loss_at_once() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.database.edit_row(&name("nightly"), |row| row.holder = Holder::from_bytes([7; 16]));
    world.play(SECOND * 2).await;
    assert!(matches!(lease.reason(), Some(LossReason::Refused)));
    drop(lease);
    world.play(SECOND).await;
    // Known not to be ours: no release is sent, least of all for the other holder.
    assert_eq!(world.store.calls(Op::Release), 0);
    assert!(!world.is_free("nightly").await);
}

#[tokio::test]
async fn errors_are_never_taken_for_a_loss() {
    for kind in [
        ErrorKind::Unavailable,
        ErrorKind::Busy,
        ErrorKind::ReadOnly,
        ErrorKind::Schema,
        ErrorKind::Damaged,
        ErrorKind::Other,
    ] {
        let world = World::new();
        let lease = world.claim("nightly").await;
        for _ in 0..3 {
            world.store.next(Op::Renew, Fault::FailAfter(kind));
        }
        world.play(SECOND * 9).await;
        assert!(lease.check(), "{kind:?}");
        world.play(SECOND * 60).await;
        assert!(lease.check(), "{kind:?}");
    }
}

#[tokio::test]
async fn a_replaced_database_is_a_loss_at_once() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.next(Op::Renew, Fault::FailBefore(ErrorKind::Replaced));
    world.play(SECOND * 2).await;
    assert!(matches!(lease.reason(), Some(LossReason::Replaced(_))));
}

#[tokio::test]
async fn a_release_frees_the_name_at_once_and_may_be_repeated() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let tenure = lease.tenure();
    let releasing = tokio::spawn(async move {
        lease.release().await.unwrap();
        lease.release().await.unwrap();
    });
    world.play(SECOND).await;
    assert!(!tenure.check());
    assert!(matches!(tenure.lost().await, LossReason::Released));
    // A clone of the tenure is left: our own work may still run.
    assert!(!world.is_free("nightly").await && !releasing.is_finished());
    drop(tenure);
    releasing.await.unwrap();
    assert!(world.is_free("nightly").await);
    assert_eq!(world.store.calls(Op::Release), 1);
}

#[tokio::test]
async fn a_release_that_fails_is_repeated_until_it_succeeds() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.next(Op::Release, Fault::FailBefore(ErrorKind::Unavailable));
    world.store.next(Op::Release, Fault::FailBefore(ErrorKind::Unavailable));
    let error = lease.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("\"nightly\""), "{error}");
    world.play(SECOND * 4).await;
    assert!(world.is_free("nightly").await);
    assert_eq!(world.store.calls(Op::Release), 3);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn releases_end_when_the_row_has_surely_expired() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.always(Op::Release, Fault::FailBefore(ErrorKind::Unavailable));
    drop(lease);
    world.play(SECOND * 60).await;
    // One each 2 s for ttl, attempt and margin, 20.5 s.
    assert_eq!(world.store.calls(Op::Release), 11);
    tokio::time::timeout(SECOND * 60, world.leases.close()).await.unwrap();
}

#[tokio::test]
async fn leases_of_one_tick_are_renewed_in_one_statement() {
    let world = World::new();
    let mut leases = Vec::new();
    for n in 0..10 {
        leases.push(world.claim(&format!("job-{n}")).await);
    }
    world.play(SECOND * 60).await;
    assert!(leases.iter().all(lease_core::Lease::check));
    assert_eq!(world.store.calls(Op::RenewMany), 30);
    assert_eq!(world.store.calls(Op::Renew), 0);
}

#[tokio::test]
async fn a_row_that_a_batch_skips_is_asked_for_alone_and_only_that_says_lost() {
    let world = World::new();
    let (kept, robbed) = (world.claim("kept").await, world.claim("robbed").await);
    world.database.edit_row(&name("robbed"), |row| row.holder = Holder::from_bytes([7; 16]));
    world.play(SECOND * 2).await;
    assert!(kept.check());
    assert!(matches!(robbed.reason(), Some(LossReason::Refused)));
    assert_eq!((world.store.calls(Op::RenewMany), world.store.calls(Op::Renew)), (1, 1));
}

#[tokio::test]
async fn after_a_hung_batch_each_of_its_leases_asks_alone() {
    let world = World::new();
    let leases = [world.claim("a").await, world.claim("b").await, world.claim("c").await];
    world.store.next(Op::RenewMany, Fault::HangBefore);
    world.play(SECOND * 7).await;
    assert_eq!((world.store.calls(Op::RenewMany), world.store.calls(Op::Renew)), (1, 3));
    world.play(SECOND * 60).await;
    assert!(leases.iter().all(lease_core::Lease::check));
}

#[tokio::test]
async fn a_batch_that_fails_is_no_loss_and_is_followed_by_another_batch() {
    let world = World::new();
    let leases = [world.claim("a").await, world.claim("b").await];
    world.store.next(Op::RenewMany, Fault::FailBefore(ErrorKind::Unavailable));
    world.play(SECOND * 4).await;
    assert!(leases.iter().all(lease_core::Lease::check));
    assert_eq!((world.store.calls(Op::RenewMany), world.store.calls(Op::Renew)), (2, 0));
    world.play(SECOND * 9).await;
    assert!(leases.iter().all(lease_core::Lease::check));
}

#[tokio::test]
async fn a_batch_that_gives_up_by_itself_costs_no_lease() {
    let clock = ManualClock::new();
    // A store that keeps its contract: it waits for one locked row for 4.9 s, then says so itself.
    let inner = FaultStore::new(MemoryStore::with_clock(clock.clone()), clock.clone());
    inner.always(Op::RenewMany, Fault::FailBefore(ErrorKind::Busy));
    let store = FaultStore::new(inner, clock.clone());
    store.always(Op::RenewMany, Fault::DelayBefore(MS * 4_900));
    let leases = Leases::builder(store.clone()).clock(clock.clone()).build().unwrap();
    let held = [granted(leases.claim("a").await.unwrap()), granted(leases.claim("b").await.unwrap())];
    clock.play(SECOND * 60).await;
    assert!(held.iter().all(lease_core::Lease::check), "{:?}", held[0].reason());
}

#[tokio::test]
async fn after_a_batch_that_may_have_failed_for_one_rows_sake_each_asks_alone() {
    let world = World::new();
    let _leases = (world.claim("a").await, world.claim("b").await);
    world.store.always(Op::RenewMany, Fault::FailBefore(ErrorKind::Damaged));
    world.play(SECOND * 4).await;
    assert_eq!((world.store.calls(Op::RenewMany), world.store.calls(Op::Renew)), (1, 2));
}

#[tokio::test]
async fn no_statement_moves_the_expiry_of_a_lease_after_its_deadline() {
    let world = World::new();
    let _leases = (world.claim("a").await, world.claim("b").await);
    let start = world.clock.now();
    world.store.plan(move |call| match call.op {
        Op::RenewMany if call.number == 1 => Some(Fault::HangBefore),
        Op::Renew if call.at.since(start) < SECOND * 9 => Some(Fault::FailBefore(ErrorKind::Unavailable)),
        Op::RenewMany | Op::Renew => Some(Fault::DelayBefore(SECOND * 2)),
        _ => None,
    });
    world.play(SECOND * 30).await;
    let row = world.inspect("a").await.row.unwrap();
    assert_eq!(row.renewed_at, row.claimed_at);
}

#[tokio::test]
async fn a_lease_that_ended_while_its_batch_was_out_is_not_asked_for_alone() {
    let world = World::new();
    let (a, _b) = (world.claim("a").await, world.claim("b").await);
    let tenure = a.tenure();
    world.store.next(Op::RenewMany, Fault::DelayAfter(SECOND));
    world.database.edit_row(&name("a"), |row| row.holder = Holder::from_bytes([7; 16]));
    world.play(SECOND * 2 + MS * 500).await;
    drop(a);
    world.play(SECOND).await;
    assert_eq!(world.store.calls(Op::Renew), 0);
    drop(tenure);
}

#[tokio::test]
async fn a_store_that_panics_once_costs_no_lease_and_no_later_claim() {
    let world = World::new();
    let a = world.claim("a").await;
    world.store.plan(|call| {
        assert!(call.op != Op::Renew || call.number > 1, "a planted panic of the store");
        None
    });
    world.play(SECOND * 3).await;
    let b = world.claim("b").await;
    world.play(SECOND * 30).await;
    assert!(a.check() && b.check());
}

#[tokio::test]
async fn a_claim_in_which_the_store_panics_is_an_error_and_its_token_is_released() {
    let world = World::new();
    world.store.plan(|call| {
        assert!(call.op != Op::Claim, "a planted panic of the store");
        None
    });
    let error = world.leases.claim("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.to_string().contains("a planted panic"), "{error}");
    world.play(SECOND).await;
    assert_eq!(world.store.calls(Op::Release), 1);
}

#[tokio::test]
async fn a_repeated_release_waits_for_the_next_attempt_rather_than_repeating_the_old_error() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    world.store.next(Op::Release, Fault::FailBefore(ErrorKind::Unavailable));
    lease.release().await.unwrap_err();
    let second = tokio::spawn(async move { lease.release().await });
    world.play(MS).await;
    assert!(!second.is_finished());
    world.play(SECOND * 2).await;
    second.await.unwrap().unwrap();
}

#[tokio::test]
async fn no_more_than_a_few_releases_are_under_way_at_once() {
    let world = World::new();
    let mut leases = Vec::new();
    for n in 0..100 {
        leases.push(world.claim(&format!("job-{n}")).await);
    }
    world.store.always(Op::Release, Fault::DelayBefore(SECOND));
    drop(leases);
    world.play(MS).await;
    assert_eq!(world.store.in_flight(), 32);
    world.play(SECOND * 4).await;
    assert_eq!(world.store.calls(Op::Release), 100);
    assert!(world.is_free("job-99").await);
}

#[tokio::test]
async fn a_step_down_request_reaches_the_holder_with_its_next_renewal() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let tenure = lease.tenure();
    world.database.resign(&name("nightly"), lease.term(), SECOND).await.unwrap();
    assert!(!tenure.is_stopping());
    world.play(SECOND * 2).await;
    assert!(tenure.is_stopping() && tenure.check());
    tenure.stopping().await;
}

#[tokio::test]
async fn a_manual_lease_is_renewed_by_hand_alone() {
    let world = World::new();
    let ManualClaimed::Granted(lease) = world.leases.claim_manual("nightly").await.unwrap() else {
        panic!("held")
    };
    world.play(SECOND * 9).await;
    assert_eq!(world.store.calls(Op::Renew), 0);
    assert!(lease.renew().await.unwrap());
    world.play(SECOND * 9).await;
    assert!(lease.check());
    world.play(SECOND).await;
    assert!(!lease.check() && !lease.renew().await.unwrap());
    // No statement is sent for a lease that is lost already.
    assert_eq!(world.store.calls(Op::Renew), 1);
    lease.release().await.unwrap();
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn a_manual_renewal_that_is_refused_is_final_and_one_that_fails_is_not() {
    let world = World::new();
    let ManualClaimed::Granted(lease) = world.leases.claim_manual("nightly").await.unwrap() else {
        panic!("held")
    };
    world.store.next(Op::Renew, Fault::FailBefore(ErrorKind::Busy));
    assert_eq!(lease.renew().await.unwrap_err().kind(), ErrorKind::Busy);
    assert!(lease.renew().await.unwrap());
    world.database.edit_row(&name("nightly"), |row| row.holder = Holder::from_bytes([7; 16]));
    assert!(!lease.renew().await.unwrap());
    assert!(!lease.check());
}

#[tokio::test]
async fn a_manual_lease_knows_a_replaced_database_and_its_last_error() {
    let world = World::new();
    let ManualClaimed::Granted(lease) = world.leases.claim_manual("nightly").await.unwrap() else {
        panic!("held")
    };
    world.store.next(Op::Renew, Fault::FailBefore(ErrorKind::Busy));
    lease.renew().await.unwrap_err();
    world.play(SECOND * 10).await;
    assert!(matches!(lease.reason(), Some(LossReason::Deadline { last_error: Some(_) })));

    let ManualClaimed::Granted(lease) = world.leases.claim_manual("other").await.unwrap() else {
        panic!("held")
    };
    world.store.next(Op::Renew, Fault::FailBefore(ErrorKind::Replaced));
    lease.renew().await.unwrap_err();
    assert!(!lease.check() && matches!(lease.reason(), Some(LossReason::Replaced(_))));
}

#[tokio::test]
async fn a_manual_renewal_is_not_waited_for_past_the_deadline_and_hears_of_a_step_down() {
    let world = World::new();
    let ManualClaimed::Granted(lease) = world.leases.claim_manual("nightly").await.unwrap() else {
        panic!("held")
    };
    world.database.resign(&name("nightly"), lease.term(), SECOND).await.unwrap();
    assert!(lease.renew().await.unwrap());
    assert!(lease.tenure().is_stopping());
    world.play(SECOND * 9).await;
    world.store.next(Op::Renew, Fault::HangBefore);
    let renewing = tokio::spawn(async move { lease.renew().await });
    world.play(SECOND).await;
    assert_eq!(renewing.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn a_refusal_can_say_who_holds_the_name() {
    let world = World::new();
    let _lease = world.claim("nightly").await;
    let Claimed::Held(refusal) = world.other().claim("nightly").await.unwrap() else { panic!("granted") };
    let seen = refusal.holder().await.unwrap();
    let row = seen.row().unwrap();
    assert!(row.instance.ends_with(&format!(":{}", std::process::id())));
    assert_eq!(refusal.name().as_str(), "nightly");
}

#[tokio::test]
async fn bad_names_and_timings_are_refused_before_any_statement() {
    let world = World::new();
    for text in ["", "a\nb", "a ", &"n".repeat(192)] {
        assert_eq!(world.leases.claim(text).await.unwrap_err().kind(), ErrorKind::Invalid, "{text:?}");
    }
    assert_eq!(world.store.log(), []);
    assert_eq!(world.database.list(&Page { limit: 10, ..Page::default() }, SECOND).await.unwrap().rows, []);
}
