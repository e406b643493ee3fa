//! Commands at a terminal, made by `script` from util-linux.

use std::io::Write;
use std::process::{ChildStdin, Stdio};

use crate::bench::{Bench, Running, eventually, lease_file};

/// Runs `lease run x -- COMMAND` as the foreground job of a terminal. What it shows goes to the file `screen`.
fn at_terminal(bench: &Bench, command: &str) -> (Running, ChildStdin) {
    let line = format!("exec {} run x -- {command}", lease_file());
    let mut script = bench.command("script");
    script.args(["--quiet", "--return", "--flush", "--command", &line, "screen"]).stdin(Stdio::piped());
    let mut running = bench.spawn(&mut script);
    let keys = running.take_stdin();
    (running, keys)
}

fn await_screen(bench: &Bench, text: &str) {
    eventually(&format!("{text:?} on the screen"), || {
        bench.await_file("screen").contains(text).then_some(())
    });
}

#[test]
fn a_command_reads_from_the_terminal() {
    let bench = Bench::new();
    let (running, mut keys) = at_terminal(&bench, r#"sh -c 'read line; echo "got <$line>"'"#);
    keys.write_all(b"hello\n").unwrap();
    running.wait().expect(0);
    await_screen(&bench, "got <hello>");
}

#[test]
fn control_c_reaches_a_command_that_reads_and_one_that_does_not() {
    for command in ["cat", "sleep 1000"] {
        let bench = Bench::new();
        let (running, mut keys) = at_terminal(&bench, &format!("sh -c 'echo begun; exec {command}'"));
        await_screen(&bench, "begun");
        keys.write_all(b"\x03").unwrap();
        running.wait().expect(130);
        assert_eq!(bench.status("x")["lease"]["state"], "released");
    }
}

#[test]
fn the_terminal_is_given_back_to_who_reads_after_lease() {
    let bench = Bench::new();
    let inner = format!("{} run x -- sh -c 'read a; echo \"first <$a>\"'", lease_file());
    let line = format!("{inner}; read b; echo \"second <$b>\"");
    let mut script = bench.command("script");
    script.args(["--quiet", "--return", "--flush", "--command", &line, "screen"]).stdin(Stdio::piped());
    let mut running = bench.spawn(&mut script);
    let mut keys = running.take_stdin();
    keys.write_all(b"one\n").unwrap();
    await_screen(&bench, "first <one>");
    keys.write_all(b"two\n").unwrap();
    running.wait().expect(0);
    await_screen(&bench, "second <two>");
}
