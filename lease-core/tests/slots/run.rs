//! The work of a round: what it comes to, and whether the round is finished or cut short.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use lease_core::{
    ErrorKind, FinishAnswer, LeaseStore, Leases, LossReason, Round, RoundEnd, RunError, SlotLease,
    SystemClock, Tenure,
};
use lease_testkit::{Fault, FaultStore, MemoryStore, Op};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::job::{JOB, OwnError, Record, at, ended, granted, rerun, round};
use crate::common::{MS, SECOND, World, name};

/// What happens to a round whose work then ends in one of four ways, and what comes of it:
/// the result, the end told, and what is on record.
type Row = (Event, [&'static str; 4]);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Nothing,
    Shutdown,
    /// The work has returned, but nobody has seen it yet.
    ShutdownAfterReturn,
    StepDown,
    Refused,
    Deadline,
    RunDropped,
    /// As above.
    RunDroppedAfterReturn,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Ok,
    Err,
    Panic,
    Never,
}

const WORKS: [Work; 4] = [Work::Ok, Work::Err, Work::Panic, Work::Never];

#[rustfmt::skip]
const TABLE: [Row; 8] = [
    (Event::Nothing, [
        "value; finished; finished", "own error; finished; finished", "panic; finished; finished", "runs on; held"]),
    (Event::Shutdown, [
        "value; finished; finished", "own error; cut short; unfinished", "panic; cut short; unfinished", "runs on; held"]),
    (Event::ShutdownAfterReturn, [
        "value; finished; finished", "own error; finished; finished", "panic; finished; finished", "runs on; held"]),
    (Event::StepDown, [
        "value; finished; finished", "own error; cut short; unfinished", "panic; cut short; unfinished", "runs on; held"]),
    (Event::Refused, [
        "refused, value; lost, recorded; finished", "refused, own error; cut short; unfinished",
        "refused; cut short; unfinished", "refused; cut short; unfinished"]),
    (Event::Deadline, [
        "deadline, value; finished; finished", "deadline, own error; cut short; unfinished",
        "deadline; cut short; unfinished", "deadline; cut short; unfinished"]),
    (Event::RunDropped, ["dropped; unfinished", "dropped; unfinished", "dropped; unfinished", "dropped; unfinished"]),
    (Event::RunDroppedAfterReturn, [
        "dropped; finished", "dropped; finished", "dropped; finished", "dropped; unfinished"]),
];

#[tokio::test]
async fn a_round_is_finished_when_its_work_ran_to_its_end_and_cut_short_otherwise() {
    for (event, expected) in TABLE {
        for (work, expected) in WORKS.into_iter().zip(expected) {
            for is_rerun in [false, true] {
                assert_eq!(play(event, work, is_rerun).await, expected, "{event:?}, {work:?}, {is_rerun}");
            }
        }
    }
}

/// Plays one field of the table.
async fn play(event: Event, work: Work, is_rerun: bool) -> String {
    let world = World::new();
    let mut round = round(&world.leases, 0).await;
    if is_rerun {
        round.release().await.unwrap();
        round = rerun(&world.leases).await;
    }
    let (end, told) = oneshot::channel::<()>();
    let running = tokio::spawn(round.run(
        || None,
        move |_| async move {
            let _ = told.await;
            match work {
                Work::Ok => Ok(7),
                Work::Err => Err(OwnError),
                Work::Panic => panic!("planted"),
                Work::Never => pending().await,
            }
        },
    ));
    world.play(MS).await;
    before_it_ends(&world, event).await;
    if event == Event::RunDropped {
        running.abort();
        world.play(MS).await;
    }
    // The work ends before what is spawned next runs, and its supervisor looks after that.
    end.send(()).unwrap_or_default();
    let leases = world.leases.clone();
    match event {
        Event::ShutdownAfterReturn => drop(tokio::spawn(async move { leases.shutdown() })),
        Event::RunDroppedAfterReturn => running.abort(),
        _ => {}
    }
    world.play(SECOND * 60).await;

    let record = world.record().await;
    let on_record = match (record.free, record.unfinished) {
        (false, _) => "held",
        (true, None) => "finished",
        (true, Some(_)) => "unfinished",
    };
    if !running.is_finished() {
        return format!("runs on; {on_record}");
    }
    let Ok(Round { result, end }) = running.await else { return format!("dropped; {on_record}") };
    format!("{}; {}; {on_record}", result_of(result), end_of(&end))
}

async fn before_it_ends(world: &World, event: Event) {
    match event {
        Event::Shutdown => world.leases.shutdown(),
        Event::StepDown => {
            let term = world.inspect(JOB).await.row.unwrap().term;
            world.database.resign(&name(JOB), term, SECOND).await.unwrap();
            world.play(SECOND * 2).await;
        }
        Event::Refused => {
            world.clear();
            world.play(SECOND * 2).await;
        }
        Event::Deadline => {
            world.store.always(Op::Renew, Fault::HangBefore);
            world.play(SECOND * 12).await;
        }
        _ => {}
    }
}

fn result_of(result: Result<i32, RunError<i32, OwnError>>) -> String {
    let output = |output| match output {
        None => "",
        Some(Ok(7)) => ", value",
        Some(Err(OwnError)) => ", own error",
        Some(Ok(_)) => ", another value",
    };
    match result {
        Ok(7) => "value".to_owned(),
        Err(RunError::Work(OwnError)) => "own error".to_owned(),
        Err(RunError::Panicked { message, .. }) if message == "planted" => "panic".to_owned(),
        Err(RunError::Lost { reason: LossReason::Refused, output: made }) => {
            format!("refused{}", output(made))
        }
        Err(RunError::Lost { reason: LossReason::Deadline { .. }, output: made }) => {
            format!("deadline{}", output(made))
        }
        other => format!("{other:?}"),
    }
}

fn end_of(end: &RoundEnd) -> String {
    match end {
        RoundEnd::Finished(FinishAnswer::Finished) => "finished".to_owned(),
        RoundEnd::Finished(FinishAnswer::Lost { recorded: true }) => "lost, recorded".to_owned(),
        RoundEnd::CutShort => "cut short".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Says what passed, and counts how often it is asked.
fn counted(
    passed: Option<SystemTime>,
) -> (Arc<AtomicUsize>, impl FnOnce() -> Option<SystemTime> + Send + 'static) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let ask = move || {
        count.fetch_add(1, Ordering::SeqCst);
        passed
    };
    (asked, ask)
}

#[tokio::test]
async fn what_passed_is_asked_once_when_the_last_tenure_has_gone() {
    let world = World::new();
    let (asked, passed) = counted(Some(at(3)));
    let (end, told) = oneshot::channel::<()>();
    let running = tokio::spawn(round(&world.leases, 0).await.run(passed, async move |tenure: Tenure| {
        tokio::spawn(async move {
            let _tenure = tenure;
            let _ = told.await;
        });
        Ok::<_, OwnError>(())
    }));
    world.play(SECOND * 30).await;
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    assert!(!world.record().await.free && !running.is_finished());
    // The end is told twice, and passed asked once.
    world.store.next(Op::FinishSlot, Fault::FailAfter(ErrorKind::Unavailable));
    end.send(()).unwrap();
    world.play(SECOND * 3).await;
    assert!(matches!(ended(running).await.end, RoundEnd::Finished(FinishAnswer::Finished)));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(world.record().await, Record::finished(3));
}

#[tokio::test]
async fn what_passed_is_not_asked_of_a_round_that_is_cut_short() {
    let world = World::new();
    let (asked, passed) = counted(Some(at(0)));
    let working = async |tenure: Tenure| {
        tenure.stopping().await;
        Err::<(), _>(OwnError)
    };
    let running = tokio::spawn(round(&world.leases, 0).await.run(passed, working));
    world.play(SECOND).await;
    world.leases.shutdown();
    world.play(MS).await;
    assert!(matches!(ended(running).await.end, RoundEnd::CutShort));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    assert_eq!(world.record().await, Record::cut_short(0));
}

type Passed = Box<dyn FnOnce() -> Option<SystemTime> + Send>;

#[tokio::test]
async fn what_cannot_have_passed_skips_nothing_and_the_round_is_finished() {
    let before_1970 = SystemTime::UNIX_EPOCH - SECOND;
    let cases: [Passed; 5] = [
        Box::new(|| panic!("asking panics")),
        Box::new(move || Some(before_1970)),
        Box::new(|| Some(SystemTime::UNIX_EPOCH + Duration::from_millis(u64::MAX))),
        Box::new(|| Some(at(3_600))),
        Box::new(|| Some(at(-1))),
    ];
    for passed in cases {
        let world = World::new();
        let done = round(&world.leases, 0).await.run(passed, async |_| Ok::<_, OwnError>(7)).await;
        assert!(matches!(done.end, RoundEnd::Finished(FinishAnswer::Finished)), "{done:?}");
        assert_eq!(done.result.unwrap(), 7);
        assert_eq!(world.record().await, Record::finished(0));
    }
}

#[tokio::test]
async fn a_database_that_is_away_is_told_when_it_comes_back_within_the_lease() {
    for (away, recorded) in [(SECOND * 13, true), (SECOND * 60, false)] {
        let world = World::new();
        let clock: Arc<dyn lease_core::Clock> = world.clock.clone();
        let working = async move |_| {
            lease_core::clock::sleep_until(&clock, clock.now() + SECOND * 5).await;
            Ok::<_, OwnError>(7)
        };
        let running = tokio::spawn(round(&world.leases, 0).await.run(|| None, working));
        world.play(SECOND * 4 + MS).await;
        for op in [Op::Renew, Op::FinishSlot, Op::Release] {
            world.store.always(op, Fault::FailBefore(ErrorKind::Unavailable));
        }
        world.play(away).await;
        world.store.heal();
        world.play(SECOND * 2).await;
        let done: Round<i32, OwnError> = ended(running).await;
        // What the work made is ours to keep in both cases.
        assert_eq!(done.result.unwrap(), 7);
        match done.end {
            RoundEnd::Finished(FinishAnswer::Finished) => assert!(recorded),
            RoundEnd::Unrecorded(error) => assert!(!recorded && error.kind() == ErrorKind::Unavailable),
            other => panic!("{other:?}"),
        }
        let expected = if recorded { Record::finished(0) } else { Record::cut_short(0) };
        assert_eq!(world.record().await, expected);
    }
}

#[tokio::test]
async fn a_round_that_outlived_its_lease_says_whether_its_end_is_on_record() {
    for later_claimed in [false, true] {
        let world = World::new();
        let other = world.other();
        let first = round(&world.leases, 0).await;
        let (end, told) = oneshot::channel::<()>();
        let running = tokio::spawn(first.run(
            || None,
            async move |_| {
                let _ = told.await;
                Ok::<_, OwnError>(7)
            },
        ));
        world.play(SECOND).await;
        world.clear();
        let next = if later_claimed { round(&other, 1).await } else { rerun(&other).await };
        world.play(SECOND * 3).await;
        end.send(()).unwrap();
        world.play(MS).await;
        let done = ended(running).await;
        assert!(matches!(
            done.result,
            Err(RunError::Lost { reason: LossReason::Refused, output: Some(Ok(7)) })
        ));
        let RoundEnd::Finished(FinishAnswer::Lost { recorded }) = done.end else { panic!("{done:?}") };
        assert_eq!(recorded, !later_claimed);
        assert!(next.lease().check(), "the successor keeps the name");
        next.finish(None).await.unwrap();
    }
}

#[tokio::test]
async fn work_is_not_begun_under_a_lease_that_is_lost_and_the_round_is_cut_short() {
    let world = World::new();
    let lost: SlotLease = round(&world.leases, 0).await;
    world.clock.jump(SECOND * 10);
    let (asked, passed) = counted(None);
    let (worked, work) = counted(None);
    let working = async move |_| {
        work();
        Ok::<_, OwnError>(())
    };
    let done = lost.run(passed, working).await;
    assert_eq!((worked.load(Ordering::SeqCst), asked.load(Ordering::SeqCst)), (0, 0));
    assert!(matches!(done.result, Err(RunError::Lost { reason: LossReason::Deadline { .. }, output: None })));
    assert!(matches!(done.end, RoundEnd::CutShort));
    world.play(MS).await;
    assert_eq!(world.record().await, Record::cut_short(0));
}

#[tokio::test]
async fn a_run_dropped_before_its_first_poll_cuts_the_round_short() {
    let world = World::new();
    drop(round(&world.leases, 0).await.run(|| None, async |_| -> Result<(), OwnError> { panic!("begun") }));
    world.play(MS).await;
    assert_eq!(world.record().await, Record::cut_short(0));
}

#[tokio::test]
async fn close_waits_for_work_that_ends_well_and_for_its_end() {
    let world = World::new();
    let working = async |tenure: Tenure| {
        tenure.stopping().await;
        Ok::<_, OwnError>(())
    };
    let running = tokio::spawn(round(&world.leases, 0).await.run(|| None, working));
    world.play(SECOND).await;
    tokio::time::timeout(SECOND * 60, world.leases.close()).await.unwrap();
    assert_eq!(world.record().await, Record::finished(0));
    assert!(matches!(ended(running).await.end, RoundEnd::Finished(FinishAnswer::Finished)));
}

#[test]
fn on_several_threads_no_name_is_given_back_without_the_end_of_its_round() {
    let runtime = Builder::new_multi_thread().worker_threads(3).build().unwrap();
    let store = FaultStore::new(MemoryStore::new(), SystemClock::shared().unwrap());
    runtime.block_on(async {
        let leases = Leases::builder(store.clone()).own_thread().build().unwrap();
        for ms in 1..=3_000 {
            let instant = SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
            let round = granted(leases.claim_slot(JOB, instant, Duration::ZERO).await.unwrap());
            let done = tokio::spawn(round.run(|| None, async |_| Ok::<_, OwnError>(()))).await.unwrap();
            assert!(matches!(done.end, RoundEnd::Finished(FinishAnswer::Finished)), "{done:?}");
        }
        leases.close().await;
    });
    assert_eq!((store.calls(Op::FinishSlot), store.calls(Op::Release)), (3_000, 0));
}
