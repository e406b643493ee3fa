//! Processes that are stopped or killed at every step of a transaction, while a successor claims.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lease_core::clock::{Alarm, Ring};
use lease_core::store::ClaimAnswer;
use lease_core::{
    Clock, ErrorKind, GuardError, LeaseStore, Leases, ManualClaimed, Moment, SystemClock, Timings,
};
use lease_sqlite::SqliteStore;
use rusqlite::Connection;
use rustix::process::{Pid, Signal, getpid, kill_process};

use crate::scene::{ENDLESS, INSERT, count};
use crate::support::{JOURNALS, Journal, LONG, SHORT, Sandbox, eventually, new_claim};

/// Where the child is when it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    BeforeBegin,
    AfterBegin,
    AfterInsert(usize),
    /// In the look at the lease with which `commit` begins, the time having been read.
    InTheFirstLook,
    /// In the look that SQLite asks for when all is ready to be committed, the time having been read.
    InTheLastLook,
    AfterCommit,
    InAStatement,
}

const STEPS: [Step; 9] = [
    Step::BeforeBegin,
    Step::AfterBegin,
    Step::AfterInsert(1),
    Step::AfterInsert(2),
    Step::AfterInsert(3),
    Step::InTheFirstLook,
    Step::InTheLastLook,
    Step::AfterCommit,
    Step::InAStatement,
];

impl Step {
    fn has_the_lock(self) -> bool {
        !matches!(self, Self::BeforeBegin | Self::AfterCommit)
    }
}

#[tokio::test]
async fn whatever_is_stopped_keeps_the_successor_out_or_commits_nothing() {
    if let Some(path) = path_of_the_child() {
        return be_the_child(&path);
    }
    let test = "processes::whatever_is_stopped_keeps_the_successor_out_or_commits_nothing";
    for journal in JOURNALS {
        join_all(STEPS.map(|step| stopped_at(journal, step, test))).await;
    }
}

async fn stopped_at(journal: Journal, step: Step, test: &str) {
    let what = format!("{journal:?}, {step:?}");
    let sandbox = Sandbox::new(journal).await;
    // One that is opened later may have to wait as well.
    let successor = sandbox.store().await;
    let child = Holder::start(test, &sandbox.path(), step, Signal::STOP);
    let (child, ttl) = tokio::task::spawn_blocking(|| child.at_its_step()).await.unwrap();
    eventually("it stands still", || child.is_stopped()).await;
    let stopped = Instant::now();
    let answer = loop {
        let answer = successor.claim(&new_claim("a"), SHORT).await;
        match &answer {
            Ok(ClaimAnswer::Granted(_)) => break answer,
            Ok(ClaimAnswer::Held) => {}
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Busy | ErrorKind::Timeout), "{what}: {error:?}");
            }
        }
        // Twice the time in which it would be free.
        if step.has_the_lock() && stopped.elapsed() > ttl * 2 {
            break answer;
        }
        assert!(stopped.elapsed() < LONG, "{what}: never granted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(answer.is_err(), step.has_the_lock(), "{what}: {answer:?}");
    let seen = if step.has_the_lock() { 0 } else { count(&sandbox.other()) };

    let outcome = tokio::task::spawn_blocking(move || child.answer()).await.unwrap();
    if answer.is_err() {
        let mut granted = false;
        while !granted {
            granted =
                matches!(successor.claim(&new_claim("a"), LONG).await.unwrap(), ClaimAnswer::Granted(_));
        }
    }
    let rows = count(&sandbox.other());
    match step {
        // All was ready, and the file locked: it came before the claim, unless the watchdog had seen the deadline pass by then.
        Step::InTheLastLook => {
            let told = (outcome.as_str(), rows);
            assert!([("committed", 3), ("lost", 0)].contains(&told), "{what}: {told:?}");
        }
        Step::AfterCommit => assert_eq!((outcome.as_str(), seen, rows), ("committed", 3, 3), "{what}"),
        _ => assert_eq!((outcome.as_str(), seen, rows), ("lost", 0, 0), "{what}"),
    }
}

#[tokio::test]
async fn whatever_is_killed_leaves_nothing_and_frees_the_file_and_the_name() {
    if let Some(path) = path_of_the_child() {
        return be_the_child(&path);
    }
    let test = "processes::whatever_is_killed_leaves_nothing_and_frees_the_file_and_the_name";
    for journal in JOURNALS {
        join_all(STEPS.map(|step| killed_at(journal, step, test))).await;
    }
}

