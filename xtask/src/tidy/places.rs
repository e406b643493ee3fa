//! What may stand where in `lease-core`: the pure machine, and the files that spawn, start and wait.

use super::rust::{Rust, Word, words};
use super::tree::{Finding, Tree};

const CORE: &str = "lease-core/src/";
const RENEWAL: &str = "lease-core/src/renewal";

/// Words that have no business in a machine without a clock and I/O, its tests included.
const IMPURE: &[&str] = &[
    "tokio",
    "async",
    "await",
    "io",
    "fs",
    "net",
    "thread",
    "Instant",
    "SystemTime",
    "Clock",
    "SystemClock",
];

/// `renewal*` is free of tokio, I/O and clock reads.
pub(crate) fn the_renewal_machine_is_pure(tree: &Tree) -> Vec<Finding> {
    let machine =
        |path: &str| path == "lease-core/src/renewal.rs" || path.starts_with("lease-core/src/renewal/");
    let mut findings = Vec::new();
    for file in tree.rust(RENEWAL).filter(|file| machine(&file.path)) {
        let code = Rust::read(&file.text).code;
        for word in words(&code) {
            let reads_a_clock = word.text == "now" && word.after.starts_with('(');
            if IMPURE.contains(&word.text) || reads_a_clock {
                let problem = format!(
                    "`{}` in the renewal machine, which has no clock, no I/O and no runtime; take what it \
                     needs as an argument, and leave the rest to driver.rs",
                    word.text
                );
                findings.push(Finding::new(&file.path, word.line, problem));
            }
        }
    }
    if tree.file("lease-core/src/renewal.rs").is_none() {
        findings.push(Finding::new(
            "lease-core/src/renewal.rs",
            1,
            "missing; if the renewal machine has moved, tell xtask/src/tidy/places.rs where",
        ));
    }
    findings
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Starts a task or a thread.
    Spawn,
    /// Sets out to wait for a time.
    Sleep,
}

/// Who may do what, and why. A new row is a decision about the design, not a formality.
const ALLOWED: &[(&str, Act, &str)] = &[
    ("driver.rs", Act::Spawn, "it runs the renewals and the claims in flight"),
    ("driver.rs", Act::Sleep, "it waits for what is due"),
    ("claim.rs", Act::Sleep, "a claim of unknown outcome is released again and again"),
    ("give_back.rs", Act::Sleep, "the end of a lease is told again and again"),
    ("elect.rs", Act::Sleep, "candidates wait between two looks at a held name"),
    ("watch.rs", Act::Sleep, "a watcher waits between two looks"),
    ("events.rs", Act::Spawn, "the thread of the hook that is told of events"),
    ("meter.rs", Act::Spawn, "the thread that records figures"),
    ("run.rs", Act::Spawn, "the user's work and its supervisor are tasks of their own"),
    ("watchdog.rs", Act::Spawn, "the one OS thread, and one for a failing hook"),
    ("clock.rs", Act::Sleep, "waiting is defined there, on the clock"),
    ("limit.rs", Act::Sleep, "a store waits between two tries within one call"),
    ("io_thread.rs", Act::Spawn, "the thread of a store's connections, and its statements"),
];

/// In `lease-core` tasks are spawned and time is waited for in few files.
pub(crate) fn tasks_and_waits_stay_in_their_files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust(CORE).filter(|file| !is_test(&file.path)) {
        let code = Rust::read(&file.text).production();
        for word in words(&code) {
            let Some(act) = act(&word) else { continue };
            if ALLOWED.iter().any(|(name, allowed, _)| file.path[CORE.len()..] == **name && *allowed == act) {
                continue;
            }
            let problem = format!(
                "`{}` here: tasks and waits of lease-core stand in {}; move it there, or add a row with \
                 its reason in xtask/src/tidy/places.rs",
                word.text,
                allowed_files(act)
            );
            findings.push(Finding::new(&file.path, word.line, problem));
        }
    }
    findings
}

fn act(word: &Word<'_>) -> Option<Act> {
    if !word.after.starts_with(['(', ':']) {
        return None;
    }
    match word.text {
        "spawn" | "spawn_blocking" | "spawn_local" => Some(Act::Spawn),
        "sleep" | "sleep_until" | "interval" | "park_timeout" => Some(Act::Sleep),
        _ => None,
    }
}

