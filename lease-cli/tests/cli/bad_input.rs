//! What cannot work ends in one line that says what to do, and changes nothing.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::bench::{Bench, lease_file};

#[test]
fn names_that_cannot_be_are_refused_before_anything_is_made() {
    let bench = Bench::new();
    for name in ["", "a\nb", "a ", " a", "a\tb", "\u{7f}", &"n".repeat(192), &"ä".repeat(96)] {
        let line = bench.run(&["run", name, "--", "touch", "ran"]).expect_line(64);
        assert!(line.contains("cannot name a lease"), "{line}");
        bench.run(&["status", name]).expect_line(64);
        bench.run(&["slots", "x", name]).expect_line(64);
        for subcommand in ["clear", "resign", "watch"] {
            let line = bench.run(&[subcommand, name]).expect_line(64);
            assert!(line.contains("cannot name a lease"), "{line}");
        }
    }
    assert!(!bench.path("ran").exists() && !bench.database().exists());
    bench.run(&["run", &"n".repeat(191), "--", "true"]).expect(0);
}

#[test]
fn durations_that_cannot_be_are_refused_before_anything_is_made() {
    let bench = Bench::new();
    for ttl in [
        "",
        "0s",
        "0ms",
        "29ms",
        "5",
        "-5s",
        "soon",
        "1e9s",
        "400days",
        "99999999999999999999s",
        "18446744073709551615s",
    ] {
        let line = bench.run(&["run", "x", "--ttl", ttl, "--", "touch", "ran"]).expect_line(64);
        assert!(line.contains("ttl"), "{line}");
    }
    for wait in ["", "5", "-5s", "soon", "99999999999999999999s"] {
        bench.run(&["run", "x", "--wait", wait, "--", "touch", "ran"]).expect_line(64);
    }
    assert!(!bench.path("ran").exists() && !bench.database().exists());
    for wait in ["0s", "18446744073709551615s"] {
        bench.run(&["run", "x", "--wait", wait, "--", "true"]).expect(0);
    }
}

#[test]
fn the_shortest_ttls_end_as_any_other_or_in_a_loss() {
    for ttl in ["30ms", "149ms"] {
        let bench = Bench::new();
        // Whether so short a lease outlives the start of its command depends on the machine.
        let outcome = bench.run(&["run", "x", "--ttl", ttl, "--", "sleep", "0.1"]);
        assert!(matches!(outcome.code, Some(0 | 69 | 70)), "{outcome:?}");
        assert!(!outcome.err.contains("panicked"), "{outcome:?}");
    }
}

#[test]
fn databases_that_cannot_be_are_refused_without_their_passwords() {
    let bench = Bench::new();
    for url in [
        "",
        ":memory:",
        "sqlite:",
        "sqlite::memory:",
        "sqlite:x.db?mode=ro",
        "redis://u:secret@h/0?password=secret",
        "file:x.db",
    ] {
        for arguments in [
            &["run", "x", "--db", url, "--", "touch", "ran"][..],
            &["list", "--db", url],
            &["check", "--db", url],
        ] {
            let line = bench.run(arguments).expect_line(64);
            assert!(!line.contains("secret"), "{line}");
        }
        let line = bench.run(&["list", url]).expect_line(64);
        assert!(!line.contains("secret"), "{line}");
    }
    assert!(!bench.path("ran").exists());
}

/// Every subcommand that opens a database, each with one line.
fn expect_unusable(bench: &Bench, database: &str) {
    for arguments in [
        &["run", "x", "--db", database, "--", "touch", "ran"][..],
        &["status", "x", "--db", database],
        &["list", "--json", "--db", database],
        &["clear", "x", "--db", database],
        &["resign", "x", "--db", database],
        &["watch", "--db", database],
        &["slots", "--db", database],
        &["slots", "x", "--db", database],
        &["migrate", "--db", database],
        &["check", "--db", database],
    ] {
        let line = bench.run(arguments).expect_line(69);
        assert!(line.contains('(') || line.contains("; "), "it says what to do: {line}");
    }
    assert!(!bench.path("ran").exists());
}

#[test]
fn a_folder_is_no_database() {
    let bench = Bench::new();
    fs::create_dir(bench.path("folder")).unwrap();
    expect_unusable(&bench, bench.path("folder").to_str().unwrap());
}

#[test]
fn a_text_file_is_no_database_and_stays_as_it_is() {
    let bench = Bench::new();
    let text = "neither a database nor empty\n".repeat(100);
    fs::write(bench.path("text"), &text).unwrap();
    expect_unusable(&bench, bench.path("text").to_str().unwrap());
    assert_eq!(fs::read_to_string(bench.path("text")).unwrap(), text);
}

