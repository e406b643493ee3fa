//! The trial itself: it starts the workers and kills them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_core::store::SlotRow;
use lease_core::{LeaseName, LeaseStore, Slot};
use tokio::time::sleep;

use super::check::{Account, Checked, check, in_the_middle};
use super::log::{Entry, Event, Log, Tail, now};
use super::plan::{Order, Plan};
use crate::random::Random;

const NAMES: u32 = 8;
const INSTANTS: u32 = 25;
const WORKERS: u32 = 3;
const KILLS: u32 = 30;

/// So many instants are worked off when the kills are done; the rest is for those that must land still.
const UNTIL: u32 = 180;

/// So many of the kills must land between a begin and the line of what became of the round.
const MID_ROUND: u32 = 10;

/// When so many workers have died by themselves, it is not the machine that stands still.
const DEATHS: u32 = 10;

/// From one instant of a name to the next.
const EVERY_MS: i64 = 300;

/// So long before the start the first instant lies, so that some have come and most are still to come.
const BEFORE_MS: i64 = 2_000;

/// So far the clocks of the workers and of the database may be apart.
const APART_MS: i64 = 500;

/// The seed of a replay: of what is random here, for what the machine makes of it is not the same again.
const SEED: &str = "LEASE_ROUNDS_SEED";

/// So often the log is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Three processes that work 200 instants of 8 names, 30 of them killed at random moments and replaced at once, at least
/// 10 in the middle of a round; and then the question whether every instant is accounted for.
#[derive(Debug, Clone)]
pub struct Trial {
    ttl: Duration,
    within: Duration,
}

impl Trial {
    /// A trial whose leases have this ttl: near the store's least, but of some seconds. Each kill blocks a name for
    /// as long.
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, within: Duration::from_secs(300) }
    }

    /// How long it may take; five minutes unless set.
    #[must_use]
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Runs it on the empty table of `store`. `worker` makes the command of a process that calls [`work`](super::work) with a
    /// store of the same table; the order is put into its environment here.
    ///
    /// Prints the seed first, for a replay with `LEASE_ROUNDS_SEED`, and what became of the instants at the end.
    ///
    /// # Panics
    ///
    /// When a rule is broken, with the lines of the log that show it; when a worker fails; when the schedule or the
    /// time is up before the kills are done. The log is kept then.
    pub async fn run(&self, store: Arc<dyn LeaseStore>, worker: impl Fn() -> Command) {
        let seed = env::var(SEED).map_or_else(
            |_| RandomState::new().build_hasher().finish() >> 32,
            |seed| seed.parse().unwrap_or_else(|_| panic!("{SEED}: {seed:?} is no number")),
        );
        let path = env::temp_dir().join(format!("lease-rounds-{}-{seed}.log", process::id()));
        println!("rounds: {SEED}={seed} for a replay; the log is {}", path.display());
        let plan = plan(seed, &*store).await;
        let order =
            Order { plan: plan.clone(), worker: 0, ttl: self.ttl, within: self.within, log: path.clone() };
        let mut running = Running::new(order, worker);
        running.kill_at_random().await;
        running.until(|running| running.alive.is_empty()).await;

        let Checked { violations, account } = check(&plan, &running.entries, &rows(&plan, &*store).await);
        println!("rounds: {account}; {:.1} s", running.started.elapsed().as_secs_f64());
        let broken: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "rules broken; {}\n{}", running.stands(), broken.join("\n"));
        assert_eq!(account.instants(), NAMES * INSTANTS, "{}", running.stands());
        assert!(account.reruns > 0, "nothing was run again; {}", running.stands());
        fs::remove_file(&path).expect("the log can be removed");
    }
}

/// A schedule that has begun by the database's clock.
async fn plan(seed: u64, store: &dyn LeaseStore) -> Plan {
    let mut plan = Plan { seed, names: NAMES, instants: INSTANTS, first_ms: 0, every_ms: EVERY_MS };
    let before = now();
    let found = store.inspect(&plan.names()[0], PATIENCE).await.expect("the table can be read");
    let (database, here) = (found.now.as_millis(), before - APART_MS..=now() + APART_MS);
    assert_eq!(found.row, None, "the table is not empty");
    assert!(here.contains(&database), "the clocks of this machine and the database are too far apart");
    plan.first_ms = database - BEFORE_MS;
    plan
}

async fn rows(plan: &Plan, store: &dyn LeaseStore) -> BTreeMap<LeaseName, SlotRow> {
    let mut rows = BTreeMap::new();
    for name in plan.names() {
        if let Some(row) = store.inspect(&name, PATIENCE).await.expect("the row can be read").row {
            let (last, unfinished, rerun) = (row.slot, row.unfinished_slot, row.rerun_slot);
            rows.insert(
                name,
                SlotRow { term: row.term, expires_at: row.expires_at, last, unfinished, rerun },
            );
        }
    }
    rows
}

/// The workers, and what they have written so far. Those that live are killed when this is dropped.
struct Running<C> {
    order: Order,
    command: C,
    started: Instant,
    log: Log,
    tail: Tail,
    entries: Vec<Entry>,
    alive: BTreeMap<u32, Child>,
    /// Kills are to come, so no worker may come to the end of the schedule.
    killing: bool,
}

