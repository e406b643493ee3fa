//! What a command under a lease sees.

use std::fs;
use std::process::Command;

use crate::bench::Bench;

#[test]
fn each_run_has_the_next_term() {
    let bench = Bench::new();
    for term in 1..=3 {
        let outcome = bench.run(&["run", "nightly", "--", "sh", "-c", "echo term $LEASE_TERM"]).expect(0);
        assert_eq!(outcome.out, format!("term {term}\n"));
        assert_eq!(outcome.err, "");
    }
}

#[test]
fn the_command_is_told_name_term_and_holder() {
    let bench = Bench::new();
    let script = r#"printf '%s|%s|%s' "$LEASE_NAME" "$LEASE_TERM" "$LEASE_HOLDER""#;
    let outcome = bench.run(&["run", "größe/a b", "--", "sh", "-c", script]).expect(0);
    let holder = bench.status("größe/a b")["lease"]["holder"].as_str().unwrap().to_owned();
    assert_eq!(outcome.out, format!("größe/a b|1|{holder}"));
}

#[test]
fn the_lease_is_given_back_when_the_command_has_ended() {
    let bench = Bench::new();
    bench.run(&["run", "nightly", "--", "true"]).expect(0);
    assert_eq!(bench.status("nightly")["lease"]["state"], "released");
}

#[test]
fn the_command_reads_and_writes_what_lease_was_given() {
    let bench = Bench::new();
    fs::write(bench.path("in"), "from stdin\n").unwrap();
    let mut command = bench.lease(&["run", "x", "--", "sh", "-c", "cat; echo to stderr >&2"]);
    command.stdin(fs::File::open(bench.path("in")).unwrap());
    let outcome = bench.spawn(&mut command).wait().expect(0);
    assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("from stdin\n", "to stderr\n"));
}

#[test]
fn arguments_reach_the_command_byte_by_byte() {
    use std::os::unix::ffi::OsStrExt;

    let bench = Bench::new();
    let mut command = bench.lease(&["run", "x", "--", "printf", "%s|", "--json", "a  b"]);
    command.arg(std::ffi::OsStr::from_bytes(b"\xff"));
    let outcome = bench.spawn(&mut command).wait().expect(0);
    assert_eq!(outcome.out, String::from_utf8_lossy(b"--json|a  b|\xff|"));
}

#[test]
fn the_command_inherits_no_descriptor_but_those_lease_was_given() {
    let bench = Bench::new();
    // One process and no pipe: a shell has descriptors of its own while it starts others.
    let script = "exec ls /proc/self/fd";
    let direct = bench.spawn(bench.command("sh").args(["-c", script])).wait().expect(0);
    let under_lease = bench.run(&["run", "x", "--", "sh", "-c", script]).expect(0);
    assert_eq!(under_lease.out, direct.out);
}

#[test]
fn the_command_starts_with_the_signals_that_lease_was_started_with() {
    let bench = Bench::new();
    let masks = |setup: &str, prefix: &str| {
        // The signals 32 and 33 are the C library's own.
        let script = format!("{setup}; exec {prefix} grep -E 'SigBlk|SigIgn' /proc/self/status");
        let outcome = bench.spawn(bench.command("sh").args(["-c", &script])).wait().expect(0);
        let mask = |line: &str| u64::from_str_radix(line.rsplit('\t').next().unwrap(), 16).unwrap();
        outcome.out.lines().map(|line| mask(line) & 0x7fff_ffff).collect::<Vec<_>>()
    };
    let lease = format!("{} run x --", crate::bench::lease_file());
    for setup in ["true", "trap '' HUP", "trap '' TERM INT USR1 TSTP"] {
        assert_eq!(masks(setup, &lease), masks(setup, ""), "{setup}");
    }
}

#[test]
fn the_default_database_is_made_on_first_use_with_its_folder() {
    let bench = Bench::new();
    let state = bench.path("state");
    let with_default = |arguments: &[&str]| {
        let mut command = bench.lease(arguments);
        command.env_remove("LEASE_DATABASE_URL").env("XDG_STATE_HOME", &state);
        bench.spawn(&mut command).wait()
    };
    let nothing = with_default(&["list"]).expect(0);
    assert!(nothing.out.contains("no lease has been taken yet"), "{nothing:?}");
    assert!(with_default(&["status", "x"]).expect(0).out.contains("state: never claimed"));
    assert!(with_default(&["slots"]).expect(0).out.contains("no slot has been claimed yet"));
    assert!(with_default(&["slots", "x"]).expect(0).out.contains("never claimed"));
    assert!(with_default(&["slots", "x", "--json"]).expect(0).out.contains("\"now_ms\": null"));
    with_default(&["check"]).expect_line(69);
    assert!(!state.exists(), "only looking makes nothing");

    assert_eq!(with_default(&["run", "x", "--", "printenv", "LEASE_TERM"]).expect(0).out, "1\n");
    assert!(state.join("lease/leases.db").exists());
    with_default(&["check"]).expect(0);

    let mut at_home = bench.lease(&["run", "x", "--", "printenv", "LEASE_TERM"]);
    at_home.env_remove("LEASE_DATABASE_URL");
    assert_eq!(bench.spawn(&mut at_home).wait().expect(0).out, "1\n");
    assert!(bench.path(".local/state/lease/leases.db").exists());
}

#[test]
fn what_the_command_leaves_running_is_ended_before_the_lease_is_given_back() {
    let bench = Bench::new();
    let script = "sleep 1000 & (trap '' TERM; sleep 1001) & echo left";
    assert_eq!(bench.run(&["run", "x", "--ttl", "10s", "--", "sh", "-c", script]).expect(0).out, "left\n");
    assert!(bench.living().is_empty(), "{:?}", bench.living());
    assert_eq!(bench.status("x")["lease"]["state"], "released");
}

#[test]
fn what_the_command_leaves_running_is_asked_to_end_before_it_is_killed() {
    let bench = Bench::new();
    let left = "trap 'sleep 0.1; echo >cleaned; exit' TERM; echo >begun; while :; do sleep 0.05; done";
    let script = format!("({left}) & while ! [ -e begun ]; do sleep 0.01; done");
    // The time to clean up is a third of the ttl.
    bench.run(&["run", "x", "--ttl", "5m", "--", "sh", "-c", &script]).expect(0);
    assert!(bench.path("cleaned").exists());
}

#[test]
fn help_shows_no_password_from_the_environment() {
    let output = Command::new(crate::bench::lease_file())
        .args(["run", "--help"])
        .env("LEASE_DATABASE_URL", "postgres://u:secret@h/db")
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(!String::from_utf8_lossy(&output.stdout).contains("secret"));
}
