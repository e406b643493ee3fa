//! Rounds of a schedule in real time: by processes that are killed, and by replicas that come late or have a wrong clock.

use std::env;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lease_core::{FinishAnswer, LeaseStore, Leases, RoundEnd, Slot, SlotClaimed, SlotLease, Timings};
use lease_sqlite::SqliteStore;
use lease_testkit::rounds::{Order, Trial, work};
use tempfile::TempDir;

/// Where a worker of the trial finds the leases.
const PLACE: &str = "LEASE_TEST_ROUNDS_PLACE";

/// How long a kill blocks a name.
const TRIAL_TTL: Duration = Duration::from_secs(2);

const NAME: &str = "nightly";
const HOUR: Duration = Duration::from_secs(3600);

/// An empty table; it goes with the folder.
async fn table() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("leases.db").into_os_string().into_string().unwrap();
    open(&place).await.migrate().await.unwrap();
    (folder, place)
}

/// A store of its own, as each process has one.
async fn open(place: &str) -> Arc<dyn LeaseStore> {
    Arc::new(SqliteStore::open(place).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_instant_is_accounted_for_though_thirty_processes_are_killed() {
    let (_folder, place) = table().await;
    let worker = || {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["what_a_worker_of_the_trial_does", "--exact", "--nocapture"]).env(PLACE, &place);
        command
    };
    Trial::new(TRIAL_TTL).run(open(&place).await, worker).await;
}

/// Elsewhere it does nothing.
#[tokio::test]
async fn what_a_worker_of_the_trial_does() {
    if let Some(order) = Order::given() {
        work(order, open(&env::var(PLACE).unwrap()).await).await;
    }
}

#[tokio::test]
async fn a_slot_finished_in_ten_milliseconds_is_refused_to_a_replica_that_comes_five_seconds_later() {
    let (_folder, place) = table().await;
    let (first, late) = (replica(&place).await, replica(&place).await);
    let instant = database_now(&first).await;
    finish(claimed(&first, instant).await, None, Duration::from_millis(10)).await;

    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_passed(&late, instant).await;
    assert_eq!(late.unfinished_slots([NAME]).await.unwrap(), []);
    assert_eq!(late.last_slot(NAME).await.unwrap(), Some(Slot::new(instant).unwrap()));
}

#[tokio::test]
async fn instants_that_a_round_has_overrun_are_skipped_for_all_and_for_who_starts_up_afterwards() {
    let (_folder, place) = table().await;
    let (first, other) = (replica(&place).await, replica(&place).await);
    let begin = database_now(&first).await;
    let [one, two, three, four] = [1, 2, 3, 4].map(|n| begin + n * Duration::from_millis(200));
    let round = claimed(&first, begin).await;
    while database_now(&other).await < three {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(matches!(claim(&other, three).await, SlotClaimed::Held(_)));
    finish(round, Some(three), Duration::ZERO).await;

    let started_later = replica(&place).await;
    for replica in [&started_later, &other, &first] {
        assert_eq!(replica.last_slot(NAME).await.unwrap(), Some(Slot::new(three).unwrap()));
        for overrun in [three, two, one, begin] {
            assert_passed(replica, overrun).await;
        }
        assert_eq!(replica.unfinished_slots([NAME]).await.unwrap(), []);
    }
    let next = started_later.claim_slot(NAME, four, Duration::from_secs(60)).await.unwrap();
    assert!(matches!(next, SlotClaimed::Granted(_)), "{next:?}");
}

#[tokio::test]
async fn a_replica_an_hour_ahead_makes_nobody_skip_and_one_an_hour_behind_repeats_nothing() {
    let (_folder, place) = table().await;
    let (right, wrong) = (replica(&place).await, replica(&place).await);
    let instant = database_now(&right).await;
    let not_yet = |answer| match answer {
        SlotClaimed::NotYet(left) => assert!(left.abs_diff(HOUR) < Duration::from_secs(120), "{left:?}"),
        other => panic!("{other:?}"),
    };
    not_yet(claim(&wrong, instant + HOUR).await);
    assert_eq!(right.last_slot(NAME).await.unwrap(), None);

    let round = claimed(&right, instant).await;
    not_yet(claim(&wrong, instant + HOUR).await);
    assert_passed(&wrong, instant - HOUR).await;
    // One that claims to have overrun the coming hour skips nothing either.
    finish(round, Some(instant + HOUR), Duration::ZERO).await;
    for replica in [&wrong, &right, &replica(&place).await] {
        for older in [instant - HOUR, instant - Duration::from_millis(1), instant] {
            assert_passed(replica, older).await;
        }
        not_yet(claim(replica, instant + HOUR).await);
    }
    drop(claimed(&right, instant + Duration::from_millis(1)).await);
}

/// A process as the others see it: a store and leases of its own. The ttl outlasts the test.
async fn replica(place: &str) -> Leases {
    let timings = Timings::from_ttl(HOUR).unwrap();
    Leases::builder_shared(open(place).await).timings(timings).build().unwrap()
}

async fn database_now(replica: &Leases) -> SystemTime {
    let seen = replica.store().inspect(&NAME.parse().unwrap(), Duration::from_secs(60)).await.unwrap();
    Slot::from_millis(seen.now.as_millis()).unwrap().into()
}

async fn claim(replica: &Leases, instant: SystemTime) -> SlotClaimed {
    replica.claim_slot(NAME, instant, Duration::ZERO).await.unwrap()
}

async fn claimed(replica: &Leases, instant: SystemTime) -> SlotLease {
    match replica.claim_slot(NAME, instant, Duration::from_secs(60)).await.unwrap() {
        SlotClaimed::Granted(round) => round,
        other => panic!("{other:?}"),
    }
}

async fn assert_passed(replica: &Leases, instant: SystemTime) {
    let answer = claim(replica, instant).await;
    assert!(matches!(answer, SlotClaimed::Passed), "{answer:?}");
}

/// Runs the round to its end.
async fn finish(round: SlotLease, passed: Option<SystemTime>, takes: Duration) {
    let work = move |_tenure| async move {
        tokio::time::sleep(takes).await;
        Ok::<_, ()>(())
    };
    let ran = round.run(move || passed, work).await;
    assert!(matches!(ran.end, RoundEnd::Finished(FinishAnswer::Finished)), "{ran:?}");
}
