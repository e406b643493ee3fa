//! The step of a scheduler as the README has it.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use lease_core::{Clock, Error, Leases, Moment, RoundEnd, SlotClaimed, SlotLease};
use lease_testkit::ManualClock;

use super::job::{JOB, OwnError, Record, at, round, seconds};
use crate::common::{SECOND, World};

#[derive(Clone)]
struct Scheduler {
    leases: Leases,
    clock: Arc<ManualClock>,
    start: Moment,
    /// What ran: the instant, and whether it was a rerun.
    ran: Arc<Mutex<Vec<(i64, bool)>>>,
}

impl Scheduler {
    /// The latest instant of the schedule that has come: every minute.
    fn due(&self) -> SystemTime {
        let now = self.clock.now().since(self.start).as_secs();
        at((now - now % 60).cast_signed())
    }

    async fn step(&self) -> Result<(), Error> {
        for cut_short in self.leases.unfinished_slots([JOB]).await? {
            if let Some(round) = self.leases.claim_rerun(&cut_short).await? {
                self.run(round).await;
            }
        }
        match self.leases.claim_slot(JOB, self.due(), SECOND).await? {
            SlotClaimed::Granted(round) => self.run(round).await,
            SlotClaimed::Held(_) | SlotClaimed::Passed | SlotClaimed::NotYet(_) => {}
        }
        Ok(())
    }

    async fn run(&self, round: SlotLease) {
        let (rerun, passing, working) = (round.is_rerun(), self.clone(), self.clone());
        let ran = (seconds(round.slot()), rerun);
        let passed = move || (!rerun).then(|| passing.due());
        let work = async move |_| {
            working.ran.lock().unwrap().push(ran);
            Ok::<_, OwnError>(())
        };
        let done = round.run(passed, work).await;
        assert!(matches!(done.end, RoundEnd::Finished(_)), "{done:?}");
    }
}

#[tokio::test]
async fn a_round_cut_short_a_period_ago_runs_again_and_the_present_instant_runs_too() {
    let world = World::new();
    let (leases, clock, start) = (world.leases.clone(), world.clock.clone(), world.clock.now());
    let scheduler = Scheduler { leases, clock, start, ran: Arc::default() };
    drop(round(&world.leases, 0).await);
    world.play(SECOND * 61).await;
    for _ in 0..3 {
        scheduler.step().await.unwrap();
    }
    assert_eq!(*scheduler.ran.lock().unwrap(), [(0, true), (60, false)]);
    assert_eq!(world.record().await, Record { rerun: Some(0), ..Record::finished(60) });
}
