//! The story: a worker is stopped, a successor takes over, and the worker goes on.

use std::env;
use std::io::{BufRead, BufReader, Lines, Write};
use std::pin::pin;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use lease_core::{Claimed, Lease, Leases, Timings};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::time::timeout;

use crate::bank::{AMOUNT, Bank, Ending, Outcome, Tables, open};
use crate::worker::{NAME, PATIENCE, Way};

/// Tells it, in the database that is named or in a file that is gone afterwards.
pub(crate) async fn tell(database: Option<&str>) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bank.db").display().to_string();
    let (database, tables) = (database.unwrap_or(&file), Tables::new()?);
    let bank = open(database, &tables).await?;
    bank.store().migrate().await?;
    bank.store().check().await?;
    let story = Story { database, tables: &tables, bank: bank.as_ref() };
    let told = async {
        story.act(Way::Plain).await?;
        story.act(Way::Guarded).await
    };
    let told = told.await;
    bank.close().await?;
    told
}

struct Story<'a> {
    database: &'a str,
    tables: &'a Tables,
    bank: &'a dyn Bank,
}

impl Story<'_> {
    async fn act(&self, way: Way) -> Outcome<()> {
        self.bank.open_accounts().await?;
        println!(
            "In a {} transaction, with a ttl of {:?}: {}",
            way.name(),
            self.bank.ttl(),
            self.accounts().await?
        );
        // The successor has time; that of the worker is short, so that the story is.
        let timings = Timings::from_ttl(PATIENCE)?;
        let leases = Leases::builder_shared(self.bank.store()).timings(timings).own_thread().build()?;
        let mut worker = Worker::start(way, self.database, self.tables)?;

        let term = worker.comes_to_its_pause()?;
        worker.stop()?;
        let stopped = Instant::now();
        println!(
            "  worker     holds {NAME:?} under term {term}, has made sure of it, and is stopped before it writes"
        );
        let mut succeeding = pin!(self.succeed(way, &leases, stopped));
        let mut successor = None;
        if way == Way::Guarded && self.bank.is_locked_by_the_stopped() {
            // Twice the time after which the name would be free.
            match timeout(self.bank.ttl() * 2, &mut succeeding).await {
                Ok(succeeded) => successor = Some(succeeded?),
                Err(_) => println!("  successor  is kept out, still {}", after(stopped)),
            }
        } else {
            successor = Some(succeeding.as_mut().await?);
        }
        worker.go_on()?;
        println!("  worker     goes on under term {term}: {}", worker.says()?);
        if successor.is_none() {
            successor = Some(succeeding.await?);
        }
        println!("  in the end {}\n", self.accounts().await?);
        drop(successor);
        leases.close().await;
        Ok(())
    }

    /// Takes over, and moves the amount as the worker was about to.
    async fn succeed(&self, way: Way, leases: &Leases, stopped: Instant) -> Outcome<Lease> {
        let lease = match leases.acquire(NAME, PATIENCE).await? {
            Claimed::Granted(lease) => lease,
            Claimed::Held(refusal) => return Err(refusal.holder().await?.to_string().into()),
        };
        println!("  successor  takes over under term {}, {}", lease.term(), after(stopped));
        match way {
            Way::Plain => self.bank.transfer().await?,
            Way::Guarded => match self.bank.guarded_transfer(&lease.tenure(), Box::new(|| ())).await? {
                Ending::Moved => {}
                Ending::Refused(why) => return Err(why.into()),
            },
        }
        println!("  successor  moves {AMOUNT}: {}", self.accounts().await?);
        Ok(lease)
    }

    async fn accounts(&self) -> Outcome<String> {
        let [ann, bob] = self.bank.balances().await?;
        Ok(format!("Ann has {ann}, Bob has {bob}"))
    }
}

fn after(stopped: Instant) -> String {
    format!("{:.1} s after that", stopped.elapsed().as_secs_f64())
}

/// The process that is stopped. It is ended with the story.
struct Worker {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(way: Way, database: &str, tables: &Tables) -> Outcome<Self> {
        let mut process = Command::new(env::current_exe()?)
            .args(["worker", way.name(), database, &tables.story])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = process.stdout.take().ok_or("it has one")?;
        Ok(Self { process, said: BufReader::new(said).lines() })
    }

    fn says(&mut self) -> Outcome<String> {
        Ok(self.said.next().ok_or("the worker ended early")??)
    }

    /// The term under which it holds the lease then.
    fn comes_to_its_pause(&mut self) -> Outcome<String> {
        let said = self.says()?;
        Ok(said.strip_prefix("paused ").ok_or_else(|| format!("the worker said {said:?}"))?.to_owned())
    }

    /// Returns when it stands still.
    fn stop(&self) -> Outcome<()> {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::STOP)?;
        match waitpid(Some(pid), WaitOptions::UNTRACED)? {
            Some((_, status)) if status.stopped() => Ok(()),
            _ => Err("the worker ended early".into()),
        }
    }

    fn go_on(&mut self) -> Outcome<()> {
        kill_process(Pid::from_child(&self.process), Signal::CONT)?;
        Ok(writeln!(self.process.stdin.as_ref().ok_or("it has one")?, "go on")?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It has ended, or the story has gone wrong.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
