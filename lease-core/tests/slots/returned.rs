//! Work that has returned while something else goes on: what held when it returned decides how the round ends.

use std::thread;
use std::time::Instant;

use lease_core::{
    ErrorKind, FinishAnswer, LeaseStore, Leases, LossReason, Round, RoundEnd, RunError, Tenure,
};
use lease_testkit::{Fault, FaultStore, ManualClock, MemoryStore, Op};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::job::{JOB, OwnError, Record, ended, round};
use crate::common::{MS, SECOND, World, name};

#[tokio::test]
async fn work_that_failed_by_itself_ran_to_its_end_whatever_happens_while_a_child_has_its_tenure() {
    for (panics, lost) in [(false, false), (false, true), (true, false), (true, true)] {
        let world = World::new();
        let (end, told) = oneshot::channel::<()>();
        let working = async move |tenure: Tenure| {
            tokio::spawn(async move {
                let _tenure = tenure;
                let _ = told.await;
            });
            assert!(!panics, "planted");
            Err::<(), _>(OwnError)
        };
        let running = tokio::spawn(round(&world.leases, 0).await.run(|| None, working));
        world.play(SECOND).await;
        if lost {
            world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Unavailable));
            world.play(SECOND * 10).await;
        } else {
            world.leases.shutdown();
            world.play(SECOND).await;
        }
        assert!(!running.is_finished());
        end.send(()).unwrap();
        world.play(MS).await;
        let Round { result, end } = ended(running).await;
        assert!(matches!(end, RoundEnd::Finished(FinishAnswer::Finished)), "{panics}, {lost}: {end:?}");
        match result {
            Err(RunError::Lost { reason: LossReason::Deadline { .. }, .. }) => assert!(lost),
            Err(RunError::Panicked { .. }) => assert!(panics && !lost),
            Err(RunError::Work(OwnError)) => assert!(!panics && !lost),
            other => panic!("{other:?}"),
        }
        assert_eq!(world.record().await, Record::finished(0));
    }
}

#[test]
fn a_round_whose_runtime_shuts_down_under_it_is_not_said_to_be_cut_short() {
    let clock = ManualClock::new();
    let database = MemoryStore::with_clock(clock.clone());
    let store = FaultStore::new(database.clone(), clock.clone());
    let leases = Leases::builder(store.clone()).clock(clock.clone()).own_thread().build().unwrap();
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let round = runtime.block_on(round(&leases, 0));
    store.next(Op::FinishSlot, Fault::HangBefore);
    let handle = runtime.handle().clone();
    let running = thread::spawn(move || handle.block_on(round.run(|| None, async |_| Ok::<_, OwnError>(7))));
    let start = Instant::now();
    let wait = |until: &dyn Fn() -> bool| {
        while !until() {
            assert!(start.elapsed() < SECOND * 60, "what was waited for has not come");
            thread::sleep(MS);
        }
    };
    wait(&|| store.calls(Op::FinishSlot) == 1);
    runtime.shutdown_background();
    let done = running.join().unwrap();
    let RoundEnd::Unrecorded(error) = done.end else { panic!("{done:?}") };
    assert_eq!(error.kind(), ErrorKind::Runtime);
    assert!(
        error.to_string().starts_with(r#"nobody knows how slot @1700100000 of lease "job" ended"#),
        "{error}"
    );
    // The task that renews goes on.
    clock.advance(SECOND * 5);
    let other = Builder::new_current_thread().build().unwrap();
    let record = || Record::from(other.block_on(database.inspect(&name(JOB), SECOND)).unwrap());
    wait(&|| record() == Record::finished(0));
}
