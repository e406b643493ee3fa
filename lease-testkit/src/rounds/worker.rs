//! What each process of a trial does: it works off the schedule, beside others that do the same.

use std::ops::Range;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use lease_core::{
    Error, FinishAnswer, LeaseName, LeaseStore, Leases, RoundEnd, Slot, SlotClaimed, SlotLease, Tenure,
    Timings,
};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::log::{End, Entry, Event, Log, Round, now};
use super::pace::Pace;
use super::plan::Order;
use crate::random::Random;

/// One in so many rounds skips the instant after its own.
const SKIPS: u32 = 12;

/// One in so many instants is asked for beside one that is an hour ahead.
const AHEAD: u32 = 10;

const HOUR: Duration = Duration::from_secs(3_600);

/// What takes longer than this by so much is said.
const STOOD: Duration = Duration::from_millis(200);

/// So often it is looked whether the process stands still.
const BEAT: Duration = Duration::from_millis(20);

/// An instant that came so long ago has come by the database's clock too.
const SURELY_COME_MS: i64 = 1_000;

/// Works off the schedule of a trial, as far as its parent allows on the standard input, until every instant of it is
/// settled, by this process or by others. The end of the standard input ends the process.
///
/// # Panics
///
/// When a claim fails and another try would not help, when an instant an hour ahead is granted, when the log cannot be
/// written, or when the time is up.
pub async fn work(order: Order, store: Arc<dyn LeaseStore>) {
    let within = order.within;
    let log = Log::open(&order.log).unwrap_or_else(|error| panic!("{}: {error}", order.log.display()));
    let timings = Timings::from_ttl(order.plan.ttl).expect("a ttl that can be divided");
    let leases = Leases::builder_shared(store).timings(timings).build().expect("leases in the store");
    let random = Mutex::new(Random(order.plan.seed ^ (u64::from(order.worker) << 32)));
    let worker = Arc::new(Worker { order, log, leases, random, pace: Pace::told() });
    worker.say(now(), Event::Started { pid: process::id() });
    let work_off = async {
        tokio::select! {
            () = worker.work_off() => {}
            () = worker.watch_the_time() => {}
        }
    };
    timeout(within, work_off).await.expect("the schedule is not settled in the time given");
    worker.say(now(), Event::Done);
}

