//! A small scheduler with three replicas: each minute is run once, and once more if it was cut short.
//!
//! `cargo run -p lease-sqlite --example minute_scheduler -- leases.db`, or with the file in `LEASE_DATABASE_URL`; else it is a
//! temporary one. For the show a minute has two seconds. The program starts itself three times, kills the
//! replica that runs the second round, and ends when another has run that round again.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, io, thread};

use lease_core::{LeaseStore, Leases, RoundEnd, SlotClaimed, SlotLease, Timings};
use lease_sqlite::SqliteStore;

const JOB: &str = "minute_scheduler";
const MINUTE: Duration = Duration::from_secs(2);
/// After this time the name of a replica that was killed is free. 15 s unless said.
const TTL: Duration = Duration::from_secs(5);

/// Runs the job in every minute, beside other replicas.
async fn schedule(leases: &Leases, me: &str) -> Infallible {
    let mut due = latest_minute();
    loop {
        if let Err(error) = minute(leases, due, me).await {
            println!("{me}: {error}");
        }
        due = latest_minute() + MINUTE;
        tokio::time::sleep(due.duration_since(SystemTime::now()).unwrap_or_default()).await;
    }
}

async fn minute(leases: &Leases, due: SystemTime, me: &str) -> Result<(), lease_core::Error> {
    // First what a replica did not bring to its end: the claim of a later minute would give it up.
    for cut_short in leases.unfinished_slots([JOB]).await? {
        if let Some(round) = leases.claim_rerun(&cut_short).await? {
            run(round, me).await;
        }
    }
    // The database's clock decides whether the minute has come. Ours may be a little ahead.
    match leases.claim_slot(JOB, due, Duration::from_secs(1)).await? {
        SlotClaimed::Granted(round) => run(round, me).await,
        SlotClaimed::Held(_) => println!("{me}: an earlier round is not over"),
        SlotClaimed::NotYet(early) => println!("{me}: our clock is {early:?} ahead"),
        // Another replica was faster.
        SlotClaimed::Passed => {}
    }
    Ok(())
}

async fn run(round: SlotLease, me: &str) {
    let (slot, is_rerun) = (round.slot(), round.is_rerun());
    let again = if is_rerun { " again" } else { "" };
    if let Some(given_up) = round.superseded() {
        println!("{me}: {} was never finished, and is not run any more", given_up.slot);
    }
    println!("{me}: {slot} begins{again}");
    // Minutes that come while the work runs are skipped, by all replicas; those after a rerun are still to be claimed.
    let passed = move || (!is_rerun).then(latest_minute);
    let round = round.run(passed, |_tenure| async {
        tokio::time::sleep(MINUTE / 2).await; // the work
        Ok::<_, Infallible>(())
    });
    match round.await.end {
        RoundEnd::Finished(_) => println!("{me}: {slot} ends{again}"),
        RoundEnd::CutShort => println!("{me}: {slot} was cut short"),
        RoundEnd::Unrecorded(error) => println!("{me}: {slot} ended, and nobody knows: {error}"),
    }
}

/// The last instant of the schedule that has come.
fn latest_minute() -> SystemTime {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since_1970| since_1970.as_secs());
    UNIX_EPOCH + Duration::from_secs(seconds / MINUTE.as_secs() * MINUTE.as_secs())
}

#[tokio::main(flavor = "current_thread")]
async fn replica(path: &Path, me: &str) -> Result<(), Box<dyn Error>> {
    let leases = Leases::builder(SqliteStore::open(path).await?).timings(Timings::from_ttl(TTL)?).build()?;
    // The input ends with the program that started us.
    let told_to_stop = tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new()));
    tokio::select! {
        _ = schedule(&leases, me) => {}
        _ = told_to_stop => {}
    }
    // A round under way is cut short, for another replica to run again.
    leases.close().await;
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = env::var_os("LEASE_DATABASE_URL").or_else(|| env::args_os().nth(1)).map(PathBuf::from);
    let path = path.unwrap_or_else(|| folder.path().join("leases.db"));
    match env::var("REPLICA") {
        Ok(me) => replica(&path, &me),
        Err(_) => show(&path),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn make_table(path: &Path) -> Result<(), Box<dyn Error>> {
    let store = SqliteStore::open(path).await?;
    store.migrate().await?;
    Ok(store.check().await?)
}

/// Kills who runs a round until another has run it again. The first round is left alone.
fn show(path: &Path) -> Result<(), Box<dyn Error>> {
    make_table(path)?;
    let (say, said) = channel();
    let mut replicas = HashMap::new();
    for name in ["a", "b", "c"] {
        replicas.insert(name.to_owned(), Replica::start(path, name, &say)?);
    }
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
                replicas.insert(who.to_owned(), Replica::start(path, who, &say)?);
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

/// A process of this very program. Dropping it kills it.
struct Replica(Child);

impl Replica {
    fn start(path: &Path, name: &str, say: &Sender<String>) -> io::Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args(env::args_os().skip(1))
            .env("LEASE_DATABASE_URL", path)
            .env("REPLICA", name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(output) = child.stdout.take() {
            let (lines, say) = (BufReader::new(output).lines(), say.clone());
            thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| say.send(line)));
        }
        Ok(Self(child))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}
