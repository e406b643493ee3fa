//! Rounds of a schedule: `lease run --slot`, `lease run --rerun`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Bench, Running, eventually};

/// Instants long past, in their order.
const SLOT: &str = "2020-01-01T00:00:00Z";
const NEXT: &str = "2020-01-01T00:01:00Z";
const LAST: &str = "2020-01-01T00:02:00Z";

/// A command that says that it has begun, and goes on until the file `end` is there.
const UNTIL_END: &str = "echo x >>begun; while ! [ -e end ]; do sleep 0.05; done";

fn sql(bench: &Bench, statement: &str) {
    Connection::open(bench.database()).unwrap().execute_batch(statement).unwrap();
}

fn start(bench: &Bench, slot: &str, script: &str) -> Running {
    bench.start(&["run", "x", "--slot", slot, "--ttl", "1h", "--", "sh", "-c", script])
}

/// What `lease slots` says of the name `x`.
fn slots(bench: &Bench) -> Value {
    let answer: Value = serde_json::from_str(&bench.run(&["slots", "x", "--json"]).expect(0).out).unwrap();
    answer["slots"][0].clone()
}

#[track_caller]
fn expect_state(bench: &Bench, state: &str) {
    let slots = slots(bench);
    assert_eq!(slots["slot_state"], state, "{slots}");
}

/// Asserts that nothing is run, and that a line says why.
#[track_caller]
fn expect_nothing(bench: &Bench, arguments: &[&str]) -> String {
    let run = |more: &[&str]| bench.run(&[arguments, more, &["--", "touch", "ran"]].concat());
    let line = run(&[]).expect_line(0);
    assert_eq!(run(&["--quiet"]).expect(0).err, "");
    assert!(!bench.path("ran").exists());
    line
}

/// Asserts that the round that was cut short is run once more, for this slot, and then never again.
#[track_caller]
fn expect_one_rerun(bench: &Bench, slot: &str) {
    expect_state(bench, "cut_short");
    let script = r#"echo "$LEASE_SLOT $LEASE_RERUN""#;
    let rerun = bench.run(&["run", "--rerun", "x", "--", "sh", "-c", script]).expect(0);
    assert_eq!((rerun.out, rerun.err.as_str()), (format!("{slot} 1\n"), ""));
    expect_no_rerun(bench);
    expect_state(bench, "finished");
}

#[track_caller]
fn expect_no_rerun(bench: &Bench) {
    let line = expect_nothing(bench, &["run", "--rerun", "x"]);
    assert!(line.contains("\"x\" is not rerun"), "{line}");
}

/// The database's clock is this machine's here.
fn from_now(time: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + time;
    format!("@{}.{:03}", now.as_secs(), now.subsec_millis())
}

#[test]
fn an_instant_is_run_once_and_an_older_one_not_at_all() {
    let bench = Bench::new();
    let script = r#"echo "$LEASE_NAME $LEASE_TERM $LEASE_SLOT $LEASE_RERUN""#;
    let run = |slot: &str| bench.run(&["run", "x", "--slot", slot, "--", "sh", "-c", script]).expect(0);
    let first = run(NEXT);
    assert_eq!((first.out.as_str(), first.err.as_str()), ("x 1 2020-01-01T00:01:00Z 0\n", ""));
    for same in [NEXT, "2020-01-01T02:01:00.0009+02:00", "@1577836860", "@1577836860.000999", SLOT, "@0.001"]
    {
        let line = expect_nothing(&bench, &["run", "x", "--slot", same]);
        assert!(line.contains("\"x\" is not run for ") && line.contains("claimed or skipped"), "{line}");
        assert!(line.contains("leases.db"), "{line}");
    }
    assert_eq!(run("2020-01-01T00:01:00.001Z").out, "x 2 2020-01-01T00:01:00.001Z 0\n");
    assert_eq!(run(LAST).out, "x 3 2020-01-01T00:02:00Z 0\n");
}

