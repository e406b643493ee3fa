//! The workers of a trial: started, paced, killed at random, and read.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use lease_core::{LeaseName, Slot};
use tokio::time::sleep;

use super::check::{Account, in_the_middle};
use super::log::{Entry, Event, Log, Tail, now};
use super::plan::{Order, Plan};
use crate::random::Random;

const WORKERS: u32 = 3;
pub(crate) const KILLS: u32 = 30;

/// So many of the kills must land between a begin and the line of what became of the round.
const MID_ROUND: u32 = 10;

/// A kill for each so many instants that are worked off.
const EACH: u32 = 5;

/// So many instants of each name may be begun beyond those of the next kill.
const AHEAD: u32 = 3;

/// So many instants of each name are left for when the kills are done.
const AFTERWARDS: u32 = 3;

/// So many workers may die by themselves.
const DEATHS: u32 = 3;

/// So often the log is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The signals by which a worker ends that is killed, and one that dies by its own failing hook.
const SIGKILL: i32 = 9;
const SIGABRT: i32 = 6;

/// The workers, and what they have written so far. Those that live are killed when this is dropped.
pub(super) struct Running<C> {
    order: Order,
    command: C,
    pub(super) started: Instant,
    log: Log,
    tail: Tail,
    pub(super) entries: Vec<Entry>,
    alive: BTreeMap<u32, Child>,
    /// Kills are to come, so no worker may come to the end of the schedule.
    killing: bool,
}

impl<C: Fn() -> Command> Running<C> {
    pub(super) fn new(order: Order, command: C) -> Self {
        let log = Log::create(&order.log).expect("a file for the log can be made");
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
    pub(super) async fn kill_at_random(&mut self) {
        let mut random = Random(self.order.plan.seed);
        loop {
            let Account { kills, kills_mid_round, .. } = Account::of_the_log(&self.entries);
            let left = KILLS.saturating_sub(kills);
            let missing = MID_ROUND.saturating_sub(kills_mid_round);
            if left == 0 && missing == 0 {
                break;
            }
            let after = kills.min(KILLS - 1) * EACH + 1 + random.below(EACH);
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
        self.allow();
    }

    /// The workers come to the end of the schedule.
    pub(super) async fn end(&mut self) {
        self.until(|running| running.alive.is_empty()).await;
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

    /// Replaces workers that have died by themselves, and reads on in the log: what a worker that has ended wrote is then
    /// all read.
    fn look(&mut self) {
        let ended = |(worker, child): (&u32, &mut Child)| {
            let status = child.try_wait().expect("a worker can be asked whether it runs");
            status.map(|status| (*worker, status))
        };
        let ended: Vec<(u32, ExitStatus)> = self.alive.iter_mut().filter_map(ended).collect();
        self.entries.extend(self.tail.read().expect("the log can be read"));
        for (worker, status) in ended {
            self.alive.remove(&worker);
            if status.success() {
                assert!(
                    !self.killing,
                    "worker {worker} has come to the end before the kills were done; {}",
                    self.stands()
                );
            } else {
                self.died(worker, status);
            }
        }
    }

    fn kill(&mut self, worker: u32) {
        let Some(mut child) = self.alive.remove(&worker) else { return };
        child.kill().expect("a worker can be killed");
        let status = child.wait().expect("a worker that was killed ends");
        if signal(status) == Some(SIGKILL) {
            self.gone(worker, Event::Killed);
        } else {
            self.died(worker, status);
        }
    }

    /// By its failing hook, which is lawful when the machine stood still for longer than a lease lasts.
    fn died(&mut self, worker: u32, status: ExitStatus) {
        let aborted = signal(status) == Some(SIGABRT);
        assert!(aborted, "worker {worker} has failed, {status}; {}", self.stands());
        self.gone(worker, Event::Died);
        let Account { deaths, .. } = Account::of_the_log(&self.entries);
        assert!(deaths <= DEATHS, "{deaths} workers have died by themselves; {}", self.stands());
    }

    /// All that it has written is in the log before this line.
    fn gone(&mut self, worker: u32, event: Event) {
        self.log.append(&Entry { at: now(), worker, event });
        self.entries.extend(self.tail.read().expect("the log can be read"));
        self.start();
    }

    fn start(&mut self) {
        self.order.worker += 1;
        let mut command = (self.command)();
        command.env(Order::VARIABLE, self.order.to_string()).stdin(Stdio::piped()).stdout(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
        self.alive.insert(self.order.worker, child);
        self.allow();
    }

    /// Tells every worker how many instants of each name may be begun: enough for the next kill and some more.
    fn allow(&mut self) {
        let Plan { names, instants, .. } = self.order.plan;
        let Account { kills, .. } = Account::of_the_log(&self.entries);
        let ahead = ((kills + 1) * EACH).div_ceil(names) + AHEAD;
        let allowed = if self.killing { ahead.min(instants - AFTERWARDS) } else { instants };
        for child in self.alive.values_mut() {
            let mut told = child.stdin.as_ref().expect("the standard input is piped");
            // It may have ended, or be a worker that does not listen.
            drop(writeln!(told, "{allowed}"));
        }
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
    pub(super) fn stands(&self) -> String {
        let Account { kills, kills_mid_round, first_rounds, reruns, .. } = Account::of_the_log(&self.entries);
        let (worked_off, seconds) = (self.worked_off(), self.started.elapsed().as_secs());
        let Order { plan: Plan { seed, names, instants, .. }, log, .. } = &self.order;
        format!(
            "{worked_off} of {} instants worked off in {first_rounds} first rounds and {reruns} reruns, {kills} of \
             {KILLS} kills done, {kills_mid_round} in the middle of a round ({MID_ROUND} must be), after {seconds} s; \
             LEASE_ROUNDS_SEED={seed}, log {}",
            names * instants,
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

/// The signal that ended a process; where there are none, none.
fn signal(status: ExitStatus) -> Option<i32> {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    return status.code().and(None);
}
