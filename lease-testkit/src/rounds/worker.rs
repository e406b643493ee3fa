//! What each process of a trial does: it works off the schedule, beside others that do the same.

use std::ops::Range;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use lease_core::{
    Error, FinishAnswer, LeaseName, LeaseStore, Leases, RoundEnd, Slot, SlotClaimed, SlotLease, Tenure,
    Timings,
};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::log::{End, Entry, Event, Log, Round, now};
use super::plan::Order;
use crate::random::Random;

/// One in so many rounds skips the instant after its own.
const SKIPS: u32 = 12;

/// An instant that came so long ago has come by the database's clock too.
const SURELY_COME_MS: i64 = 1_000;

/// Works off the schedule of a trial, until every instant of it is settled, by this process or by others.
///
/// # Panics
///
/// When a claim fails and another try would not help, when the log cannot be written, or when the time is up.
pub async fn work(order: Order, store: Arc<dyn LeaseStore>) {
    let within = order.within;
    let log = Log::open(&order.log).unwrap_or_else(|error| panic!("{}: {error}", order.log.display()));
    let timings = Timings::from_ttl(order.ttl).expect("a ttl that can be divided");
    let leases = Leases::builder_shared(store).timings(timings).build().expect("leases in the store");
    let random = Mutex::new(Random(order.plan.seed ^ (u64::from(order.worker) << 32)));
    let worker = Arc::new(Worker { order, log, leases, random });
    worker.say(now(), Event::Started { pid: process::id() });
    timeout(within, worker.work_off()).await.expect("the schedule is not settled in the time given");
    worker.say(now(), Event::Done);
}

struct Worker {
    order: Order,
    log: Log,
    leases: Leases,
    random: Mutex<Random>,
}

/// The work is cut short: its lease is lost.
struct Lost;

impl Worker {
    async fn work_off(self: &Arc<Self>) {
        let names = self.order.plan.names();
        let mut tasks = JoinSet::new();
        for name in &names {
            let (worker, name) = (Arc::clone(self), name.clone());
            tasks.spawn(async move { worker.work_off_name(&name).await });
        }
        // What was cut short is looked for from the start on, beside the instants that come.
        loop {
            self.rerun(&names, &mut tasks).await;
            while let Some(ended) = tasks.try_join_next() {
                ended.expect("neither a name nor a rerun panics");
            }
            if tasks.is_empty() && self.all_settled(&names).await {
                break;
            }
            self.pause(30..120).await;
        }
        self.leases.close().await;
    }

    /// One instant after the other.
    async fn work_off_name(self: &Arc<Self>, name: &LeaseName) {
        let last = loop {
            match self.leases.last_slot(name).await {
                Ok(last) => break last,
                Err(error) => self.try_again(&error).await,
            }
        };
        let slots = self.order.plan.slots(name);
        for (at, slot) in slots.iter().enumerate().filter(|(_, slot)| Some(**slot) > last) {
            self.work_off_slot(name, *slot, slots.get(at + 1).copied()).await;
        }
    }

    /// Until there is nothing to claim any more, because it was run here or is passed.
    async fn work_off_slot(self: &Arc<Self>, name: &LeaseName, slot: Slot, next: Option<Slot>) {
        loop {
            let wait = Duration::from_millis(self.between(0..2) * 700);
            let asked = now();
            match self.leases.claim_slot(name, slot, wait).await {
                Ok(SlotClaimed::Granted(granted)) => return self.run(granted, asked, next).await,
                Ok(SlotClaimed::Passed) => return,
                Ok(SlotClaimed::Held(_)) => self.pause(50..250).await,
                Ok(SlotClaimed::NotYet(left)) => sleep(left.min(Duration::from_millis(300))).await,
                Err(error) => {
                    self.say(now(), Event::Unsure(name.clone()));
                    self.try_again(&error).await;
                }
            }
        }
    }

