//! Who holds a name: what a refusal says of the holder, and when one that crashed on this host is replaced at once.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::bench::{Bench, Running, eventually};
use crate::schedule::sql;

/// Far longer than any test takes: only the probe can explain a takeover.
const HOLD: [&str; 4] = ["run", "x", "--ttl", "1h"];

fn hold(bench: &Bench) -> Running {
    let holder = bench.start(&[&HOLD[..], &["--", "sleep", "1000"]].concat());
    bench.await_command("sleep 1000");
    holder
}

fn expect_refused(bench: &Bench, why: &str) -> String {
    let outcome = bench.run(&["run", "x", "--", "touch", "ran"]);
    assert_eq!(outcome.code, Some(75), "{why}: {outcome:?}");
    assert!(!bench.path("ran").exists(), "{why}");
    outcome.expect_line(75)
}

/// The next `lease run --wait` is granted, as the next term, and this is what its command prints.
fn expect_granted(bench: &Bench, script: &str) -> String {
    let term = bench.term("x");
    // By its own timings it looks once a second.
    let arguments = ["run", "x", "--ttl", "3s", "--wait", "10m", "--", "sh", "-c", script];
    let out = bench.run(&arguments).expect(0).out;
    assert_eq!(bench.term("x"), term + 1);
    out
}

/// Kills `lease run`; it is reaped, as whoever started it does.
fn kill(holder: Running) {
    holder.signal(Signal::KILL);
    assert_eq!(holder.wait().code, None);
}

#[test]
fn a_refusal_says_who_holds_the_name_where_since_when_and_until_when() {
    let bench = Bench::new();
    let words = ["--label", "blue", "--address", "10.0.0.7:80", "--version", "1.4", "--", "sleep", "1000"];
    let holder = bench.start(&[&HOLD[..], &words].concat());
    bench.await_command("sleep 1000");
    let line = expect_refused(&bench, "held");
    let who = format!(":{} blue at 10.0.0.7:80 (version 1.4) since 20", holder.pid());
    for text in [&who[..], "Z, last renewed ", " ago, expires in ", "leases.db (table leases), term 1)"] {
        assert!(line.contains(text), "{text}: {line}");
    }
    assert!(!line.contains("took the name"), "{line}");
    assert_eq!(bench.living().len(), 3, "the holder, its guardian and its command: {:?}", bench.living());
}

#[test]
fn a_refusal_says_that_the_holder_took_the_name_meanwhile() {
    let bench = Bench::new();
    let holder = hold(&bench);
    let mut waiting = bench.start(&["run", "x", "--wait", "2s", "--", "true"]);
    // At each moment of the wait somebody takes it, so also after its beginning.
    while !waiting.has_ended() {
        sql(&bench, "UPDATE leases SET claimed_at_ms = CAST(unixepoch('subsec') * 1000 AS INTEGER)");
        thread::sleep(Duration::from_millis(20));
    }
    let line = waiting.wait().expect_line(75);
    assert!(line.contains("; it took the name while this claim was under way"), "{line}");
    drop(holder);
}

#[test]
fn texts_about_the_holder_are_cut_to_what_the_table_takes() {
    let bench = Bench::new();
    let long = "ä".repeat(300);
    bench.run(&["run", "x", "--address", &long, "--version", "a\u{1b}b", "--", "true"]).expect(0);
    let lease = &bench.status("x")["lease"];
    assert_eq!((&lease["address"], &lease["version"]), (&"ä".repeat(95).into(), &"a?b".into()));
}