async fn killed_at(journal: Journal, step: Step, test: &str) {
    let what = format!("{journal:?}, {step:?}");
    let sandbox = Sandbox::new(journal).await;
    let child = Holder::start(test, &sandbox.path(), step, Signal::KILL);
    let (mut child, ttl) = tokio::task::spawn_blocking(|| child.at_its_step()).await.unwrap();
    child.process.wait().unwrap();
    // No lock is left, and the name is free within the ttl.
    let other = sandbox.other();
    let left: i64 = other
        .query_row(
            "SELECT expires_at_ms - CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM leases",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!(u128::from(left.max(0).unsigned_abs()) <= ttl.as_millis(), "{what}: {left} ms are left");
    other.execute("CREATE TABLE free (x)", []).unwrap();
    let rows = if step == Step::AfterCommit { 3 } else { 0 };
    assert_eq!(count(&other), rows, "{what}");
    let successor = sandbox.store().await;
    let killed = Instant::now();
    while !matches!(successor.claim(&new_claim("a"), LONG).await.unwrap(), ClaimAnswer::Granted(_)) {
        assert!(killed.elapsed() < LONG, "{what}: never granted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(count(&other), rows, "{what}");
}

/// The process that holds the lease, which is killed when the test has failed.
struct Holder {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

const CHILD: &str = "LEASE_SQLITE_GUARDED";
const STEP: &str = "LEASE_SQLITE_GUARDED_STEP";
const SIGNAL: &str = "LEASE_SQLITE_GUARDED_SIGNAL";

impl Holder {
    /// Starts this very test once more, in a process of its own.
    fn start(test: &str, path: &Path, step: Step, signal: Signal) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(CHILD, path)
            .env(STEP, STEPS.iter().position(|known| *known == step).unwrap().to_string())
            .env(SIGNAL, if signal == Signal::KILL { "kill" } else { "stop" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, said }
    }

    fn says(&mut self) -> String {
        let ours = |line: Result<String, _>| line.unwrap().strip_prefix("> ").map(str::to_owned);
        self.said.by_ref().find_map(ours).expect("the child ended early")
    }

    /// Waits until it is where it is to be, and has a lease of such a ttl.
    fn at_its_step(mut self) -> (Self, Duration) {
        let ttl = Duration::from_millis(self.says().parse().unwrap());
        (self, ttl)
    }

    /// Lets it go on, and waits for what becomes of the transaction.
    fn answer(mut self) -> String {
        self.signal(Signal::CONT);
        // It need not wait for that.
        let _ = self.process.stdin.take().unwrap().write_all(b"\n");
        let answer = self.says();
        self.process.wait().unwrap();
        answer
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn path_of_the_child() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(Into::into)
}

thread_local! {
    /// After how many more looks of this thread at the clock it happens.
    static LOOKS: Cell<Option<u32>> = const { Cell::new(None) };
    static HAS_HAPPENED: Cell<bool> = const { Cell::new(false) };
    static TTL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The system's, read by a process to which something happens after the reading.
#[derive(Debug)]
struct Interrupted(Arc<dyn Clock>);

impl Clock for Interrupted {
    fn now(&self) -> Moment {
        let now = self.0.now();
        let left = LOOKS.get();
        LOOKS.set(left.and_then(|left| left.checked_sub(1)));
        if left == Some(0) {
            happen();
        }
        now
    }

    fn alarm(&self, at: Moment, ring: Ring) -> Alarm {
        self.0.alarm(at, ring)
    }
}

fn happen() {
    HAS_HAPPENED.set(true);
    println!("\n> {}", TTL.get().as_millis());
    let signal = if std::env::var(SIGNAL).unwrap() == "kill" { Signal::KILL } else { Signal::STOP };
    kill_process(getpid(), signal).unwrap();
    // A signal takes its time to reach all threads.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// On a slow machine the lease may be lost before the step: then the next one is longer.
fn be_the_child(path: &Path) {
    let step = STEPS[std::env::var(STEP).unwrap().parse::<usize>().unwrap()];
    let path = path.to_owned();
    // Not on the runtime of the test.
    thread::spawn(move || {
        let mut ttl = Duration::from_millis(500);
        loop {
            ttl *= 2;
            TTL.set(ttl);
            let answer = hold(&path, ttl, step == Step::InAStatement, |at| match at {
                _ if at != step => {}
                Step::InTheFirstLook => LOOKS.set(Some(0)),
                // The other is for the statement that asks whether a file was attached.
                Step::InTheLastLook => LOOKS.set(Some(2)),
                Step::InAStatement => LOOKS.set(Some(20)),
                _ => happen(),
            });
            LOOKS.set(None);
            match answer {
                _ if !HAS_HAPPENED.get() => {}
                Ok(()) => return println!("\n> committed"),
                Err(GuardError::Lost(_)) => return println!("\n> lost"),
                Err(error) => return println!("\n> {error}"),
            }
        }
    })
    .join()
    .unwrap();
}

fn hold(path: &Path, ttl: Duration, for_long: bool, at: impl Fn(Step)) -> Result<(), GuardError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let clock = Arc::new(Interrupted(SystemClock::shared().unwrap()));
    let (store, lease) = runtime.block_on(async {
        let store = SqliteStore::open(path).await.unwrap();
        let leases = Leases::builder(store.clone()).timings(Timings::from_ttl(ttl).unwrap());
        let leases = leases.clock(clock).on_stuck(|_| ()).own_thread().build().unwrap();
        loop {
            if let ManualClaimed::Granted(lease) = leases.claim_manual("a").await.unwrap() {
                break (store, lease);
            }
            thread::sleep(Duration::from_millis(5));
        }
    });
    let mut connection = Connection::open(path).unwrap();
    at(Step::BeforeBegin);
    let tx = store.guard(&lease.tenure()).begin(&mut connection)?;
    at(Step::AfterBegin);
    if for_long {
        let mut endless = tx.prepare(ENDLESS).unwrap();
        at(Step::InAStatement);
        endless.execute([]).unwrap_err();
    } else {
        for n in 1..=3 {
            // Refused after a loss.
            let _ = tx.execute(INSERT, []);
            at(Step::AfterInsert(n));
        }
    }
    at(Step::InTheFirstLook);
    at(Step::InTheLastLook);
    tx.commit()?;
    at(Step::AfterCommit);
    Ok(())
}