    /// Runs what was cut short, by whomever, once more.
    async fn rerun(self: &Arc<Self>, names: &[LeaseName], tasks: &mut JoinSet<()>) {
        let found = match self.leases.unfinished_slots(names).await {
            Ok(found) => found,
            Err(error) => return self.try_again(&error).await,
        };
        for unfinished in found {
            let asked = now();
            match self.leases.claim_rerun(&unfinished).await {
                Ok(Some(granted)) => {
                    let worker = Arc::clone(self);
                    tasks.spawn(async move { worker.run(granted, asked, None).await });
                }
                Ok(None) => {}
                Err(error) => {
                    self.say(now(), Event::Unsure(unfinished.name));
                    self.try_again(&error).await;
                }
            }
        }
    }

    /// Runs a round and says what became of it. `next`: the instant after it.
    async fn run(self: &Arc<Self>, granted: SlotLease, asked: i64, next: Option<Slot>) {
        let lease = granted.lease();
        let round = Round { name: lease.name().clone(), slot: granted.slot(), term: lease.term() };
        let (rerun, superseded) = (granted.is_rerun(), granted.superseded());
        let begin = Event::Begin { round: round.clone(), asked, rerun, superseded };
        let passed = {
            let (worker, round) = (Arc::clone(self), round.clone());
            move || worker.passed(round, next?)
        };
        let (worker, works) = (Arc::clone(self), round.clone());
        let ran =
            granted.run(passed, |tenure| async move { worker.run_work(tenure, begin, works).await }).await;
        let end = match ran.end {
            RoundEnd::Finished(FinishAnswer::Finished) => End::Finished,
            RoundEnd::Finished(FinishAnswer::Lost { recorded: true }) => End::LostRecorded,
            RoundEnd::Finished(FinishAnswer::Lost { recorded: false }) => End::Lost,
            RoundEnd::CutShort => End::CutShort,
            RoundEnd::Unrecorded(_) => End::Unrecorded,
        };
        self.say(now(), Event::Ended(round, end));
    }

    /// The work itself.
    async fn run_work(&self, tenure: Tenure, begin: Event, round: Round) -> Result<(), Lost> {
        self.say_while_held(&tenure, begin)?;
        for _ in 0..2 {
            self.pause(10..50).await;
            self.say_while_held(&tenure, Event::Held(round.clone()))?;
        }
        self.pause(10..50).await;
        self.say_while_held(&tenure, Event::End(round))
    }

    /// The next instant, when that has come and it is to be skipped. Said before it is recorded.
    fn passed(&self, round: Round, next: Slot) -> Option<SystemTime> {
        let at = now();
        let skips = next.as_millis() + SURELY_COME_MS < at && self.below(SKIPS) == 0;
        skips.then(|| {
            self.say(at, Event::Skip { round, upto: next });
            next.into()
        })
    }

    /// No name can be claimed or run again any more.
    async fn all_settled(&self, names: &[LeaseName]) -> bool {
        for name in names {
            let seen = match self.leases.store().inspect(name, self.order.ttl).await {
                Ok(seen) => seen,
                Err(error) => {
                    assert!(error.kind().retry_helps(), "{error}");
                    return false;
                }
            };
            let settled = seen.row.is_some_and(|row| {
                row.slot == self.order.plan.slots(name).last().copied()
                    && !row.is_live(seen.now)
                    && (row.unfinished_slot != row.slot || row.rerun_slot == row.slot)
            });
            if !settled {
                return false;
            }
        }
        true
    }

    async fn try_again(&self, error: &Error) {
        assert!(error.retry_helps(), "{error}");
        self.pause(50..250).await;
    }

    /// Says what is true only while the lease is held. The moment is read before the look.
    fn say_while_held(&self, tenure: &Tenure, event: Event) -> Result<(), Lost> {
        let at = now();
        if !tenure.check() {
            return Err(Lost);
        }
        self.say(at, event);
        Ok(())
    }

    fn say(&self, at: i64, event: Event) {
        self.log.append(&Entry { at, worker: self.order.worker, event });
    }

    async fn pause(&self, ms: Range<u32>) {
        sleep(Duration::from_millis(self.between(ms))).await;
    }

    fn between(&self, ms: Range<u32>) -> u64 {
        (ms.start + self.below(ms.end - ms.start)).into()
    }

    fn below(&self, bound: u32) -> u32 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).below(bound)
    }
}
