//! A small scheduler with three replicas: each minute is run once, and once more if it was cut short.
//!
//! `cargo run -p lease-core --example minute_scheduler`. For the show a minute has two seconds, and the replicas are three runtimes
//! on one store in memory; `lease-postgres`, `lease-mysql` and `lease-sqlite` have the same with three processes. It ends the runtime of
//! the replica that runs the second round, and ends itself when another has run that round again.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lease_core::{Leases, RoundEnd, SlotClaimed, SlotLease, Timings};
use lease_testkit::MemoryStore;
use tokio::runtime::{Builder, Runtime};

const JOB: &str = "minute_scheduler";
const MINUTE: Duration = Duration::from_secs(2);
/// After this time the name of a replica that was killed is free. 15 s unless said.
const TTL: Duration = Duration::from_secs(5);

/// Runs the job in every minute, beside other replicas.
async fn schedule(leases: &Leases, me: &Me) -> Infallible {
    let mut due = latest_minute();
    loop {
        if let Err(error) = minute(leases, due, me).await {
            me.says(&format!("{error}"));
        }
        due = latest_minute() + MINUTE;
        tokio::time::sleep(due.duration_since(SystemTime::now()).unwrap_or_default()).await;
    }
}

async fn minute(leases: &Leases, due: SystemTime, me: &Me) -> Result<(), lease_core::Error> {
    // First what a replica did not bring to its end: the claim of a later minute would give it up.
    for cut_short in leases.unfinished_slots([JOB]).await? {
        if let Some(round) = leases.claim_rerun(&cut_short).await? {
            run(round, me).await;
        }
    }
    // The database's clock decides whether the minute has come. Ours may be a little ahead.
    match leases.claim_slot(JOB, due, Duration::from_secs(1)).await? {
        SlotClaimed::Granted(round) => run(round, me).await,
        SlotClaimed::Held(_) => me.says("an earlier round is not over"),
        SlotClaimed::NotYet(early) => me.says(&format!("our clock is {early:?} ahead")),
        // Another replica was faster.
        SlotClaimed::Passed => {}
    }
    Ok(())
}

async fn run(round: SlotLease, me: &Me) {
    let (slot, is_rerun) = (round.slot(), round.is_rerun());
    let again = if is_rerun { " again" } else { "" };
    if let Some(given_up) = round.superseded() {
        me.says(&format!("{} was never finished, and is not run any more", given_up.slot));
    }
    me.says(&format!("{slot} begins{again}"));
    // Minutes that come while the work runs are skipped, by all replicas; those after a rerun are still to be claimed.
    let passed = move || (!is_rerun).then(latest_minute);
    let round = round.run(passed, |_tenure| async {
        tokio::time::sleep(MINUTE / 2).await; // the work
        Ok::<_, Infallible>(())
    });
    match round.await.end {
        RoundEnd::Finished(_) => me.says(&format!("{slot} ends{again}")),
        RoundEnd::CutShort => me.says(&format!("{slot} was cut short")),
        RoundEnd::Unrecorded(error) => me.says(&format!("{slot} ended, and nobody knows: {error}")),
    }
}

/// The last instant of the schedule that has come.
fn latest_minute() -> SystemTime {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since_1970| since_1970.as_secs());
    UNIX_EPOCH + Duration::from_secs(seconds / MINUTE.as_secs() * MINUTE.as_secs())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryStore::new();
    let (say, said) = channel();
    let mut replicas = HashMap::new();
    for name in ["a", "b", "c"] {
        replicas.insert(name.to_owned(), Replica::start(&store, name, &say)?);
    }
    // Kills who runs a round until another has run it again. The first round is left alone.
    let give_up = Instant::now() + Duration::from_secs(180);
    let (mut ended, mut cut_short) = (0, String::new());
    while let Ok(line) = said.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
        println!("{line}");
        match line.split([':', ' ']).filter(|word| !word.is_empty()).collect::<Vec<_>>()[..] {
            [_, _, "ends"] => ended += 1,
            [who, slot, "begins"] if ended > 0 => {
                // Dropping it kills it. It is started again, as any service is.
                drop(replicas.remove(who));
                println!("-- {who} killed in the middle of {slot}");
                replicas.insert(who.to_owned(), Replica::start(&store, who, &say)?);
                slot.clone_into(&mut cut_short);
            }
            [who, slot, "ends", "again"] if slot == cut_short => {
                println!("-- {who} has run {slot} again");
                return Ok(());
            }
            _ => {}
        }
    }
    Err("no rerun was seen in three minutes".into())
}

/// Who says it, and to whom.
struct Me {
    name: String,
    say: Sender<String>,
}

impl Me {
    fn says(&self, what: &str) {
        // Nobody listens any more at the end.
        let _ = self.say.send(format!("{}: {what}", self.name));
    }
}

/// What a process would be. Dropping it ends it in the middle of whatever it does: nothing is given back.
struct Replica(Option<Runtime>);

impl Replica {
    fn start(store: &MemoryStore, name: &str, say: &Sender<String>) -> Result<Self, Box<dyn Error>> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let me = Me { name: name.to_owned(), say: say.clone() };
        let leases = {
            let _inside = runtime.enter();
            Leases::builder(store.clone()).timings(Timings::from_ttl(TTL)?).build()?
        };
        runtime.spawn(async move { schedule(&leases, &me).await });
        Ok(Self(Some(runtime)))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