fn allowed_files(act: Act) -> String {
    let files: Vec<&str> =
        ALLOWED.iter().filter(|(_, allowed, _)| *allowed == act).map(|(file, ..)| *file).collect();
    files.join(", ")
}

fn is_test(path: &str) -> bool {
    let is = |name: &str| path.ends_with(&format!("/{name}.rs")) || path.contains(&format!("/{name}/"));
    is("tests") || is("races")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::shown;

    fn places(findings: &[Finding]) -> Vec<String> {
        shown(findings).iter().map(|line| line.split(" in the ").next().unwrap_or(line).to_owned()).collect()
    }

    #[test]
    fn a_renewal_machine_that_knows_a_runtime_io_or_a_clock_is_found() {
        let machine = "use std::{io, time::{Duration, Instant}};\n\
                       use tokio::sync::Notify;\n\
                       fn a(now: Moment) -> Moment { now }\n\
                       async fn b(clock: &dyn Clock) { clock.now(); }\n";
        let tests = "fn c() { std::thread::yield_now(); }\n";
        let tree = Tree::planted(&[
            ("lease-core/src/renewal.rs", machine),
            ("lease-core/src/renewal/tests.rs", tests),
            ("lease-core/src/driver.rs", machine),
        ]);
        assert_eq!(
            places(&the_renewal_machine_is_pure(&tree)),
            [
                "lease-core/src/renewal.rs:1: `io`",
                "lease-core/src/renewal.rs:1: `Instant`",
                "lease-core/src/renewal.rs:2: `tokio`",
                "lease-core/src/renewal.rs:4: `async`",
                "lease-core/src/renewal.rs:4: `Clock`",
                "lease-core/src/renewal.rs:4: `now`",
                "lease-core/src/renewal/tests.rs:1: `thread`",
            ]
        );
    }

    #[test]
    fn a_renewal_machine_may_speak_of_what_it_does_without() {
        let machine = "//! No tokio, no io, no Clock.\nfn a() -> &'static str { \"async\" }\n";
        let tree = Tree::planted(&[("lease-core/src/renewal.rs", machine)]);
        assert_eq!(the_renewal_machine_is_pure(&tree), []);
    }

    #[test]
    fn a_renewal_machine_that_has_moved_away_is_missed() {
        let tree = Tree::planted(&[("lease-core/src/renewals.rs", "")]);
        assert_eq!(the_renewal_machine_is_pure(&tree).len(), 1);
    }

    #[test]
    fn a_task_or_a_wait_outside_its_files_is_found() {
        let busy = "fn a() {\n    tokio::spawn(b());\n    sleep_until(&clock, at);\n}\n";
        let tree = Tree::planted(&[
            ("lease-core/src/lease.rs", busy),
            ("lease-core/src/run.rs", busy),
            ("lease-core/src/driver.rs", busy),
            ("lease-core/tests/run.rs", busy),
            ("lease-sqlite/src/store.rs", busy),
        ]);
        let findings = shown(&tasks_and_waits_stay_in_their_files(&tree));
        let found: Vec<&str> = findings.iter().filter_map(|line| line.split(" here").next()).collect();
        assert_eq!(
            found,
            [
                "lease-core/src/lease.rs:2: `spawn`",
                "lease-core/src/lease.rs:3: `sleep_until`",
                "lease-core/src/run.rs:3: `sleep_until`",
            ]
        );
        assert!(
            findings[0].contains("driver.rs, events.rs, meter.rs, run.rs, watchdog.rs"),
            "{}",
            findings[0]
        );
    }

    #[test]
    fn tests_and_names_are_no_tasks_and_no_waits() {
        let quiet = "use crate::sleep_until;\n#[cfg(test)]\nmod tests { fn a() { tokio::spawn(b()); } }\n";
        let tree = Tree::planted(&[
            ("lease-core/src/lib.rs", quiet),
            ("lease-core/src/run/tests.rs", "fn a() { spawn(b()); }"),
        ]);
        assert_eq!(tasks_and_waits_stay_in_their_files(&tree), []);
    }
}
