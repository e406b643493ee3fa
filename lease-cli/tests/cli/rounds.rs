//! How a round ends: it has run to its end, or it was cut short and is run once more.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::bench::{Bench, eventually};
use crate::schedule::{
    LAST, NEXT, SLOT, UNTIL_END, expect_no_rerun, expect_one_rerun, expect_state, slots, sql, start,
};

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
fn after_sigkill_of_lease_on_this_host_its_round_is_run_once_more_without_waiting_for_its_ttl() {
    let bench = Bench::new();
    let running = start(&bench, SLOT, "exec sleep 1000");
    bench.await_command("sleep 1000");
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, None);
    eventually("the end of the guardian", || bench.living().is_empty().then_some(()));
    let rerun = ["run", "--rerun", "x", "--quiet", "--held-exit", "99"];
    bench.run(&[&rerun[..], &["--no-probe", "--", "touch", "ran"]].concat()).expect(99);
    let script = r#"echo "$LEASE_SLOT $LEASE_RERUN""#;
    let outcome = eventually("the rerun", || {
        // The guardian may not have been reaped yet.
        let outcome = bench.run(&[&rerun[..], &["--", "sh", "-c", script]].concat());
        (outcome.code != Some(99)).then_some(outcome)
    });
    assert_eq!(outcome.expect(0).out, format!("{SLOT} 1\n"));
    assert!(!bench.path("ran").exists());
    expect_no_rerun(&bench);
    expect_state(&bench, "finished");
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