struct Worker {
    order: Order,
    log: Log,
    leases: Leases,
    random: Mutex<Random>,
    pace: Pace,
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
            match self.timed(self.leases.last_slot(name)).await {
                Ok(last) => break last,
                Err(error) => self.try_again(&error).await,
            }
        };
        let slots = self.order.plan.slots(name);
        for (at, slot) in slots.iter().enumerate().filter(|(_, slot)| Some(**slot) > last) {
            self.pace.until(at + 1).await;
            if self.below(AHEAD) == 0 {
                self.ask_ahead(name).await;
            }
            self.work_off_slot(name, *slot).await;
        }
    }

    /// Until there is nothing to claim any more, because it was run here or is passed.
    async fn work_off_slot(self: &Arc<Self>, name: &LeaseName, slot: Slot) {
        loop {
            let wait = Duration::from_millis(self.between(0..2) * 700);
            let asked = self.ask(name);
            let claim = self.leases.claim_slot(name, slot, wait);
            let claimed = if wait.is_zero() { self.timed(claim).await } else { claim.await };
            match claimed {
                Ok(SlotClaimed::Granted(granted)) => return self.run(granted, asked).await,
                Ok(SlotClaimed::Passed) => return self.refused(name, asked),
                Ok(SlotClaimed::Held(_)) => {
                    self.refused(name, asked);
                    self.pause(50..250).await;
                }
                Ok(SlotClaimed::NotYet(left)) => {
                    self.refused(name, asked);
                    sleep(left.min(Duration::from_millis(300))).await;
                }
                Err(error) => self.unsure(name, asked, &error).await,
            }
        }
    }

    /// What a replica does whose clock is wrong.
    async fn ask_ahead(&self, name: &LeaseName) {
        let asked = self.ask(name);
        match self.timed(self.leases.claim_slot(name, SystemTime::now() + HOUR, Duration::ZERO)).await {
            Ok(SlotClaimed::NotYet(_)) => self.refused(name, asked),
            Ok(other) => panic!("an instant an hour ahead was not refused as one to come: {other:?}"),
            Err(error) => self.unsure(name, asked, &error).await,
        }
    }

    /// Runs what was cut short, by whomever, once more.
    async fn rerun(self: &Arc<Self>, names: &[LeaseName], tasks: &mut JoinSet<()>) {
        let found = match self.timed(self.leases.unfinished_slots(names)).await {
            Ok(found) => found,
            Err(error) => return self.try_again(&error).await,
        };
        for unfinished in found {
            let asked = self.ask(&unfinished.name);
            match self.timed(self.leases.claim_rerun(&unfinished)).await {
                Ok(Some(granted)) => {
                    let worker = Arc::clone(self);
                    tasks.spawn(async move { worker.run(granted, asked).await });
                }
                Ok(None) => self.refused(&unfinished.name, asked),
                Err(error) => self.unsure(&unfinished.name, asked, &error).await,
            }
        }
    }

    /// Runs a round and says what became of it.
    async fn run(self: &Arc<Self>, granted: SlotLease, asked: i64) {
        let lease = granted.lease();
        let round = Round { name: lease.name().clone(), slot: granted.slot(), term: lease.term() };
        let (rerun, superseded) = (granted.is_rerun(), granted.superseded());
        let begin = Event::Begin { round: round.clone(), asked, rerun, superseded };
        let passed = {
            let (worker, round) = (Arc::clone(self), round.clone());
            move || worker.passed(round)
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
        let since = Instant::now();
        self.say_while_held(&tenure, begin)?;
        let (at, all) = self.place(&round);
        let ttl = self.order.plan.ttl;
        let least =
            if self.is_long(&round) { ttl + ttl / 2 } else { Duration::from_millis(self.between(0..100)) };
        loop {
            self.pause(10..50).await;
            if since.elapsed() >= least && self.pace.now() >= (at + 2).min(all) {
                break;
            }
            self.say_while_held(&tenure, Event::Held(round.clone()))?;
        }
        self.say_while_held(&tenure, Event::End(round))
    }

    /// The next instant, when that has come and it is to be skipped. Said before it is recorded. What may not be begun
    /// is not skipped.
    fn passed(&self, round: Round) -> Option<SystemTime> {
        let (now, (at, all)) = (now(), self.place(&round));
        let next = *self.order.plan.slots(&round.name).get(at + 1)?;
        let may = next.as_millis() + SURELY_COME_MS < now && self.pace.now() >= (at + 3).min(all);
        let skips = may && (self.is_long(&round) || self.below(SKIPS) == 0);
        skips.then(|| {
            self.say(now, Event::Skip { round, upto: next });
            next.into()
        })
    }

    /// The position of its instant, and how many there are.
    fn place(&self, round: &Round) -> (usize, usize) {
        let slots = self.order.plan.slots(&round.name);
        (slots.iter().position(|slot| *slot == round.slot).expect("an instant of the plan"), slots.len())
    }

    /// The last instants, of one half of the names, and those before the last, of the other, take longer than a lease
    /// that is not renewed lasts; the latter skip the last.
    fn is_long(&self, round: &Round) -> bool {
        let (at, all) = self.place(round);
        let names = self.order.plan.names();
        let even = names.iter().position(|name| *name == round.name).is_some_and(|name| name % 2 == 0);
        at + if even { 1 } else { 2 } == all
    }

    /// No name can be claimed or run again any more.
    async fn all_settled(&self, names: &[LeaseName]) -> bool {
        for name in names {
            let inspect = self.leases.store().inspect(name, self.order.plan.ttl);
            let seen = match self.timed(inspect).await {
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

    /// Says when the process has stood still. Never ends.
    async fn watch_the_time(&self) {
        loop {
            let since = Instant::now();
            sleep(BEAT).await;
            self.say_if_stood(since, BEAT + STOOD);
        }
    }

    /// Says when the database has kept a call waiting that has nothing to wait for.
    async fn timed<T>(&self, call: impl Future<Output = T>) -> T {
        let since = Instant::now();
        let answer = call.await;
        self.say_if_stood(since, STOOD);
        answer
    }

    fn say_if_stood(&self, since: Instant, longer_than: Duration) {
        let stood = since.elapsed();
        if stood > longer_than {
            let ms = i64::try_from(stood.as_millis()).expect("a short time");
            self.say(now(), Event::Stood { ms });
        }
    }

    /// Says that a claim is going to be sent; the moment names it.
    fn ask(&self, name: &LeaseName) -> i64 {
        let asked = now();
        self.say(asked, Event::Ask(name.clone()));
        asked
    }

    fn refused(&self, name: &LeaseName, asked: i64) {
        self.say(now(), Event::Refused { name: name.clone(), asked });
    }

    async fn unsure(&self, name: &LeaseName, asked: i64, error: &Error) {
        self.say(now(), Event::Unsure { name: name.clone(), asked });
        self.try_again(error).await;
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