#[test]
fn of_twenty_at_once_one_runs_the_instant_and_nineteen_say_that_it_is_claimed() {
    let bench = Bench::new();
    let mut running: Vec<_> = (0..20).map(|_| start(&bench, SLOT, UNTIL_END)).collect();
    eventually("the end of nineteen", || {
        let ended = running.iter_mut().map(Running::has_ended).filter(|ended| *ended).count();
        (ended == 19).then_some(())
    });
    let winner = running.iter_mut().position(|run| !run.has_ended()).unwrap();
    let winner = running.swap_remove(winner);
    for other in running {
        assert!(other.wait().expect_line(0).contains("claimed or skipped"));
    }
    fs::write(bench.path("end"), "").unwrap();
    winner.wait().expect(0);
    assert_eq!(bench.await_file("begun"), "x\n");
    expect_state(&bench, "finished");
}

#[test]
fn of_twenty_reruns_at_once_one_runs() {
    let bench = Bench::new();
    start(&bench, SLOT, "kill -KILL $$").wait().expect(137);
    let running: Vec<_> =
        (0..20).map(|_| bench.start(&["run", "--rerun", "x", "--", "sh", "-c", "echo x >>reran"])).collect();
    for each in running {
        each.wait().expect(0);
    }
    assert_eq!(bench.await_file("reran"), "x\n");
    expect_no_rerun(&bench);
}

#[test]
fn a_command_that_ends_by_itself_is_not_run_again_whatever_its_exit_code() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("exit 143", 143), ("kill -SEGV $$", 139)] {
        let bench = Bench::new();
        start(&bench, SLOT, script).wait().expect(code);
        expect_state(&bench, "finished");
        expect_no_rerun(&bench);
    }
}

