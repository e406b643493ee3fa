//! Each statement that writes, its process killed before and after each system call by which it touches the files.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

#[path = "sweep/calls.rs"]
mod calls;
#[path = "faults/support.rs"]
#[expect(dead_code, reason = "the tests of faults need more")]
mod support;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, stream};
use lease_core::LeaseStore;
use lease_sqlite::SqliteStore;
use lease_testkit::sweep::{self, Extent, Operation, Outcome, Trial};

use crate::calls::{At, trace};
use crate::support::{JOURNALS, Journal, Sandbox, all_closed};

/// Where a process of the sweep's finds the file.
const PATH: &str = "LEASE_SWEEP_STORE";

/// So many files at once, on which one process after the other is killed.
const AT_ONCE: usize = 6;

/// About so many points are in a part of the sweep.
const PART: usize = 300;

/// An operation on a file.
#[derive(Debug, Clone, Copy)]
struct Line {
    operation: Operation,
    journal: Journal,
    /// Nobody else has the file open: who comes next recovers it.
    is_alone: bool,
}

/// Only meant to run in a process that the sweep starts.
#[tokio::test]
async fn one_operation() {
    if sweep::is_a_program() {
        let store = SqliteStore::open(std::env::var_os(PATH).unwrap()).await.unwrap();
        sweep::ask_as_told(Arc::new(store)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_killed_at_any_system_call_took_place_whole_or_not_at_all_and_is_in_nobodys_way() {
    let (extent, since) = (Extent::told(), Instant::now());
    println!("{extent:?}");
    let lines = JOURNALS.into_iter().flat_map(|journal| {
        [false, true].into_iter().flat_map(move |is_alone| {
            Operation::ALL.map(move |operation| Line { operation, journal, is_alone })
        })
    });
    let counted: Vec<_> = stream::iter(lines).map(Line::counted).buffer_unordered(AT_ONCE).collect().await;
    let all: usize = counted.iter().map(|(_, calls)| 2 * calls).sum();
    let one_in = all.div_ceil(PART);
    let mut place = 0;
    let swept = counted.into_iter().map(|(line, calls)| {
        let points = (1..=calls).flat_map(|n| [false, true].map(|is_after| At { n, is_after }));
        // The first and the last are where it matters.
        let points: Vec<At> = points
            .filter(|at| {
                place += 1;
                let is_end = *at == At { n: 1, is_after: false } || *at == At { n: calls, is_after: true };
                (is_end && line.is_alone) || extent.has(place, one_in)
            })
            .collect();
        line.sweep(points)
    });
    let swept: Vec<_> = stream::iter(swept).buffer_unordered(AT_ONCE).collect().await;
    let mut untold: BTreeMap<Operation, [usize; 2]> = BTreeMap::new();
    for (line, outcomes) in &swept {
        for outcome in outcomes.iter().filter(|outcome| !outcome.is_told) {
            untold.entry(line.operation).or_default()[usize::from(outcome.took_place)] += 1;
        }
    }
    let points: usize = swept.iter().map(|(_, outcomes)| outcomes.len()).sum();
    println!(
        "{points} points of {all} in {:?}; untold, without effect and with it: {untold:?}",
        since.elapsed()
    );
    assert!(all >= 800 && points >= 100, "too few system calls for what SQLite does");
    for operation in Operation::ALL {
        let untold = untold.get(&operation).copied().unwrap_or_default();
        assert!(
            untold[0] > 0 && untold[1] > 0,
            "{operation:?}: the kills were not where it matters: {untold:?}"
        );
    }
}

impl Line {
    /// How many calls it takes when nothing happens to it.
    async fn counted(self) -> (Self, usize) {
        let sandbox = Sandbox::new(self.journal).await;
        let (calls, outcome) = self.run(&sandbox, None).await;
        assert_eq!(outcome, Outcome { is_told: true, took_place: true }, "{self:?}");
        (self, calls)
    }

    async fn sweep(self, points: Vec<At>) -> (Self, Vec<Outcome>) {
        let sandbox = Sandbox::new(self.journal).await;
        let mut outcomes = Vec::new();
        for at in points {
            outcomes.push(self.run(&sandbox, Some(at)).await.1);
        }
        (self, outcomes)
    }

    async fn run(self, sandbox: &Sandbox, at: Option<At>) -> (usize, Outcome) {
        let point = format!("{self:?}, {at:?}");
        let mut beside: Option<Arc<dyn LeaseStore>> = Some(Arc::new(sandbox.store().await));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "one_operation", "--nocapture", "--test-threads=1"]);
        command.env(PATH, sandbox.path()).process_group(0);
        let mut trial = Trial::start(beside.as_ref().unwrap(), command, self.operation).await;
        if self.is_alone {
            beside = None;
            all_closed(sandbox).await;
        }
        let folder = sandbox.folder().to_owned();
        let traced = tokio::task::spawn_blocking(move || {
            let traced = trace(trial.id(), &folder, at, || trial.go());
            trial.has_ended();
            (trial, traced)
        });
        let (trial, (calls, is_killed)) = traced.await.unwrap();
        assert_eq!(is_killed, at.is_some(), "{point}: {calls} calls");
        let beside = match beside {
            Some(beside) => beside,
            None => Arc::new(sandbox.store().await),
        };
        let outcome = trial.judge(&beside, &point).await;
        let check: String =
            sandbox.other().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok", "{point}");
        (calls, outcome)
    }
}
