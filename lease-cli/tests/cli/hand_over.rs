//! Names that are freed by an operator, or handed over by their holder.

use std::fs;
use std::io::Write;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use test_servers::Product;
use tokio::time::sleep;

use crate::bench::{Bench, Running, eventually, lease_file};
use crate::schedule::{SLOT, expect_one_rerun, sql};
use crate::terminal::{at_terminal, await_screen};

fn hold(bench: &Bench, ttl: &str, command: &[&str]) -> Running {
    bench.run(&["migrate"]).expect(0);
    let holder = bench.start(&[&["run", "x", "--ttl", ttl, "--"], command].concat());
    eventually("the lease", || (bench.status("x")["lease"]["state"] == "held").then_some(()));
    holder
}

#[test]
fn a_lease_whose_holder_lives_is_not_cleared() {
    let bench = Bench::new();
    let holder = hold(&bench, "1h", &["sleep", "1000"]);
    // A wait that cannot prove it is not begun.
    for wait in [&[][..], &["--wait", "59m"]] {
        let line = bench.run(&[&["clear", "x"], wait].concat()).expect_line(75);
        assert!(line.contains(&format!(":{} since 20", holder.pid())), "{line}");
        assert!(line.contains("`lease resign`") && line.contains("--wait, which takes 1h"), "{line}");
    }
    let outcome = bench.run(&["clear", "x", "--json"]).expect(75);
    let answer: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!((&answer["cleared"], &answer["lease"]["state"]), (&false.into(), &"held".into()), "{answer}");
    assert_eq!(bench.status("x")["lease"]["state"], "held");
}

#[test]
fn a_lease_whose_holder_was_killed_on_this_host_is_cleared_and_said_to_be_free_from_then_on() {
    let bench = Bench::new();
    let holder = hold(&bench, "1h", &["sleep", "1000"]);
    let pid = holder.pid();
    holder.signal(Signal::KILL);
    assert_eq!(holder.wait().code, None);
    eventually("the end of the guardian", || bench.living().is_empty().then_some(()));
    bench.run(&["clear", "x", "--no-probe"]).expect_line(75);
    let outcome = eventually("the name to be freed", || {
        // The guardian may not have been reaped yet.
        let outcome = bench.run(&["clear", "x", "--json"]);
        (outcome.code != Some(75)).then_some(outcome)
    });
    let answer: Value = serde_json::from_str(&outcome.expect(0).out).unwrap();
    let instance = answer["lease"]["instance"].as_str().unwrap();
    assert!(answer["cleared"] == true && instance.ends_with(&format!(":{pid}")), "{answer}");
    assert_eq!(bench.status("x")["lease"]["state"], "released");
    let said = |name: &str| bench.run(&["clear", name]).expect(0).out;
    assert!(said("x").contains("was free: it had been given back"), "{}", said("x"));
    assert!(said("never").contains("was never claimed"), "{}", said("never"));
}

/// A row that no clock of a database would let expire, of a holder of which nothing is known.
fn strand(bench: &Bench) {
    bench.run(&["run", "x", "--ttl", "1s", "--", "true"]).expect(0);
    sql(bench, "UPDATE leases SET expires_at_ms = 32503680000000, process = ''");
}

#[test]
fn a_lease_that_nobody_renews_while_it_is_watched_is_cleared_whatever_the_databases_clock_says() {
    let bench = Bench::new();
    strand(&bench);
    bench.run(&["clear", "x"]).expect_line(75);
    let outcome = bench.run(&["clear", "x", "--wait"]).expect(0);
    assert!(outcome.out.contains("\"x\" is freed: ") && outcome.err.is_empty(), "{outcome:?}");
    assert_eq!(bench.status("x")["lease"]["state"], "released");
}

#[test]
fn a_lease_that_is_renewed_while_it_is_watched_is_not_cleared() {
    let bench = Bench::new();
    strand(&bench);
    let mut clearing = bench.start(&["clear", "x", "--wait"]);
    eventually("the refusal", || {
        sql(&bench, "UPDATE leases SET expires_at_ms = expires_at_ms + 1");
        clearing.has_ended().then_some(())
    });
    let line = clearing.wait().expect_line(75);
    assert!(line.contains("it was renewed while it was watched"), "{line}");
    assert_eq!(bench.status("x")["lease"]["state"], "held");
}

