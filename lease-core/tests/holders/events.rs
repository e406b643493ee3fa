//! What becomes of leases, told in order to one hook.

use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use lease_core::store::{FinishAnswer, LeaseStore};
use lease_core::{ErrorKind, Event, Leases, SlotClaimed, Transition};
use lease_testkit::{Fault, Op};

use super::abandoned::ended;
use crate::common::{MS, SECOND, World, granted};

/// A process whose events go into a channel.
struct Told {
    leases: Leases,
    events: mpsc::Receiver<Event>,
}

impl Told {
    fn new(world: &World) -> Self {
        let (hear, events) = mpsc::channel();
        let leases = Leases::builder(world.store.clone())
            .clock(world.clock.clone())
            .on_stuck(|_| {})
            .on_event(move |event| hear.send(event.clone()).unwrap())
            .build()
            .unwrap();
        Self { leases, events }
    }

    /// The next event: name, term and what. The hook has a thread of its own, so it may take a while.
    fn next(&self) -> (String, i64, String) {
        let event = self.events.recv_timeout(Duration::from_secs(60)).expect("an event");
        let what = match event.what {
            Transition::Lost(reason) => format!("lost: {reason}"),
            what => format!("{what:?}"),
        };
        (event.name.to_string(), event.term.get(), what)
    }

    #[track_caller]
    fn are(&self, text: &str, term: i64, expected: &[&str]) {
        let seen: Vec<_> = expected.iter().map(|_| self.next()).collect();
        let expected: Vec<_> =
            expected.iter().map(|what| (text.to_owned(), term, (*what).to_owned())).collect();
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn a_lease_that_is_handed_over_is_claimed_asked_to_step_down_lost_and_given_back_each_once() {
    let world = World::new();
    let told = Told::new(&world);
    let lease = granted(told.leases.claim("nightly").await.unwrap());
    world.other().request_step_down("nightly").await.unwrap();
    world.play(SECOND * 20).await;
    lease.release().await.unwrap();
    lease.release().await.unwrap();
    drop(lease);
    told.are("nightly", 1, &["Claimed", "StepDownAsked", "lost: it was released", "GivenBack"]);
    let _next = granted(told.leases.claim("nightly").await.unwrap());
    told.are("nightly", 2, &["Claimed"]);
}

#[tokio::test]
async fn work_that_outlives_its_grace_is_told_between_the_loss_and_the_end() {
    let world = World::new();
    let told = Told::new(&world);
    let lease = granted(told.leases.claim("nightly").await.unwrap());
    let (kept, keeps) = mpsc::channel();
    world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Denied));
    let running = tokio::spawn(lease.run(move |tenure| async move {
        kept.send(tenure.clone()).unwrap();
        Ok::<(), ()>(())
    }));
    world.play(MS * 14_600).await;
    drop(keeps.recv().unwrap());
    world.play(MS).await;
    ended(running).await.unwrap_err();
    assert_eq!(told.next().2, "Claimed");
    let (_, _, lost) = told.next();
    assert!(lost.starts_with("lost: no renewal succeeded before the deadline"), "{lost}");
    told.are("nightly", 1, &["Stuck", "GivenBack"]);
}

#[tokio::test]
async fn a_name_that_is_somebody_elses_by_now_was_not_given_back() {
    let world = World::new();
    let told = Told::new(&world);
    let lease = granted(told.leases.claim("nightly").await.unwrap());
    world.database.edit_row(lease.name(), |row| row.holder = lease_core::Holder::mint().unwrap());
    lease.release().await.unwrap();
    told.are("nightly", 1, &["Claimed", "lost: it was released"]);
    let _next = granted(told.leases.claim("another").await.unwrap());
    told.are("another", 1, &["Claimed"]);
}

#[tokio::test]
async fn a_grant_that_nobody_waited_for_is_told_like_any_other() {
    let world = World::new();
    let told = Told::new(&world);
    world.store.next(Op::Claim, Fault::DelayAfter(SECOND));
    let leases = told.leases.clone();
    let claiming = tokio::spawn(async move { leases.claim("nightly").await.map(drop) });
    world.play(MS).await;
    claiming.abort();
    world.play(SECOND).await;
    told.are("nightly", 1, &["Claimed", "lost: it was released", "GivenBack"]);
}