#[test]
fn the_command_finds_the_longest_name_in_its_environment() {
    let bench = Bench::new();
    let name = format!("{}=", "ä".repeat(95));
    let outcome = bench.run(&["run", &name, "--", "sh", "-c", r#"printf %s "$LEASE_NAME$LEASE_TERM""#]);
    assert_eq!(outcome.expect(0).out, format!("{name}1"));
}

#[test]
fn the_claim_records_the_process_and_the_group_of_its_command() {
    let bench = Bench::new();
    let holder = hold(&bench);
    let process = bench.status("x")["lease"]["process"].as_str().unwrap().to_owned();
    let group = bench.await_guardian().pid();
    assert!(process.contains(&format!(" pid={} ", holder.pid())), "{process}");
    assert!(process.ends_with(&format!(" group={group}")), "{process}");
}

#[test]
fn a_wait_that_ends_leaves_no_guardian() {
    for (signal, code) in [(Signal::TERM, Some(143)), (Signal::KILL, None)] {
        let bench = Bench::new();
        let holder = hold(&bench);
        let waiter = bench.start(&["run", "x", "--wait", "1h", "--", "touch", "ran"]);
        eventually("the guardian of the waiter", || (bench.living().len() == 5).then_some(()));
        waiter.signal(signal);
        assert_eq!(waiter.wait().code, code);
        eventually("its end", || (bench.living().len() == 3).then_some(()));
        drop(holder);
    }
}

#[test]
fn after_sigkill_of_lease_its_name_is_taken_at_once_when_all_of_its_command_is_gone_and_not_before() {
    let bench = Bench::new();
    // Deaf to what asks it to end. The lock is held until the last process that inherited it has ended.
    let script = "exec 9>lock; flock -n 9 || exit 9; trap '' TERM HUP INT; sleep 1000 & sleep 1001 & echo >begun; \
                  while :; do sleep 0.1; done";
    let holder = bench.start(&[&HOLD[..], &["--", "sh", "-c", script]].concat());
    bench.await_file("begun");
    let deaf = [bench.await_command("sleep 1000"), bench.await_command("sleep 1001")];
    kill(holder);
    expect_refused(&bench, "all of the command lives");
    for process in bench.commands() {
        if process.pid() != deaf[1].pid() {
            process.signal(Signal::KILL);
        }
    }
    eventually("the end of the first", || (!deaf[0].lives()).then_some(()));
    expect_refused(&bench, "one of the command's children lives");
    deaf[1].signal(Signal::KILL);
    let no_probe = bench.run(&["run", "x", "--no-probe", "--", "touch", "ran"]).expect_line(75);
    assert!(no_probe.contains("is held by"), "{no_probe}");
    assert_eq!(expect_granted(&bench, "exec 9>lock; flock -n 9 && echo alone"), "alone\n");
}

#[test]
fn a_guardian_that_is_stopped_keeps_the_name_of_a_lease_that_was_killed() {
    let bench = Bench::new();
    let holder = hold(&bench);
    let guardian = bench.await_guardian();
    guardian.signal(Signal::STOP);
    kill(holder);
    expect_refused(&bench, "the command lives");
    guardian.signal(Signal::CONT);
    expect_granted(&bench, "true");
}

#[test]
fn a_command_that_has_left_its_group_keeps_the_name_of_a_lease_that_was_killed() {
    let bench = Bench::new();
    let script = "trap 'echo >asked' TERM; echo >begun; while :; do sleep 0.1; done";
    let holder = bench.start(&[&HOLD[..], &["--", "setsid", "sh", "-c", script]].concat());
    bench.await_file("begun");
    kill(holder);
    bench.await_file("asked");
    expect_refused(&bench, "the command lives");
    bench.commands().iter().for_each(|process| process.signal(Signal::KILL));
    expect_granted(&bench, "true");
}

/// A zombie may have threads that run: who has not been reaped may live.
#[test]
fn a_killed_holder_that_was_not_reaped_keeps_its_name() {
    let bench = Bench::new();
    let holder = hold(&bench);
    let guardian = bench.await_guardian().pid();
    holder.signal(Signal::KILL);
    eventually("the end of the group, reaped by the system's first process", || {
        (!Path::new(&format!("/proc/{guardian}")).exists()).then_some(())
    });
    expect_refused(&bench, "a zombie");
    assert_eq!(holder.wait().code, None);
    expect_granted(&bench, "true");
}

/// This command in a pid namespace of its own, with a `/proc` to go with it.
fn in_a_pid_namespace(bench: &Bench, command: &Command) -> Command {
    let root = rustix::process::geteuid().is_root();
    let user: &[&str] = if root { &[] } else { &["--map-root-user"] };
    let namespace = [user, &["--pid", "--fork", "--mount-proc", "--kill-child", "--"]].concat();
    let tried = bench.spawn(bench.command("unshare").args(&namespace).arg("true")).wait();
    assert!(
        tried.code == Some(0),
        "no pid namespace can be made here; run the tests as root, or where users may make namespaces: {tried:?}"
    );
    let mut inside = bench.command("unshare");
    inside.args(&namespace).arg(command.get_program()).args(command.get_args());
    inside
}

#[test]
fn a_holder_in_another_pid_namespace_keeps_its_name_dead_or_alive() {
    let bench = Bench::new();
    let command = bench.lease(&[&HOLD[..], &["--", "sleep", "1000"]].concat());
    let holder = bench.spawn(&mut in_a_pid_namespace(&bench, &command));
    bench.await_command("sleep 1000");
    let process = bench.status("x")["lease"]["process"].as_str().unwrap().to_owned();
    assert!(process.contains(" pidns=") && process.contains(" pid=1 "), "{process}");
    expect_refused(&bench, "alive in another namespace");
    holder.signal(Signal::KILL);
    assert_eq!(holder.wait().code, None);
    eventually("the end of the namespace", || bench.living().is_empty().then_some(()));
    expect_refused(&bench, "dead in another namespace");
}

#[test]
fn a_claim_in_another_pid_namespace_takes_nothing_from_a_holder_dead_or_alive() {
    let bench = Bench::new();
    let holder = hold(&bench);
    let claim = |what: &str| {
        let command = bench.lease(&["run", "x", "--", "touch", "ran"]);
        let outcome = bench.spawn(&mut in_a_pid_namespace(&bench, &command)).wait();
        assert_eq!(outcome.code, Some(75), "{what}: {outcome:?}");
    };
    claim("alive");
    kill(holder);
    eventually("the end of its guardian", || bench.living().is_empty().then_some(()));
    claim("dead");
    assert!(!bench.path("ran").exists());
    // It was not for want of facts.
    expect_granted(&bench, "true");
}

#[test]
fn a_user_who_may_not_signal_the_holder_does_not_take_it_for_dead() {
    let bench = Bench::new();
    let holder = hold(&bench);
    let mut command = bench.unprivileged(&["run", "x", "--", "touch", "ran"]);
    fs::set_permissions(bench.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    for file in fs::read_dir(bench.path("")).unwrap().flatten() {
        if file.file_name().to_string_lossy().starts_with("leases.db") {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(0o666)).unwrap();
        }
    }
    let line = bench.spawn(&mut command).wait().expect_line(75);
    assert!(line.contains(&format!(":{} since", holder.pid())), "{line}");
    assert!(!bench.path("ran").exists());
}