#[test]
fn whoever_watches_at_a_terminal_sees_it_go_on_and_can_end_it() {
    let bench = Bench::new();
    let holder = hold(&bench, "1h", &["sleep", "1000"]);
    let (running, mut keys) = at_terminal(&bench, r#"exec "$LEASE" clear x --wait"#);
    await_screen(&bench, "watching \"x\" for a renewal: ", 1);
    keys.write_all(b"\x03").unwrap();
    running.wait().expect(130);
    drop(holder);
}

#[test]
fn a_holder_that_is_asked_to_step_down_ends_its_command_as_a_signal_would_and_gives_the_name_back() {
    let bench = Bench::new();
    let script = "trap 'echo >asked; exit 3' TERM; echo >begun; while :; do sleep 0.05; done";
    let holder = hold(&bench, "6s", &["sh", "-c", script]);
    bench.await_file("begun");
    let waiter = bench.start(&["run", "x", "--ttl", "6s", "--wait", "10m", "--", "sleep", "1000"]);
    let outcome = bench.run(&["resign", "x", "--wait", "10m"]).expect(0);
    let lines: Vec<&str> = outcome.out.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains(&format!(":{} to step down", holder.pid())), "{outcome:?}");
    assert!(lines[1].starts_with("\"x\" is "), "{outcome:?}");
    // The shell may have a word to say too.
    let lines = holder.wait().expect(3).err;
    assert!(lines.contains("its holder was asked to step down; the command gets SIGTERM"), "{lines}");
    bench.await_file("asked");
    bench.await_command("sleep 1000");
    assert_eq!(bench.term("x"), 2);
    drop(waiter);
}

/// The one that stepped down is started again at once, and the other does not hear of it but looks now and then.
#[test]
fn a_name_that_was_asked_for_does_not_bounce_back_between_two_loops() {
    let bench = Bench::on_server(Product::MariaDb);
    bench.run(&["migrate"]).expect(0);
    let (lease, table) = (lease_file(), bench.table());
    let start = |who: &str, ttl: &str| {
        let script = format!(
            "while ! [ -e end ]; do
                 {lease} run x --table {table} --ttl {ttl} --wait 10m -- \\
                     sh -c 'echo {who} $LEASE_TERM >>leaders; exec sleep 1000'
             done"
        );
        bench.spawn(bench.command("sh").args(["-c", &script]))
    };
    let leaders = |count: usize| {
        eventually("the next leader", || {
            let leaders = bench.await_file("leaders");
            (leaders.lines().count() >= count).then_some(leaders)
        })
    };
    // It stands aside for 12 s, in which the other looks every 2 s.
    let first = start("a", "30s");
    leaders(1);
    let second = start("b", "6s");
    eventually("two guardians", || (bench.guardians().len() == 2).then_some(()));
    bench.run(&["resign", "x"]).expect(0);
    assert_eq!(leaders(2), "a 1\nb 2\n");
    fs::write(bench.path("end"), "").unwrap();
    drop((first, second));
}

#[test]
fn whoever_listens_for_a_name_hears_that_it_was_cleared() {
    let bench = Bench::on_server(Product::Postgres);
    let holder = hold(&bench, "1h", &["sleep", "1000"]);
    holder.signal(Signal::KILL);
    assert_eq!(holder.wait().code, None);
    eventually("the end of the guardian", || bench.living().is_empty().then_some(()));
    // By itself it looks every 20 minutes.
    let words = ["run", "x", "--no-probe", "--ttl", "1h", "--wait", "2h", "--", "printenv", "LEASE_TERM"];
    let joint = if bench.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{joint}application_name={}", bench.url(), bench.table());
    let waiter = bench.spawn(bench.lease(&words).env("LEASE_DATABASE_URL", url));
    bench.in_postgres(async |session, table| {
        // One claims, and one listens.
        let idle = "SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND state = 'idle'";
        while session.query(idle, &[&table]).await?.len() < 2 {
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    });
    eventually("the name to be freed", || (bench.run(&["clear", "x"]).code == Some(0)).then_some(()));
    assert_eq!(waiter.wait().expect(0).out, "2\n");
}

#[test]
fn a_request_to_step_down_that_asks_nobody_or_is_not_heeded_says_so() {
    let bench = Bench::new();
    bench.run(&["migrate"]).expect(0);
    assert!(bench.run(&["resign", "x", "--wait", "1h"]).expect(0).out.contains("nobody is asked"));
    let holder = hold(&bench, "1h", &["sleep", "1000"]);
    let outcome = bench.run(&["resign", "x", "--wait", "100ms"]).expect(75);
    assert!(outcome.out.contains("asked ") && outcome.err.contains("has not in 100 ms"), "{outcome:?}");
    assert!(bench.run(&["status", "x"]).expect(0).out.contains("step-down: asked\n"));
    drop(holder);
}

#[test]
fn a_round_whose_holder_steps_down_is_cut_short() {
    let bench = Bench::new();
    let holder = bench.start(&["run", "x", "--slot", SLOT, "--ttl", "3s", "--", "sleep", "1000"]);
    bench.await_command("sleep 1000");
    bench.run(&["resign", "x"]).expect(0);
    let lines = holder.wait().expect(143).err;
    assert!(lines.contains("asked to step down") && lines.contains("cut short"), "{lines}");
    expect_one_rerun(&bench, SLOT);
}
