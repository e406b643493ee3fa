//! Processes killed in the middle.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lease_core::LeaseStore;
use lease_core::store::ClaimAnswer;
use lease_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::support::{JOURNALS, Journal, LONG, Sandbox, granted, name, new_claim, row_term};

const CHILD: &str = "LEASE_SQLITE_TEST_CHILD";

/// Starts this very test once more, in a process of its own that finds the path in its environment.
pub(crate) fn start_child(test: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

pub(crate) fn child_path() -> Option<std::path::PathBuf> {
    std::env::var_os(CHILD).map(Into::into)
}

/// Kills the child as soon as it has said so many lines, and returns them.
pub(crate) fn kill_after(mut child: Child, lines: usize) -> Vec<String> {
    let said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let ours = said.filter_map(|line| line.strip_prefix("> ").map(str::to_owned));
    let heard: Vec<String> = ours.take(lines).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(heard.len(), lines, "the child ended early");
    heard
}

pub(crate) fn wait_to_be_killed() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

#[tokio::test]
async fn a_process_killed_inside_a_transaction_leaves_the_state_before_it() {
    if let Some(path) = child_path() {
        let connection = Connection::open(path).unwrap();
        // So small a cache is written to the file, and the journal with it, before the commit.
        let change = "PRAGMA cache_size = 1; BEGIN IMMEDIATE; UPDATE leases SET term = term + 100;
                      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
                      INSERT INTO other SELECT zeroblob(1000) FROM n";
        connection.execute_batch(change).unwrap();
        println!("\n> in the middle");
        wait_to_be_killed();
    }
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let store = sandbox.store().await;
        for _ in 0..3 {
            let claim = new_claim("a");
            granted(store.claim(&claim, LONG).await);
            store.release(&claim.name, &claim.holder, LONG).await.unwrap();
        }
        let test = "crashes::a_process_killed_inside_a_transaction_leaves_the_state_before_it";
        kill_after(start_child(test, &sandbox.path()), 1);
        if journal == Journal::Delete {
            assert!(sandbox.folder().join("leases.db-journal").exists(), "no hot journal to recover from");
        }
        // The store that was open, and one that opens now.
        assert_eq!(granted(store.claim(&new_claim("a"), LONG).await).get(), 4, "{journal:?}");
        sandbox.expire(&name("a"));
        assert_eq!(granted(sandbox.store().await.claim(&new_claim("a"), LONG).await).get(), 5, "{journal:?}");
    }
}

#[tokio::test]
async fn no_term_that_a_killed_process_was_told_comes_again() {
    if let Some(path) = child_path() {
        let store = SqliteStore::open(path).await.unwrap();
        loop {
            let claim = new_claim("a");
            if let ClaimAnswer::Granted(term) = store.claim(&claim, LONG).await.unwrap() {
                println!("\n> {term}");
                store.release(&claim.name, &claim.holder, LONG).await.unwrap();
            }
        }
    }
    let test = "crashes::no_term_that_a_killed_process_was_told_comes_again";
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let mut last = 0;
        for round in 0..3 {
            let told = kill_after(start_child(test, &sandbox.path()), 5 + round);
            let told: Vec<i64> = told.iter().map(|term| term.parse().unwrap()).collect();
            assert!(told.windows(2).all(|pair| pair[0] < pair[1]) && told[0] > last, "{told:?} after {last}");
            last = *told.last().unwrap();
            let store = sandbox.store().await;
            // It may have died holding the name.
            assert!(row_term(&store, "a").await.unwrap() >= last);
            sandbox.expire(&name("a"));
        }
    }
}
