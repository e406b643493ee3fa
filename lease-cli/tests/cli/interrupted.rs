//! Rounds and what disturbs `lease` before the command runs or after it has ended: signals, and a standard error
//! that nobody reads.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::time::Duration;

use rusqlite::Connection;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::Signal;
use test_servers::Product;

use crate::bench::{Bench, Running, eventually};
use crate::schedule::{
    LAST, NEXT, SLOT, UNTIL_END, expect_no_rerun, expect_one_rerun, expect_state, from_now, slots, sql, start,
};

/// What `lease` logs when a signal has come while a statement is under way.
const SIGNAL_HAS_COME: &str = "a signal has come";

/// A connection that keeps others from writing, but not from reading, until it commits.
fn lock(bench: &Bench) -> Connection {
    let other = Connection::open(bench.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

fn start_logging(bench: &Bench, arguments: &[&str], script: &str) -> Running {
    let arguments = [&["run", "x", "--ttl", "1h"], arguments, &["--", "sh", "-c", script]].concat();
    bench.spawn(bench.lease(&arguments).env("LEASE_LOG", "warn,lease=debug"))
}

#[track_caller]
fn await_said(running: &Running, text: &str) {
    eventually(text, || running.said(text).then_some(()));
}

/// The lines that are no log lines.
fn said(lines: &str) -> Vec<&str> {
    let logged = |line: &str| line.starts_with("lease: DEBUG ") || line.starts_with("lease: INFO ");
    lines.lines().filter(|line| !logged(line)).collect()
}

/// A name with a round that was cut short, on a server where a claim can be held up.
fn with_round_cut_short() -> Bench {
    let bench = Bench::on_server(Product::Postgres);
    start(&bench, SLOT, "kill -KILL $$").wait().expect(137);
    bench
}

/// Starts a claim and does something to it while the database holds up whatever changes the row.
fn claim_held_up(bench: &Bench, arguments: &[&str], then: impl FnOnce(&mut Running)) -> Running {
    let mut claiming = None;
    bench.in_postgres(async |session, table| {
        let hold_up = format!(
            "CREATE FUNCTION pg_temp.hold_up() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN PERFORM pg_advisory_xact_lock(TG_RELID::bigint); RETURN NEW; END';
             CREATE TRIGGER hold_up BEFORE UPDATE ON {table} FOR EACH ROW
                 WHEN (OLD.name = 'x') EXECUTE FUNCTION pg_temp.hold_up();
             SELECT pg_advisory_lock('{table}'::regclass::oid::bigint)"
        );
        session.batch_execute(&hold_up).await?;
        let mut running = start_logging(bench, arguments, "touch ran");
        await_said(&running, "claiming");
        then(&mut running);
        claiming = Some(running);
        session.batch_execute("SELECT pg_advisory_unlock_all()").await?;
        session.batch_execute(&format!("DROP TRIGGER hold_up ON {table}")).await
    });
    claiming.unwrap()
}

#[test]
fn a_round_that_is_granted_after_a_signal_is_cut_short_with_a_word_and_not_begun() {
    let bench = with_round_cut_short();
    let granted_after_signal = |arguments: &[&str]| {
        let running = claim_held_up(&bench, arguments, |running| {
            running.signal(Signal::TERM);
            await_said(running, SIGNAL_HAS_COME);
        });
        let outcome = running.wait().expect(143);
        assert!(!bench.path("ran").exists());
        said(&outcome.err).join("\n")
    };

    let lines = granted_after_signal(&["--slot", NEXT]);
    assert!(lines.contains(&format!("the round of {SLOT} was cut short, and will not be run")), "{lines}");
    let word = format!("\"x\": the round of {NEXT} was cut short before it began; run it once more");
    assert!(lines.contains(&word), "{lines}");
    expect_state(&bench, "cut_short");

    let line = granted_after_signal(&["--rerun"]);
    let word = format!("lease: \"x\": the round of {NEXT} was cut short before it began; run it by hand");
    assert!(line.starts_with(&word) && line.lines().count() == 1, "{line}");
    expect_state(&bench, "cut_short_for_good");

    assert_eq!(granted_after_signal(&["--slot", LAST, "--quiet"]), "");
    expect_state(&bench, "cut_short");
}

#[test]
fn a_second_signal_ends_the_wait_for_the_answer_to_a_claim_and_says_what_may_be() {
    for (arguments, word) in
        [(&["--slot", NEXT][..], "--rerun runs it"), (&["--rerun"], "the rerun may be used up")]
    {
        let bench = with_round_cut_short();
        let running = claim_held_up(&bench, arguments, |running| {
            // The third ends the wait for what is still under way.
            eventually("the end of lease", || {
                running.signal(Signal::TERM);
                running.has_ended().then_some(())
            });
        });
        let lines = running.wait().expect(143).err;
        let lines = said(&lines);
        assert!(lines.len() == 1 && lines[0].contains("a signal ended the wait for the answer"), "{lines:?}");
        assert!(lines[0].contains(word), "{lines:?}");
        assert!(!bench.path("ran").exists());
    }
}

#[test]
fn a_signal_ends_the_waits_between_claims_at_once() {
    let bench = Bench::new();
    let holder = start(&bench, SLOT, UNTIL_END);
    bench.await_file("begun");
    let waiting = start_logging(&bench, &["--slot", NEXT, "--wait", "1h"], "touch ran");
    await_said(&waiting, "held; asking again");
    waiting.signal(Signal::TERM);
    let outcome = waiting.wait().expect(143);
    assert!(said(&outcome.err).is_empty(), "{outcome:?}");
    fs::write(bench.path("end"), "").unwrap();
    holder.wait().expect(0);

    let ahead = from_now(Duration::from_secs(3_000));
    let waiting = start_logging(&bench, &["--slot", &ahead, "--wait", "1h"], "touch ran");
    await_said(&waiting, "has not come");
    waiting.signal(Signal::TERM);
    let outcome = waiting.wait().expect(143);
    assert!(said(&outcome.err).is_empty(), "{outcome:?}");
    assert!(!bench.path("ran").exists());
}

#[test]
fn a_signal_after_the_command_has_ended_changes_nothing_if_the_end_is_recorded() {
    let bench = Bench::new();
    let running = start_logging(&bench, &["--slot", SLOT], UNTIL_END);
    bench.await_file("begun");
    let other = lock(&bench);
    fs::write(bench.path("end"), "").unwrap();
    await_said(&running, "recording the end");
    running.signal(Signal::TERM);
    await_said(&running, SIGNAL_HAS_COME);
    other.execute_batch("COMMIT").unwrap();
    let outcome = running.wait().expect(0);
    assert!(said(&outcome.err).is_empty(), "{outcome:?}");
    expect_state(&bench, "finished");
    expect_no_rerun(&bench);
}

#[test]
fn a_second_signal_ends_the_wait_for_a_database_that_does_not_record_the_end() {
    let bench = Bench::new();
    let mut running = start(&bench, SLOT, UNTIL_END);
    bench.await_file("begun");
    let other = lock(&bench);
    fs::write(bench.path("end"), "").unwrap();
    eventually("the end of the command and its guardian", || (bench.living().len() == 1).then_some(()));
    // The third ends the wait for what is still under way.
    eventually("the end of lease", || {
        running.signal(Signal::TERM);
        running.has_ended().then_some(())
    });
    let line = running.wait().expect_line(69);
    assert!(line.contains("whether it is recorded is unknown"), "{line}");
    assert!(line.contains("`lease slots`") && line.contains("--rerun"), "{line}");
    other.execute_batch("COMMIT").unwrap();
    sql(&bench, "UPDATE leases SET expires_at_ms = 0");
    expect_one_rerun(&bench, SLOT);
}

/// A pipe that takes nothing more until it is read.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    while writer.write(b".").is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer)
}

#[test]
fn a_standard_error_that_nobody_reads_keeps_no_round_from_its_end() {
    let bench = Bench::new();
    start(&bench, SLOT, "kill -KILL $$").wait().expect(137);
    let (mut reader, writer) = full_pipe();
    let mut command = bench.lease(&["run", "x", "--slot", NEXT, "--", "sh", "-c", "echo x >begun"]);
    let mut child = command.stderr(writer).spawn().unwrap();
    // The pipe ends with the processes that were given it.
    drop(command);
    bench.await_file("begun");
    eventually("the end of the round", || (slots(&bench)["slot_state"] == "finished").then_some(()));
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let line = text.trim_start_matches('.');
    assert!(line.contains(&format!("the round of {SLOT} was cut short")) && line.contains(NEXT), "{line}");
}
