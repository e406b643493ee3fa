//! A process of its own that runs one guarded transaction: these very tests, started once more.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use lease_core::{Claimed, GuardError, GuardedError, Leases, Timings};
use lease_postgres::{Guarded, PostgresStore};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio_postgres::{Client, NoTls};

use crate::support::{LONG, Scene};

/// What a process is to do, in its environment: the URLs of its store and of its transaction, the tables, the ttl.
const TASK: &str = "LEASE_TEST_GUARD_TASK";

/// Only meant to run in a process that another test starts: three inserts under a lease. Says how it ended.
#[test]
fn one_guarded_transaction() {
    let Ok(task) = env::var(TASK) else { return };
    let [url, through, table, rows, ttl] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let said = runtime.block_on(async {
        let store = PostgresStore::options().table(table).unwrap().open(url).unwrap();
        let timings = Timings::from_ttl(Duration::from_millis(ttl.parse().unwrap())).unwrap();
        let leases = Leases::builder(store.clone()).timings(timings).on_stuck(|_| {}).build().unwrap();
        let (client, connection) = tokio_postgres::connect(through, NoTls).await.unwrap();
        tokio::spawn(connection);
        let lease = match leases.claim("a").await {
            Ok(Claimed::Granted(lease)) => lease,
            other => return format!("no lease: {other:?}"),
        };
        let inserts = async |tx: &mut Guarded<Client>| {
            for n in 1..=3 {
                tx.batch_execute(&format!("INSERT INTO {rows} VALUES ({n})")).await?;
            }
            Ok::<(), tokio_postgres::Error>(())
        };
        match store.guard(&lease.tenure()).run(client, inserts).await {
            Ok(()) => "Committed".to_owned(),
            Err(GuardedError::Guard(GuardError::Lost(_))) => "Lost".to_owned(),
            Err(GuardedError::Guard(GuardError::Unknown(_))) => "Unknown".to_owned(),
            Err(GuardedError::Guard(GuardError::Failed(_))) => "Failed".to_owned(),
            Err(other) => format!("{other:?}"),
        }
    });
    println!("\n> {said}");
    std::process::exit(0);
}

/// A process that runs it, waited for and never left behind.
pub(crate) struct Process {
    child: Child,
    pub(crate) pid: Pid,
}

impl Process {
    /// Starts one that waits until it is told to go.
    pub(crate) fn start(scene: &Scene, through: &str, ttl: Duration) -> Self {
        let ttl = ttl.as_millis();
        let through = format!("{through}&application_name={}", scene.program);
        let task = format!("{} {through} {} {} {ttl}", scene.url, scene.table, scene.rows);
        // The shell is a process that waits, with the number that the program will have.
        let child = Command::new("sh")
            .args(["-c", r#"read go && exec "$0" --exact process::one_guarded_transaction --nocapture"#])
            .arg(env::current_exe().unwrap())
            .env(TASK, task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        Self { child, pid }
    }

    pub(crate) fn go(&mut self) {
        writeln!(self.child.stdin.take().unwrap(), "go").unwrap();
    }

    pub(crate) fn go_on(&self) {
        kill(self.pid, Signal::SIGCONT).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What it said in the end; nothing if it was killed.
    pub(crate) fn said(&mut self) -> Option<String> {
        let give_up = Instant::now() + LONG;
        while !self.has_ended() {
            assert!(Instant::now() < give_up, "the process never ends");
            thread::sleep(Duration::from_millis(5));
        }
        let lines = BufReader::new(self.child.stdout.take().unwrap()).lines().map_while(Result::ok);
        lines.filter_map(|line| line.strip_prefix("> ").map(str::to_owned)).last()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stops a process, and returns when each of its threads has stopped.
pub(crate) fn stop(pid: Pid) {
    kill(pid, Signal::SIGSTOP).unwrap();
    let give_up = Instant::now() + LONG;
    let is_stopped = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // Behind the name, which can hold anything.
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
    };
    let tasks = || fs::read_dir(format!("/proc/{pid}/task")).unwrap().map_while(Result::ok);
    while !tasks().all(is_stopped) {
        assert!(Instant::now() < give_up, "the process does not stop");
        thread::sleep(Duration::from_millis(1));
    }
}
