//! A replica: a runtime of its own, in which a scheduler goes about its work.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lease_core::clock::{Clock, sleep_until};
use lease_core::{Error, ErrorKind, Leases, SlotClaimed, SlotLease, Stuck, Tenure};
use lease_testkit::{FaultStore, ManualClock, MemoryStore};
use tokio::runtime::{Builder, Runtime};

use super::PERIOD;
use super::chaos::Chaos;
use super::notes::{Event, Notes, Told};
use crate::common::{MS, SECOND};
use crate::slots::job::{JOB, OwnError, at};

pub(crate) struct Replica {
    runtime: Runtime,
    scheduler: Scheduler,
    database: MemoryStore,
    /// Turns until it is started again.
    down: u64,
}

impl Replica {
    pub(crate) fn start(
        id: usize,
        database: &MemoryStore,
        clock: &Arc<ManualClock>,
        chaos: &Chaos,
        notes: &Notes,
    ) -> Self {
        let runtime = Builder::new_current_thread().build().unwrap();
        let store = FaultStore::new(database.clone(), clock.clone());
        store.plan(chaos.of_statements());
        let leases = {
            let _inside = runtime.enter();
            let stuck = notes.clone();
            let hook = move |work: &Stuck| stuck.stuck(work);
            Leases::builder(store).clock(clock.clone()).on_stuck(hook).build().unwrap()
        };
        let scheduler =
            Scheduler { id, leases, clock: clock.clone(), chaos: chaos.clone(), notes: notes.clone() };
        runtime.spawn(scheduler.clone().serve());
        Self { runtime, scheduler, database: database.clone(), down: 0 }
    }

    /// Runs what is ready to run.
    pub(crate) fn turn(&mut self) {
        match self.down {
            0 => {}
            1 => {
                let Scheduler { id, clock, chaos, notes, .. } = &self.scheduler;
                *self = Self::start(*id, &self.database, clock, chaos, notes);
            }
            _ => self.down -= 1,
        }
        self.runtime.block_on(async {
            for _ in 0..12 {
                tokio::task::yield_now().await;
            }
        });
    }

    pub(crate) fn is_up(&self) -> bool {
        self.down == 0
    }

    /// Ends all at once, as a killed process does, and starts anew after a while.
    pub(crate) fn kill(&mut self) {
        let empty = Builder::new_current_thread().build().unwrap();
        drop(std::mem::replace(&mut self.runtime, empty));
        self.scheduler.notes.killed(self.scheduler.id);
        self.down = 1 + self.scheduler.chaos.below(50);
    }

    /// Shuts down in order, and starts anew after that.
    pub(crate) fn stop(&mut self) {
        self.scheduler.leases.shutdown();
        self.scheduler.notes.count(Event::Stopped);
        self.down = 100;
    }
}

#[derive(Clone)]
struct Scheduler {
    id: usize,
    leases: Leases,
    clock: Arc<ManualClock>,
    chaos: Chaos,
    notes: Notes,
}

impl Scheduler {
    async fn serve(self) {
        loop {
            self.sleep(MS + self.chaos.up_to(SECOND * 3)).await;
            match self.step().await {
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(_) => self.notes.count(Event::StepFailed),
                Ok(()) => {}
            }
        }
    }

    async fn step(&self) -> Result<(), Error> {
        for found in self.leases.unfinished_slots([JOB]).await? {
            if let Some(Some(round)) =
                self.perhaps_dropped(self.leases.claim_rerun(&found)).await.transpose()?
            {
                self.run(round).await;
            }
        }
        if self.chaos.has_ended() {
            return Ok(());
        }
        let hour = match self.chaos.below(8) {
            0 => 1,
            1 => -1,
            _ => 0,
        };
        let wait = if self.chaos.below(4) == 0 { PERIOD } else { Duration::ZERO };
        let asked = self.instant(hour, wait);
        let claim = self.leases.claim_slot(JOB, at(asked), wait);
        match self.perhaps_dropped(claim).await.transpose()? {
            Some(SlotClaimed::Granted(round)) => {
                assert!(hour <= 0, "an instant was granted an hour before its time");
                self.run(round).await;
            }
            Some(SlotClaimed::NotYet(_)) if hour > 0 => self.notes.count(Event::AskedAhead),
            Some(SlotClaimed::Passed) if hour < 0 => self.notes.count(Event::AskedBehind),
            _ => {}
        }
        Ok(())
    }

    /// The instant that is due by a clock that may be an hour off, or the next one if that can be waited for.
    fn instant(&self, hours_off: i64, wait: Duration) -> i64 {
        let now = self.notes.now() + hours_off * 3_600 + i64::try_from(wait.as_secs()).unwrap();
        let period = i64::try_from(PERIOD.as_secs()).unwrap();
        now.div_euclid(period) * period
    }

    async fn run(&self, round: SlotLease) {
        let run = self.notes.begun(self.id, &round);
        let told = if self.chaos.below(4) == 0 {
            self.perhaps_dropped(self.by_hand(round, run)).await
        } else {
            let (working, passing) = (self.clone(), self.clone());
            let work = async move |tenure| working.work(&tenure, run).await;
            let passed = move || passing.passed(run);
            self.perhaps_dropped(async { Told::of(&round.run(passed, work).await) }).await
        };
        self.notes.told(run, told.unwrap_or(Told::Nobody));
    }

    async fn by_hand(&self, round: SlotLease, run: usize) -> Told {
        let tenure = round.lease().tenure();
        let worked = self.work(&tenure, run).await;
        if worked.is_err() && tenure.is_stopping() {
            // Cut short by the drop.
            return Told::CutShort;
        }
        // Somebody may forget one.
        let kept = self.chaos.one_in(4).then(|| tenure.clone());
        drop(tenure);
        let answer = round.finish(self.passed(run)).await;
        drop(kept);
        answer.map_or(Told::Unrecorded, Told::Finished)
    }

    /// Most work takes a moment, some of it outlasts the next instants; some heeds a request to stop, some fails.
    async fn work(&self, tenure: &Tenure, run: usize) -> Result<(), OwnError> {
        let long = if self.chaos.below(2) == 0 { SECOND * 30 } else { MS * 500 };
        let working = self.sleep(self.chaos.up_to(long));
        if self.chaos.below(2) == 0 {
            tokio::select! {
                () = working => {}
                () = tenure.stopping() => return Err(OwnError),
            }
        } else {
            working.await;
        }
        let failed = self.chaos.below(10) == 0;
        self.notes.returned(run, failed);
        if failed { Err(OwnError) } else { Ok(()) }
    }

    fn passed(&self, run: usize) -> Option<SystemTime> {
        let hour = match self.chaos.below(8) {
            0 => 1,
            1 => -1,
            2 => return None,
            _ => 0,
        };
        let passed = self.instant(hour, Duration::ZERO);
        self.notes.passed(run, passed);
        Some(at(passed))
    }

    /// The output of a future, unless that is dropped.
    async fn perhaps_dropped<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        if !self.chaos.one_in(6) {
            return Some(future.await);
        }
        tokio::select! {
            output = future => Some(output),
            () = self.sleep(self.chaos.up_to(SECOND * 8)) => {
                self.notes.count(Event::Dropped);
                None
            }
        }
    }

    async fn sleep(&self, duration: Duration) {
        let clock: Arc<dyn Clock> = self.clock.clone();
        sleep_until(&clock, clock.now() + duration).await;
    }
}
