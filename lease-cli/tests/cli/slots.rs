//! Claims of instants: `lease run --slot`, `lease run --rerun`.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use crate::bench::{Bench, Running, eventually};
use crate::schedule::{
    LAST, NEXT, SLOT, UNTIL_END, expect_no_rerun, expect_nothing, expect_state, from_now, sql, start,
};

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
fn while_a_round_runs_its_rerun_is_refused_with_the_holder_and_while_its_rerun_runs_there_is_none() {
    let bench = Bench::new();
    let refused =
        |more: &[&str]| bench.run(&[&["run", "--rerun", "x"], more, &["--", "touch", "ran"]].concat());
    let expect_refusal = |holder: &Running| {
        let line = refused(&[]).expect_line(75);
        assert!(line.contains(&format!("not rerun for {SLOT}: \"x\" is held by")), "{line}");
        assert!(line.contains(&format!(":{} since", holder.pid())), "{line}");
        assert!(line.contains("if that round is cut short, --rerun runs it then"), "{line}");
        refused(&["--held-exit", "9"]).expect_line(9);
        assert_eq!(refused(&["--quiet"]).expect(75).err, "");
    };
    let running = start(&bench, SLOT, UNTIL_END);
    bench.await_file("begun");
    expect_state(&bench, "running");
    expect_refusal(&running);
    running.signal(Signal::TERM);
    running.wait().expect(143);
    fs::remove_file(bench.path("begun")).unwrap();

    // Cut short, but held by somebody else.
    let plain = bench.start(&["run", "x", "--ttl", "1h", "--", "sh", "-c", UNTIL_END]);
    bench.await_file("begun");
    expect_refusal(&plain);
    plain.signal(Signal::TERM);
    plain.wait().expect(143);
    fs::remove_file(bench.path("begun")).unwrap();

    let rerun = bench.start(&["run", "--rerun", "x", "--ttl", "1h", "--", "sh", "-c", UNTIL_END]);
    bench.await_file("begun");
    expect_no_rerun(&bench);
    fs::write(bench.path("end"), "").unwrap();
    rerun.wait().expect(0);
    expect_no_rerun(&bench);
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
