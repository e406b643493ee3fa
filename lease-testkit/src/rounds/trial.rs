//! The trial itself: it starts the workers and kills them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::process::{self, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lease_core::store::SlotRow;
use lease_core::{LeaseName, LeaseStore};

use super::check::{Account, Checked, check};
use super::log::now;
use super::plan::{Order, Plan};
use super::running::Running;

const NAMES: u32 = 8;
const INSTANTS: u32 = 25;

/// So many instants must run to their end, once or more: less than half, for kills may take all the others.
const ENDED: u32 = 80;

/// From one instant of a name to the next.
const EVERY_MS: i64 = 300;

/// So long after the start the first instant comes, so that it is asked for before its time.
const AFTER_MS: i64 = 1_500;

/// So far the clocks of the workers and of the database may be apart.
const APART_MS: i64 = 500;

/// The seed of a replay: of what is random here, for what the machine makes of it is not the same again.
const SEED: &str = "LEASE_ROUNDS_SEED";

/// Trials of this process so far: none has the log of another.
static TRIALS: AtomicU32 = AtomicU32::new(0);

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
    /// When a rule is broken, with the lines of the log that show it; when too little came to pass to show anything; when a
    /// worker fails; when the time is up. The log is kept then.
    pub async fn run(&self, store: Arc<dyn LeaseStore>, worker: impl Fn() -> Command) {
        let seed = env::var(SEED).map_or_else(
            |_| RandomState::new().build_hasher().finish() >> 32,
            |seed| seed.parse().unwrap_or_else(|_| panic!("{SEED}: {seed:?} is no number")),
        );
        let trial = TRIALS.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("lease-rounds-{}-{trial}-{seed}.log", process::id()));
        println!("rounds: {SEED}={seed} for a replay; the log is {}", path.display());
        let plan = plan(seed, self.ttl, &*store).await;
        let order = Order { plan: plan.clone(), worker: 0, within: self.within, log: path.clone() };
        let mut running = Running::new(order, worker);
        running.kill_at_random().await;
        running.end().await;

        let Checked { violations, account } = check(&plan, &running.entries, &rows(&plan, &*store).await);
        println!("rounds: {account}; {:.1} s", running.started.elapsed().as_secs_f64());
        let broken: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "rules broken; {}\n{}", running.stands(), broken.join("\n"));
        let too_little = too_little(&account);
        assert!(too_little.is_empty(), "{}; {account}; {}", too_little.join(", "), running.stands());
        fs::remove_file(&path).expect("the log can be removed");
    }
}

/// What has not come to pass often enough to show anything.
fn too_little(account: &Account) -> Vec<&'static str> {
    let Account { ended, ended_by_rerun, skipped, renewed, .. } = account;
    let wanted = [
        (ended + ended_by_rerun >= ENDED, "too few instants ran to their end"),
        (*ended_by_rerun > 0, "nothing that was cut short ran to its end"),
        (*skipped > 0, "nothing was skipped"),
        (*renewed > 0, "no round lasted longer than its ttl"),
    ];
    wanted.into_iter().filter_map(|(is_so, otherwise)| (!is_so).then_some(otherwise)).collect()
}

/// A schedule that begins soon by the database's clock.
async fn plan(seed: u64, ttl: Duration, store: &dyn LeaseStore) -> Plan {
    let mut plan = Plan { seed, names: NAMES, instants: INSTANTS, first_ms: 0, every_ms: EVERY_MS, ttl };
    let before = now();
    let found = store.inspect(&plan.names()[0], PATIENCE).await.expect("the table can be read");
    let (database, here) = (found.now.as_millis(), before - APART_MS..=now() + APART_MS);
    assert_eq!(found.row, None, "the table is not empty");
    assert!(here.contains(&database), "the clocks of this machine and the database are too far apart");
    plan.first_ms = database + AFTER_MS;
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
