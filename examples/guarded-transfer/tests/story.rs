//! The story on each database, as people run it.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use test_servers::Product;

/// Longer than it takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// What the program tells: the lines of the act with a plain transaction, and of that with a guarded one.
fn story(database: Option<&str>) -> [Vec<String>; 2] {
    let mut program = Command::new(env!("CARGO_BIN_EXE_guarded-transfer"))
        .args(database)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let give_up = Instant::now() + PATIENCE;
    while program.try_wait().unwrap().is_none() {
        if Instant::now() > give_up {
            program.kill().unwrap();
            panic!("the story has no end");
        }
        thread::sleep(Duration::from_millis(20));
    }
    let output = program.wait_with_output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    let lines = |act: &str| act.lines().map(str::to_owned).collect();
    let (plain, guarded) = told.trim_end().split_once("\n\n").expect("two acts");
    [lines(plain), lines(guarded)]
}

/// The term that the line with these words tells.
#[track_caller]
fn term(act: &[String], words: &str) -> u64 {
    let line = act.iter().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {act:#?}"));
    let (_, behind) = line.split_once("under term ").expect("a term");
    behind.split([',', ':']).next().unwrap().parse().unwrap()
}

/// The money is moved twice under a dead lease in the plain transaction, and once with the guard.
#[track_caller]
fn is_told(acts: &[Vec<String>; 2]) {
    for (act, goes_on, in_the_end) in [
        (&acts[0], "moved", "in the end Ann has 40, Bob has 160"),
        (
            &acts[1],
            "refused: the transaction was not committed: its lease was lost",
            "in the end Ann has 70, Bob has 130",
        ),
    ] {
        let stopped = term(act, "and is stopped");
        assert!(term(act, "takes over") > stopped, "{act:#?}");
        assert_eq!(term(act, &format!("goes on under term {stopped}: {goes_on}")), stopped, "{act:#?}");
        assert_eq!(act.last().unwrap().trim(), in_the_end, "{act:#?}");
    }
}

/// Which of the two comes first.
#[track_caller]
fn takes_over_while_the_worker_is_stopped(act: &[String]) -> bool {
    let at = |words| act.iter().position(|line| line.contains(words)).unwrap();
    at("takes over") < at("goes on")
}

#[test]
fn on_sqlite_the_guard_refuses_and_the_stopped_worker_keeps_the_successor_out() {
    let acts = story(None);
    assert!(takes_over_while_the_worker_is_stopped(&acts[0]), "{acts:#?}");
    assert!(!takes_over_while_the_worker_is_stopped(&acts[1]), "{acts:#?}");
    is_told(&acts);
}

fn on_a_server(product: Product) {
    let acts = story(Some(&test_servers::shared(product)));
    for act in &acts {
        assert!(takes_over_while_the_worker_is_stopped(act), "{acts:#?}");
    }
    is_told(&acts);
}

#[test]
fn on_postgresql_the_guard_refuses_and_the_successor_gets_in() {
    on_a_server(Product::Postgres);
}

#[test]
fn on_mysql_the_guard_refuses_and_the_successor_gets_in() {
    on_a_server(Product::MySql);
}

#[test]
fn on_mariadb_the_guard_refuses_and_the_successor_gets_in() {
    on_a_server(Product::MariaDb);
}