#[test]
fn a_corrupt_database_is_unusable_and_stays_as_it_is() {
    let bench = Bench::new();
    bench.run(&["run", "x", "--", "true"]).expect(0);
    let file = bench.database();
    let database = rusqlite::Connection::open(&file).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(database);
    let mut bytes = fs::read(&file).unwrap();
    bytes[100..].fill(0xa5);
    fs::write(&file, &bytes).unwrap();
    expect_unusable(&bench, file.to_str().unwrap());
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

#[test]
fn a_missing_folder_is_not_made_for_a_database_that_was_named() {
    let bench = Bench::new();
    expect_unusable(&bench, bench.path("missing/leases.db").to_str().unwrap());
    assert!(!bench.path("missing").exists());
}

#[test]
fn a_missing_file_is_made_by_run_and_migrate_alone() {
    let bench = Bench::new();
    for arguments in [&["status", "x"][..], &["list"], &["slots"], &["slots", "x"], &["check"]] {
        let line = bench.run(arguments).expect_line(69);
        assert!(line.contains("lease migrate"), "{line}");
        assert!(!bench.database().exists());
    }
    bench.run(&["migrate"]).expect(0);
    bench.run(&["check"]).expect(0);
}

#[test]
fn a_database_without_the_table_is_told_so() {
    let bench = Bench::new();
    let other = rusqlite::Connection::open(bench.database()).unwrap();
    other.execute_batch("CREATE TABLE other (x)").unwrap();
    for arguments in [&["status", "x"][..], &["list"], &["slots"], &["slots", "x"], &["check"]] {
        let line = bench.run(arguments).expect_line(69);
        assert!(line.contains("`lease migrate`"), "{line}");
    }
    assert_eq!(bench.run(&["run", "x", "--", "printenv", "LEASE_TERM"]).expect(0).out, "1\n");
}

#[test]
fn a_read_only_file_is_said_to_be_one_and_no_row_changes() {
    let bench = Bench::new();
    bench.run(&["run", "x", "--", "true"]).expect(0);
    let before = bench.status("x")["lease"].clone();
    fs::set_permissions(bench.database(), fs::Permissions::from_mode(0o444)).unwrap();
    for arguments in [&["run", "x", "--", "touch", "ran"][..], &["migrate"], &["check"]] {
        let line = bench.spawn(&mut bench.unprivileged(arguments)).wait().expect_line(69);
        assert!(line.contains("writ") || line.contains("read"), "{line}");
    }
    assert!(!bench.path("ran").exists());
    fs::set_permissions(bench.database(), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(bench.status("x")["lease"], before);
}

#[test]
fn a_full_disk_is_said_to_be_full_and_no_row_changes() {
    let bench = Bench::new();
    fs::create_dir(bench.path("small")).unwrap();
    // A file system of our own, seen by nobody else, that goes away with its processes.
    let script = r#"
        mount -t tmpfs -o size=256k small small && cd small || exit 99
        export LEASE_DATABASE_URL=leases.db
        "$0" run x -- true || exit 98
        "$0" status x --json >../before
        dd if=/dev/zero of=filler bs=1k 2>/dev/null
        : >../errors
        "$0" run x -- touch ../ran 2>>../errors; echo $? >../code
        "$0" run y --db new.db -- touch ../ran 2>>../errors; echo $? >>../code
        rm filler
        "$0" status x --json >../after
    "#;
    let mut command = bench.command("unshare");
    command.arg(if rustix::process::geteuid().is_root() { "-m" } else { "-rm" });
    bench.spawn(command.args(["sh", "-c", script, lease_file()])).wait().expect(0);

    let errors = bench.await_file("errors");
    assert_eq!(bench.await_file("code"), "69\n69\n", "{errors}");
    assert_eq!(errors.lines().count(), 2, "{errors}");
    assert!(
        errors.lines().all(|line| line.starts_with("lease: ") && line.contains("free some room")),
        "{errors}"
    );
    assert!(!bench.path("ran").exists());
    let lease = |file: &str| {
        let status: serde_json::Value = serde_json::from_str(&bench.await_file(file)).unwrap();
        status["lease"].clone()
    };
    assert_eq!(lease("before"), lease("after"));
}

#[test]
fn the_guardian_called_by_hand_does_nothing() {
    for arguments in [&["__guardian"][..], &["__guardian", "0", "1", "true", "true"], &["__guardian", "x"]] {
        let output = Command::new(lease_file()).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
}

/// What words there may be: `watch` waits for its end, and is left out.
const WORDS: [&str; 28] = [
    "run",
    "status",
    "list",
    "clear",
    "resign",
    "slots",
    "migrate",
    "schema",
    "check",
    "help",
    "--",
    "-h",
    "--db",
    "--table",
    "--ttl",
    "--slot",
    "--held-exit",
    "--json",
    "--prefix",
    "--live",
    "name",
    "other",
    "true",
    "5s",
    "@7",
    "l.db",
    "",
    "mysql://u:secret@[::1/x",
];

/// The library behind it is asked far more by `bad_values` in the program itself.
#[test]
fn words_at_random_end_in_a_code_that_is_documented_and_in_no_panic() {
    let bench = Bench::new();
    let config =
        Config { cases: 150, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..Config::default() };
    let words = prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..7);
    let ended = RefCell::new(BTreeSet::new());
    let ends = TestRunner::new(config).run(&words, |words| {
        let outcome = bench.run(&words);
        let code = outcome.code;
        prop_assert!(matches!(code, Some(0 | 64 | 69 | 75 | 126 | 127)), "{:?}: {:?}", words, outcome);
        prop_assert!(!outcome.err.contains("panicked"), "{:?}: {:?}", words, outcome);
        let said = outcome.err.trim_end_matches('\n');
        prop_assert!(
            !said.contains("secret") && !said.chars().any(char::is_control),
            "{:?}: {}",
            words,
            said
        );
        prop_assert!(code == Some(0) || !said.is_empty(), "{:?}: {:?}", words, outcome);
        ended.borrow_mut().insert(code);
        Ok(())
    });
    ends.unwrap_or_else(|error| panic!("{error}"));
    let ended = ended.into_inner();
    assert!([0, 64].iter().all(|code| ended.contains(&Some(*code))), "{ended:?}");
}
