//! What the tests of rounds share: instants, and what is to be so of them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use serde_json::Value;

use crate::bench::{Bench, Running};

/// Instants long past, in their order.
pub(crate) const SLOT: &str = "2020-01-01T00:00:00Z";
pub(crate) const NEXT: &str = "2020-01-01T00:01:00Z";
pub(crate) const LAST: &str = "2020-01-01T00:02:00Z";

/// A command that says that it has begun, and goes on until the file `end` is there.
pub(crate) const UNTIL_END: &str = "echo x >>begun; while ! [ -e end ]; do sleep 0.05; done";

pub(crate) fn sql(bench: &Bench, statement: &str) {
    Connection::open(bench.database()).unwrap().execute_batch(statement).unwrap();
}

pub(crate) fn start(bench: &Bench, slot: &str, script: &str) -> Running {
    bench.start(&["run", "x", "--slot", slot, "--ttl", "1h", "--", "sh", "-c", script])
}

/// What `lease slots` says of the name `x`.
pub(crate) fn slots(bench: &Bench) -> Value {
    slots_of(bench, "x")
}

pub(crate) fn slots_of(bench: &Bench, name: &str) -> Value {
    let answer: Value = serde_json::from_str(&bench.run(&["slots", name, "--json"]).expect(0).out).unwrap();
    answer["slots"][0].clone()
}

#[track_caller]
pub(crate) fn expect_state(bench: &Bench, state: &str) {
    let slots = slots(bench);
    assert_eq!(slots["slot_state"], state, "{slots}");
}

/// Asserts that nothing is run, and that a line says why.
#[track_caller]
pub(crate) fn expect_nothing(bench: &Bench, arguments: &[&str]) -> String {
    let run = |more: &[&str]| bench.run(&[arguments, more, &["--", "touch", "ran"]].concat());
    let line = run(&[]).expect_line(0);
    assert_eq!(run(&["--quiet"]).expect(0).err, "");
    assert!(!bench.path("ran").exists());
    line
}

/// Asserts that the round that was cut short is run once more, for this slot, and then never again.
#[track_caller]
pub(crate) fn expect_one_rerun(bench: &Bench, slot: &str) {
    expect_state(bench, "cut_short");
    let script = r#"echo "$LEASE_SLOT $LEASE_RERUN""#;
    let rerun = bench.run(&["run", "--rerun", "x", "--", "sh", "-c", script]).expect(0);
    assert_eq!((rerun.out, rerun.err.as_str()), (format!("{slot} 1\n"), ""));
    expect_no_rerun(bench);
    expect_state(bench, "finished");
}

#[track_caller]
pub(crate) fn expect_no_rerun(bench: &Bench) {
    let line = expect_nothing(bench, &["run", "--rerun", "x"]);
    assert!(line.contains("\"x\" is not rerun"), "{line}");
}

/// The database's clock is this machine's here.
pub(crate) fn from_now(time: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + time;
    format!("@{}.{:03}", now.as_secs(), now.subsec_millis())
}
