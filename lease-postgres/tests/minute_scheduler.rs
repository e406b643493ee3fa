//! The example, run to its end.

use std::env;
use std::error::Error;
use std::process::Command;

use crate::database::Database;

#[path = "common/mod.rs"]
#[expect(dead_code, reason = "other tests need more")]
mod common;
#[path = "common/database.rs"]
mod database;
#[path = "../examples/minute_scheduler.rs"]
mod minute_scheduler;

/// Tells a process that it is the example.
const EXAMPLE: &str = "LEASE_TEST_EXAMPLE";

/// Only meant to run in processes that the other test starts, and that those start.
#[test]
fn the_example() -> Result<(), Box<dyn Error>> {
    if env::var_os(EXAMPLE).is_some() { minute_scheduler::main() } else { Ok(()) }
}

#[tokio::test]
async fn a_round_that_a_kill_cuts_short_is_run_again() {
    let database = Database::new().await;
    let example = Command::new(env::current_exe().unwrap())
        // Two threads, so that the harness does not begin the first line.
        .args(["the_example", "--exact", "--nocapture", "--test-threads=2"])
        .env(EXAMPLE, "")
        .env("LEASE_DATABASE_URL", &database.url)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&example.stdout);
    println!("{said}{}", String::from_utf8_lossy(&example.stderr));
    assert!(
        example.status.success() && said.contains("killed") && said.contains("again"),
        "{}",
        example.status
    );
    database.end().await;
}