#[tokio::test]
async fn a_round_is_given_back_once_however_often_its_end_is_told() {
    let world = World::new();
    let told = Told::new(&world);
    let instant = SystemTime::UNIX_EPOCH + SECOND * 60;
    let claimed = told.leases.claim_slot("nightly", instant, Duration::ZERO).await.unwrap();
    let SlotClaimed::Granted(round) = claimed else { panic!("{claimed:?}") };
    for _ in 0..3 {
        assert_eq!(round.finish(None).await.unwrap(), FinishAnswer::Finished);
    }
    told.are("nightly", 1, &["Claimed", "lost: it was released", "GivenBack"]);
    let next = told.leases.claim_slot("nightly", instant + SECOND, Duration::ZERO).await.unwrap();
    let SlotClaimed::Granted(round) = next else { panic!("{next:?}") };
    // Not given back: the end of a round whose name is another's.
    world.database.edit_row(round.lease().name(), |row| row.holder = lease_core::Holder::mint().unwrap());
    assert_eq!(round.finish(None).await.unwrap(), FinishAnswer::Lost { recorded: true });
    told.are("nightly", 2, &["Claimed", "lost: it was released"]);
    let _next = granted(told.leases.claim("another").await.unwrap());
    told.are("another", 1, &["Claimed"]);
}

#[tokio::test]
async fn a_request_that_comes_to_light_after_the_loss_is_not_told() {
    let world = World::new();
    let told = Told::new(&world);
    let lease = granted(told.leases.claim("nightly").await.unwrap());
    let tenure = lease.tenure();
    let carried = tenure.carry_renewal();
    world.database.edit_row(lease.name(), |row| row.holder = lease_core::Holder::mint().unwrap());
    world.play(SECOND * 3).await;
    assert!(!lease.check());
    carried.committed(true);
    told.are("nightly", 1, &["Claimed", "lost: the database says it is no longer held"]);
    let _next = granted(told.leases.claim("another").await.unwrap());
    told.are("another", 1, &["Claimed"]);
}

#[tokio::test]
async fn a_hook_that_blocks_holds_up_nothing_and_hears_of_all_in_the_end() {
    let world = World::new();
    let (go_on, blocked) = mpsc::channel::<()>();
    let (hear, events) = mpsc::channel();
    let blocked = std::sync::Mutex::new(blocked);
    let hook = move |event: &Event| {
        let _ = blocked.lock().unwrap().recv();
        hear.send(format!("{:?}", event.what)).unwrap();
    };
    let leases =
        Leases::builder(world.store.clone()).clock(world.clock.clone()).on_event(hook).build().unwrap();
    for text in ["one", "two"] {
        let lease = granted(leases.claim(text).await.unwrap());
        world.play(SECOND * 60).await;
        assert!(lease.check());
        lease.release().await.unwrap();
    }
    leases.close().await;
    assert!(events.try_recv().is_err());
    drop(go_on);
    let heard: Vec<String> = (0..6).map(|_| events.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
    let each = ["Claimed", "Lost(Released)", "GivenBack"];
    assert_eq!(heard, [each, each].concat());
}

#[tokio::test]
async fn a_hook_that_panics_costs_no_lease() {
    let world = World::new();
    let leases = Leases::builder(world.store.clone())
        .clock(world.clock.clone())
        .on_event(|_| panic!("a planted panic of the hook"))
        .build()
        .unwrap();
    for _ in 0..3 {
        let lease = granted(leases.claim("nightly").await.unwrap());
        world.play(SECOND * 60).await;
        assert!(lease.check());
        lease.release().await.unwrap();
    }
    leases.close().await;
    let seen = world.database.inspect(&"nightly".parse().unwrap(), SECOND).await.unwrap();
    assert_eq!(seen.row.unwrap().term.get(), 3);
}