impl<C: Fn() -> Command> Running<C> {
    fn new(order: Order, command: C) -> Self {
        let log = Log::open(&order.log).expect("a file for the log can be made");
        let tail = Tail::open(&order.log).expect("the log can be read");
        let started = Instant::now();
        let mut running = Self {
            order,
            command,
            started,
            log,
            tail,
            entries: Vec::new(),
            alive: BTreeMap::new(),
            killing: true,
        };
        (0..WORKERS).for_each(|_| running.start());
        running
    }

    /// Evenly over the schedule as it is worked off, so that it does not depend on the machine's speed.
    async fn kill_at_random(&mut self) {
        let mut random = Random(self.order.plan.seed);
        loop {
            let Account { kills, kills_mid_round, .. } = Account::of_the_log(&self.entries);
            let left = KILLS.saturating_sub(kills);
            let missing = MID_ROUND.saturating_sub(kills_mid_round);
            if left == 0 && missing == 0 {
                break;
            }
            let each = UNTIL / KILLS;
            let after = kills * each + 1 + random.below(each);
            self.until(|running| running.worked_off() >= after).await;
            sleep(Duration::from_millis(random.below(150).into())).await;
            let mut victims: Vec<u32> = self.alive.keys().copied().collect();
            // When the random moments have landed too seldom, the last ones are chosen.
            if missing >= left {
                self.until(|running| !running.in_the_middle().is_empty()).await;
                victims = self.in_the_middle();
            }
            let one = random.below(WORKERS) as usize % victims.len().max(1);
            if let Some(victim) = victims.get(one) {
                self.kill(*victim);
            }
        }
        self.killing = false;
    }

    /// The workers that are in the middle of a round.
    fn in_the_middle(&self) -> Vec<u32> {
        let middle = in_the_middle(&self.entries);
        self.alive.keys().copied().filter(|worker| middle.contains(worker)).collect()
    }

    /// Looks until it is so, no longer than the time given.
    async fn until(&mut self, so: impl Fn(&Self) -> bool) {
        loop {
            self.look();
            if so(self) {
                return;
            }
            assert!(self.started.elapsed() < self.order.within, "the time is up; {}", self.stands());
            sleep(LOOK).await;
        }
    }

    /// Replaces workers that have died by themselves (by their own failing hook, say, when the machine stood still
    /// for longer than a lease lasts), and reads on in the log: what a worker that has ended wrote is then all read.
    fn look(&mut self) {
        let ended = |(worker, child): (&u32, &mut Child)| {
            let status = child.try_wait().expect("a worker can be asked whether it runs");
            status.map(|status| (*worker, status))
        };
        let ended: Vec<(u32, ExitStatus)> = self.alive.iter_mut().filter_map(ended).collect();
        self.entries.extend(self.tail.read().expect("the log can be read"));
        for (worker, status) in ended {
            self.alive.remove(&worker);
            let problem = |what: &str| format!("worker {worker} {what}, {status}; {}", self.stands());
            if status.success() {
                assert!(!self.killing, "{}", problem("has come to the end before the kills were done"));
            } else {
                let deaths = Account::of_the_log(&self.entries).deaths;
                assert!(status.code().is_none(), "{}", problem("has failed"));
                assert!(deaths < DEATHS, "{}", problem("has died like others before"));
                self.gone(worker, Event::Died);
            }
        }
    }

    fn kill(&mut self, worker: u32) {
        let Some(mut child) = self.alive.remove(&worker) else { return };
        child.kill().expect("a worker can be killed");
        let status = child.wait().expect("a worker that was killed ends");
        assert!(
            !status.success(),
            "worker {worker} has come to the end before it was killed; {}",
            self.stands()
        );
        self.gone(worker, Event::Killed);
    }

    /// All that it has written is in the log before this line.
    fn gone(&mut self, worker: u32, event: Event) {
        self.log.append(&Entry { at: now(), worker, event });
        self.start();
        self.entries.extend(self.tail.read().expect("the log can be read"));
    }

    fn start(&mut self) {
        self.order.worker += 1;
        let mut command = (self.command)();
        command.env(Order::VARIABLE, self.order.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
        self.alive.insert(self.order.worker, child);
    }

    /// How many instants have begun, or lie before one that has.
    fn worked_off(&self) -> u32 {
        let mut begun = BTreeMap::new();
        for entry in &self.entries {
            if let Event::Begin { round, .. } = &entry.event {
                let last = begun.entry(&round.name).or_insert(round.slot);
                *last = round.slot.max(*last);
            }
        }
        let worked_off = |(name, last): (&LeaseName, Slot)| {
            self.order.plan.slots(name).iter().filter(|slot| **slot <= last).count()
        };
        u32::try_from(begun.into_iter().map(worked_off).sum::<usize>()).expect("few instants")
    }

    /// Where the trial stands, and what it was.
    fn stands(&self) -> String {
        let Account { kills, kills_mid_round, first_rounds, reruns, .. } = Account::of_the_log(&self.entries);
        let (worked_off, seconds) = (self.worked_off(), self.started.elapsed().as_secs());
        let Order { plan: Plan { seed, .. }, log, .. } = &self.order;
        format!(
            "{worked_off} of {} instants worked off in {first_rounds} first rounds and {reruns} reruns, {kills} of \
             {KILLS} kills done, {kills_mid_round} in the middle of a round ({MID_ROUND} must be), after {seconds} s; \
             {SEED}={seed}, log {}",
            NAMES * INSTANTS,
            log.display()
        )
    }
}

impl<C> Drop for Running<C> {
    fn drop(&mut self) {
        for child in self.alive.values_mut() {
            // It may have ended meanwhile.
            drop(child.kill());
            drop(child.wait());
        }
    }
}
