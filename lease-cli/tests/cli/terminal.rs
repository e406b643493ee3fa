//! Commands at a terminal, made by `script` from util-linux.

use std::io::Write;
use std::process::{ChildStdin, Stdio};

use crate::bench::{Bench, Running, eventually, lease_file};

/// Runs a line of shell at a terminal. What it shows goes to the file `screen`.
pub(crate) fn at_terminal(bench: &Bench, line: &str) -> (Running, ChildStdin) {
    let mut script = bench.command("script");
    script.args(["--quiet", "--return", "--flush", "--command", line, "screen"]);
    script.env("LEASE", lease_file()).stdin(Stdio::piped());
    let mut running = bench.spawn(&mut script);
    let keys = running.take_stdin();
    (running, keys)
}

pub(crate) fn await_screen(bench: &Bench, text: &str, times: usize) {
    eventually(&format!("{text:?} on the screen, {times} times"), || {
        (bench.await_file("screen").matches(text).count() >= times).then_some(())
    });
}

#[test]
fn a_command_reads_from_the_terminal() {
    let bench = Bench::new();
    let line = r#"exec "$LEASE" run x --ttl 1h -- sh -c 'read line; echo "got <$line>"'"#;
    let (running, mut keys) = at_terminal(&bench, line);
    keys.write_all(b"hello\n").unwrap();
    running.wait().expect(0);
    await_screen(&bench, "got <hello>", 1);
}

#[test]
fn control_c_reaches_a_command_that_reads_and_one_that_does_not() {
    for command in ["cat", "sleep 1000"] {
        let bench = Bench::new();
        let line = format!(r#"exec "$LEASE" run x --ttl 1h -- sh -c 'echo begun; exec {command}'"#);
        let (running, mut keys) = at_terminal(&bench, &line);
        await_screen(&bench, "begun", 1);
        keys.write_all(b"\x03").unwrap();
        running.wait().expect(130);
        assert_eq!(bench.status("x")["lease"]["state"], "released");
    }
}

#[test]
fn the_terminal_is_given_back_to_who_reads_after_lease() {
    let bench = Bench::new();
    let line = r#""$LEASE" run x --ttl 1h -- sh -c 'read a; echo "first <$a>"'; read b; echo "second <$b>""#;
    let (running, mut keys) = at_terminal(&bench, line);
    keys.write_all(b"one\n").unwrap();
    await_screen(&bench, "first <one>", 1);
    keys.write_all(b"two\n").unwrap();
    running.wait().expect(0);
    await_screen(&bench, "second <two>", 1);
}

#[test]
fn a_pager_beside_lease_keeps_the_terminal() {
    let bench = Bench::new();
    let line = r#""$LEASE" run x --ttl 1h -- sleep 1000 | sh -c 'read key </dev/tty; echo "key <$key>"'"#;
    let (running, mut keys) = at_terminal(&bench, line);
    bench.await_command("sleep 1000");
    keys.write_all(b"q\n").unwrap();
    await_screen(&bench, "key <q>", 1);
    drop(running);
}

#[test]
fn control_z_stops_lease_and_command_as_one_job_and_fg_continues_both() {
    let bench = Bench::new();
    let (running, mut keys) = at_terminal(&bench, "sh -i");
    keys.write_all(b"\"$LEASE\" run x --ttl 1h -- cat\n").unwrap();
    bench.await_command("cat");
    keys.write_all(b"one\n").unwrap();
    await_screen(&bench, "one", 2);
    keys.write_all(b"\x1a").unwrap();
    await_screen(&bench, "Stopped", 1);
    keys.write_all(b"fg\ntwo\n").unwrap();
    await_screen(&bench, "two", 2);
    keys.write_all(b"\x04").unwrap();
    keys.write_all(b"echo code $?\n").unwrap();
    await_screen(&bench, "code 0", 1);
    assert_eq!(bench.status("x")["lease"]["state"], "released");
    drop(running);
}

#[test]
fn control_z_stops_nothing_where_no_shell_could_continue_it() {
    let bench = Bench::new();
    let (running, mut keys) = at_terminal(&bench, r#"exec "$LEASE" run x --ttl 1h -- cat"#);
    keys.write_all(b"one\n").unwrap();
    await_screen(&bench, "one", 2);
    keys.write_all(b"\x1a").unwrap();
    await_screen(&bench, "^Z", 1);
    keys.write_all(b"two\n").unwrap();
    await_screen(&bench, "two", 2);
    keys.write_all(b"\x04").unwrap();
    running.wait().expect(0);
}