#[test]
fn a_command_that_is_ended_by_a_signal_has_its_round_cut_short_and_run_once_more() {
    for (signal, code) in
        [("HUP", 129), ("INT", 130), ("QUIT", 131), ("KILL", 137), ("USR1", 138), ("TERM", 143)]
    {
        let bench = Bench::new();
        let outcome = start(&bench, SLOT, &format!("kill -{signal} $$")).wait().expect(code);
        let lines: Vec<_> = outcome.err.lines().filter(|line| line.starts_with("lease: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains(SLOT), "{outcome:?}");
        assert!(lines[0].contains("cut short") && lines[0].contains("--rerun"), "{outcome:?}");
        expect_one_rerun(&bench, SLOT);
    }
}

#[test]
fn after_a_signal_to_lease_only_success_is_the_end_of_the_round() {
    let until_asked =
        |answer: &str| format!("trap '{answer}' TERM USR1; echo >begun; while :; do sleep 0.05; done");
    for (answer, signal, code, finished) in [
        ("exit 0", Signal::TERM, 0, true),
        ("exit 5", Signal::TERM, 5, false),
        // It asks for anything but the end.
        ("exit 5", Signal::USR1, 5, true),
    ] {
        let bench = Bench::new();
        let running = start(&bench, SLOT, &until_asked(answer));
        bench.await_file("begun");
        running.signal(signal);
        let outcome = running.wait().expect(code);
        assert_eq!(outcome.err.contains("cut short"), !finished, "{outcome:?}");
        if finished {
            expect_state(&bench, "finished");
        } else {
            expect_one_rerun(&bench, SLOT);
        }
    }
}

#[test]
fn a_quiet_round_that_is_cut_short_says_nothing() {
    let bench = Bench::new();
    let quiet = ["run", "x", "--quiet", "--slot", SLOT, "--", "sleep", "1000"];
    let running = bench.start(&quiet);
    bench.await_command("sleep 1000");
    running.signal(Signal::TERM);
    assert_eq!(running.wait().expect(143).err, "");
    expect_one_rerun(&bench, SLOT);
}

#[test]
fn after_sigkill_of_lease_its_round_is_run_once_more() {
    let bench = Bench::new();
    let running = bench.start(&["run", "x", "--slot", SLOT, "--ttl", "3s", "--", "sleep", "1000"]);
    bench.await_command("sleep 1000");
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, None);
    eventually("the end of the lease", || (slots(&bench)["slot_state"] != "running").then_some(()));
    assert!(bench.commands().is_empty());
    expect_one_rerun(&bench, SLOT);
}

#[test]
fn a_round_whose_lease_is_lost_is_cut_short() {
    let bench = Bench::new();
    let script = "trap 'exit 0' TERM; echo >begun; while :; do sleep 0.05; done";
    let running = bench.start(&["run", "x", "--slot", SLOT, "--", "sh", "-c", script]);
    bench.await_file("begun");
    sql(&bench, "UPDATE leases SET holder = 'ffffffffffffffffffffffffffffffff', expires_at_ms = 0");
    let lines = running.wait().expect(70).err;
    assert!(lines.contains("lost \"x\" (term 1)"), "{lines}");
    expect_one_rerun(&bench, SLOT);
}

#[test]
fn a_command_that_ended_well_before_the_loss_was_seen_is_not_run_again() {
    let bench = Bench::new();
    let running = bench.start(&["run", "x", "--slot", SLOT, "--ttl", "20s", "--", "sh", "-c", UNTIL_END]);
    bench.await_file("begun");
    running.signal(Signal::STOP);
    fs::write(bench.path("end"), "").unwrap();
    eventually("the end of the lease", || (slots(&bench)["slot_state"] == "cut_short").then_some(()));
    running.signal(Signal::CONT);
    let lines = running.wait().expect(70).err;
    assert!(lines.contains("it ran to its end all the same"), "{lines}");
    expect_state(&bench, "finished");
    expect_no_rerun(&bench);
}

#[test]
fn a_round_is_cut_short_when_its_command_cannot_be_started_or_its_guardian_is_killed() {
    let bench = Bench::new();
    let script = bench.path("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let slot = ["run", "x", "--slot", SLOT, "--"];
    bench.run(&[&slot[..], &["no-such-command"]].concat()).expect_line(127);
    let line = bench.run(&[&slot[..], &[script.to_str().unwrap()]].concat()).expect_line(126);
    assert!(line.contains("cannot run") && line.contains("--rerun"), "{line}");
    expect_one_rerun(&bench, SLOT);

    let running = start(&bench, NEXT, "exec sleep 1000");
    bench.await_command("sleep 1000");
    bench.await_guardian().signal(Signal::KILL);
    let line = running.wait().expect_line(70);
    assert!(line.contains("guardian") && line.contains("--rerun"), "{line}");
    expect_one_rerun(&bench, NEXT);
}

#[test]
fn a_rerun_that_is_cut_short_is_not_run_again_and_the_next_instant_says_that_it_gives_it_up() {
    let bench = Bench::new();
    let cut_short = |arguments: &[&str]| {
        let outcome = bench.run(&[arguments, &["--", "sh", "-c", "kill -TERM $$"]].concat());
        outcome.expect(143).err
    };
    let run = |slot: &str, more: &[&str]| {
        bench.run(&[&["run", "x", "--slot", slot], more, &["--", "true"]].concat())
    };

    cut_short(&["run", "x", "--slot", SLOT]);
    let line = run(NEXT, &[]).expect_line(0);
    assert!(line.contains(&format!("the round of {SLOT} was cut short")) && line.contains(NEXT), "{line}");
    expect_no_rerun(&bench);

    cut_short(&["run", "x", "--slot", LAST]);
    let lines = cut_short(&["run", "--rerun", "x"]);
    assert!(lines.contains("by hand"), "{lines}");
    expect_state(&bench, "cut_short_for_good");
    expect_no_rerun(&bench);
    let line = run("2020-01-01T00:03:00Z", &[]).expect_line(0);
    assert!(line.contains(&format!("the round of {LAST} and its rerun were cut short")), "{line}");

    cut_short(&["run", "x", "--slot", "2020-01-01T00:04:00Z"]);
    assert_eq!(run("2020-01-01T00:05:00Z", &["--quiet"]).expect(0).err, "");
}

#[test]
fn while_a_round_runs_there_is_none_to_rerun() {
    let bench = Bench::new();
    let running = start(&bench, SLOT, UNTIL_END);
    bench.await_file("begun");
    expect_state(&bench, "running");
    expect_no_rerun(&bench);
    fs::write(bench.path("end"), "").unwrap();
    running.wait().expect(0);
}

#[test]
fn while_the_name_is_held_an_instant_is_refused_with_the_holder_and_not_used_up() {
    for held_for in [&["--slot", SLOT][..], &[]] {
        let bench = Bench::new();
        let arguments = [&["run", "x", "--ttl", "1h"], held_for, &["--", "sh", "-c", UNTIL_END]].concat();
        let holder = bench.start(&arguments);
        bench.await_file("begun");
        let refused = |more: &[&str]| {
            bench.run(&[&["run", "x", "--slot", NEXT], more, &["--", "touch", "ran"]].concat())
        };
        for wait in [&[][..], &["--wait", "1ms"]] {
            let line = refused(wait).expect_line(75);
            assert!(line.contains(&format!("not run for {NEXT}: \"x\" is held by")), "{line}");
            assert!(line.contains(&format!(":{} since", holder.pid())), "{line}");
        }
        refused(&["--held-exit", "9"]).expect_line(9);
        assert_eq!(refused(&["--quiet"]).expect(75).err, "");

        let waiting = bench.start(&[
            "run",
            "x",
            "--slot",
            NEXT,
            "--wait",
            "10m",
            "--ttl",
            "3s",
            "--",
            "printenv",
            "LEASE_SLOT",
        ]);
        fs::write(bench.path("end"), "").unwrap();
        holder.wait().expect(0);
        let waited = waiting.wait().expect(0);
        assert_eq!((waited.out, waited.err.as_str()), (format!("{NEXT}\n"), ""));
        assert!(!bench.path("ran").exists());
    }
}

#[test]
fn who_waits_for_an_instant_that_is_claimed_meanwhile_runs_nothing() {
    let bench = Bench::new();
    let holder = start(&bench, SLOT, UNTIL_END);
    bench.await_file("begun");
    let mut waiting =
        bench.lease(&["run", "x", "--slot", NEXT, "--wait", "10m", "--ttl", "3s", "--", "touch", "ran"]);
    let waiting = bench.spawn(waiting.env("LEASE_LOG", "warn"));
    sql(&bench, &format!("UPDATE leases SET slot_ms = {}", 1_577_836_860_000_i64));
    assert!(waiting.wait().expect_line(0).contains("claimed or skipped"));
    assert!(!bench.path("ran").exists());
    fs::write(bench.path("end"), "").unwrap();
    holder.wait().expect(0);
}

#[test]
fn an_instant_a_little_ahead_is_waited_for_and_a_later_one_with_wait_alone() {
    let bench = Bench::new();
    let claimed_in_time = |arguments: &[&str]| {
        bench.run(&[&["run", "x"], arguments, &["--", "true"]].concat()).expect(0);
        let lease = bench.status("x")["lease"].clone();
        assert!(lease["claimed_at_ms"].as_i64() >= lease["slot_ms"].as_i64(), "{lease}");
    };
    claimed_in_time(&["--slot", &from_now(Duration::from_secs(3))]);
    claimed_in_time(&["--slot", &from_now(Duration::from_secs(3)), "--wait", "1ms"]);
    claimed_in_time(&["--slot", &from_now(Duration::from_secs(9)), "--wait", "10m"]);
    let term = bench.term("x");
    let ahead = from_now(Duration::from_secs(7_200));
    for wait in [&[][..], &["--wait", "1m"], &["--wait", "1m", "--held-exit", "0"]] {
        let line = bench
            .run(&[&["run", "x", "--slot", &ahead], wait, &["--", "touch", "ran"]].concat())
            .expect_line(64);
        assert!(line.contains("comes in 1h 59m") || line.contains("comes in 2h"), "{line}");
        assert!(line.contains("--wait") && line.contains("clock"), "{line}");
    }
    assert!(!bench.path("ran").exists());
    assert_eq!(bench.term("x"), term);
}

#[test]
fn an_end_that_cannot_be_recorded_is_said_and_no_success() {
    let bench = Bench::new();
    // A table that takes no end of a round with this ttl.
    let column = "unfinished_slot_ms INTEGER NOT NULL DEFAULT 0";
    let schema = bench.run(&["schema"]).expect(0).out;
    assert!(schema.contains(column), "{schema}");
    let check = format!("{column} CHECK (unfinished_slot_ms <> 0 OR ttl_ms <> 20000)");
    sql(&bench, &schema.replace(column, &check));
    let run = |name: &str, script: &str| {
        bench.start(&["run", name, "--slot", SLOT, "--ttl", "20s", "--", "sh", "-c", script])
    };
    for (running, code) in [(run("x", "exit 0"), 69), (run("y", "exit 7"), 7)] {
        let outcome = running.wait().expect(code);
        let last = outcome.err.lines().last().unwrap();
        assert!(
            last.starts_with("lease: the command has ended, but: ") && last.contains("cannot record the end"),
            "{outcome:?}"
        );
        assert!(last.contains("may be run again with --rerun"), "{outcome:?}");
    }
    expect_one_rerun(&bench, SLOT);
}

#[test]
fn a_signal_ends_the_wait_for_a_database_that_does_not_record_the_end() {
    let bench = Bench::new();
    let mut running = start(&bench, SLOT, UNTIL_END);
    bench.await_file("begun");
    let other = Connection::open(bench.database()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    fs::write(bench.path("end"), "").unwrap();
    eventually("the end of the command and its guardian", || (bench.living().len() == 1).then_some(()));
    // The first ends the wait for the record, the next that for what is still under way.
    eventually("the end of lease", || {
        running.signal(Signal::TERM);
        running.has_ended().then_some(())
    });
    let lines = running.wait().expect(69).err;
    assert!(lines.contains("a signal ended the wait") && lines.contains("--rerun"), "{lines}");
    other.execute_batch("COMMIT").unwrap();
    sql(&bench, "UPDATE leases SET expires_at_ms = 0");
    expect_one_rerun(&bench, SLOT);
}

#[test]
fn a_lease_within_a_round_is_not_told_of_its_slot() {
    let bench = Bench::new();
    let script = format!(
        "exec {} run y -- sh -c 'echo $LEASE_NAME ${{LEASE_SLOT-none}} ${{LEASE_RERUN-none}}'",
        crate::bench::lease_file()
    );
    let outcome = start(&bench, SLOT, &script).wait().expect(0);
    assert_eq!(outcome.out, "y none none\n");
}

#[test]
fn slots_that_cannot_be_and_options_that_exclude_each_other_are_wrong_usage() {
    let bench = Bench::new();
    for slot in [
        "",
        "now",
        "0",
        "@",
        "@0",
        "@-1",
        "@1e9",
        "@99999999999999999999",
        "@9223372036854775807",
        "-5",
        "1970-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "10000-01-01T00:00:00Z",
        "2026-01-01T00:00:00",
        "2026-01-01",
        "2016-12-31T23:59:60Z",
        "2026-02-30T00:00:00Z",
    ] {
        let line = bench.run(&["run", "x", "--slot", slot, "--", "touch", "ran"]).expect_line(64);
        assert!(line.contains("--slot"), "{line}");
    }
    for arguments in [
        &["run", "x", "--slot", SLOT, "--rerun", "--", "touch", "ran"][..],
        &["run", "--rerun", "x", "--wait", "1s", "--", "touch", "ran"],
        &["run", "x", "--slot", SLOT, "--slot", NEXT, "--", "touch", "ran"],
        &["run", "--rerun", "--", "touch", "ran"],
        &["run", "x", "--slot", "--", "touch", "ran"],
        &["run", "x", "--slot", "postgres://me:s3cret@h/db", "--", "touch", "ran"],
        &["slots", ""],
        &["slots", "x", "postgres://me:s3cret@h/db"],
    ] {
        let line = bench.run(arguments).expect_line(64);
        assert!(!line.contains("s3cret"), "{line}");
    }
    assert!(!bench.path("ran").exists() && !bench.database().exists());
}
