//! The trial itself, with workers that do not do what they should.

use std::env;
use std::fs;
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lease_testkit::MemoryStore;
use lease_testkit::rounds::{Order, Trial, work};

use crate::logs::plan;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_schedule_that_is_used_up_before_the_kills_are_done_fails_the_trial() {
    // It lists its tests and is content.
    let said = said(|| this("--list"), 60 * SECOND).await;
    assert!(said.contains("has come to the end before the kills were done"), "{said}");
    assert!(said.contains("0 of 200 instants worked off"), "{said}");
}

#[tokio::test]
async fn a_worker_that_fails_fails_the_trial() {
    let said = said(|| this("--no-such-option"), 60 * SECOND).await;
    assert!(said.contains("has failed, exit"), "{said}");
}

#[cfg(unix)]
#[tokio::test]
async fn workers_that_die_one_after_the_other_fail_the_trial_and_one_that_is_killed_by_another() {
    let dies = |how: &'static str| {
        let shell = move || {
            let mut command = Command::new("sh");
            command.args(["-c", how]);
            command
        };
        said(shell, 60 * SECOND)
    };
    let (aborts, killed) = tokio::join!(dies("kill -ABRT $$"), dies("kill -KILL $$"));
    assert!(aborts.contains("4 workers have died by themselves"), "{aborts}");
    assert!(killed.contains("has failed, signal: 9"), "{killed}");
}

#[tokio::test]
async fn a_trial_that_gets_nowhere_ends_with_its_time_and_says_where_it_stood() {
    let said = said(|| this("sleeper"), SECOND).await;
    assert!(said.contains("the time is up; 0 of 200 instants worked off"), "{said}");
    assert!(said.contains("0 of 30 kills done"), "{said}");
}

#[tokio::test]
async fn a_worker_ends_with_its_parent() {
    let log = env::temp_dir().join(format!("lease-rounds-orphan-{}", process::id()));
    fs::write(&log, "").unwrap();
    let order = Order { plan: plan(), worker: 1, within: 60 * SECOND, log: log.clone() };
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["parent::worker", "--exact", "--nocapture"]).env(Order::VARIABLE, order.to_string());
    let mut worker = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    while !fs::read_to_string(&log).unwrap().contains("started") {
        assert_eq!(worker.try_wait().unwrap(), None, "it is to be told how far it may go");
        thread::sleep(SECOND / 50);
    }
    drop(worker.stdin.take());
    assert_eq!(worker.wait().unwrap().code(), Some(1));
    fs::remove_file(log).unwrap();
}

/// What it does; elsewhere it does nothing.
#[tokio::test]
async fn worker() {
    if let Some(order) = Order::given() {
        work(order, Arc::new(MemoryStore::new())).await;
    }
}

/// What such a worker does; elsewhere it does nothing.
#[test]
fn sleeper() {
    if Order::given().is_some() {
        thread::sleep(60 * SECOND);
    }
}

/// This executable with an argument.
fn this(argument: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg(argument).stderr(Stdio::null());
    command
}

/// What the trial says of such workers.
async fn said(worker: impl Fn() -> Command + Send + 'static, within: Duration) -> String {
    let trial = Trial::new(SECOND).within(within);
    let running = tokio::spawn(async move { trial.run(Arc::new(MemoryStore::new()), worker).await });
    let panic = running.await.unwrap_err().into_panic();
    let said = *panic.downcast::<String>().expect("a message");
    let (_, log) = said.rsplit_once("log ").expect("the log's place");
    fs::remove_file(log).unwrap();
    said
}
