//! No process of the command is left when another claim succeeds, whatever happens to `lease`.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use lease_core::{Clock, SystemClock};
use rusqlite::Connection;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bench::{Bench, Process, Running, eventually};

/// The ttl of these tests, and how much later than it a successor may come: it looks at the row when
/// it expires, but a busy machine may take its time.
const TTL: &str = "3s";
const TTL_MS: i64 = 3_000;
const SLACK_MS: i64 = 20_000;

const COMMAND: [&str; 3] = ["sh", "-c", "sleep 1000 & sleep 1001"];

fn start(bench: &Bench, ttl: &str, command: &[&str]) -> Running {
    bench.start(&[&["run", "x", "--ttl", ttl, "--"], command].concat())
}

/// Starts [`COMMAND`] and answers its processes too.
fn start_with_children(bench: &Bench, ttl: &str) -> (Running, Vec<Process>) {
    let running = start(bench, ttl, &COMMAND);
    bench.await_command("sleep 1000");
    bench.await_command("sleep 1001");
    (running, bench.commands())
}

/// Waits for the lease as a successor, whose command says which of these processes are left.
fn succeed(bench: &Bench, family: &[Process]) -> Value {
    let before = bench.status("x")["lease"].clone();
    let stats: Vec<String> = family.iter().map(|process| format!("/proc/{}/stat", process.pid())).collect();
    let script = format!("cat {} 2>/dev/null; true", stats.join(" "));
    let arguments = ["run", "x", "--ttl", TTL, "--wait", "10m", "--", "sh", "-c", &script];
    let outcome = bench.run(&arguments).expect(0);
    let left: Vec<&str> = outcome.out.lines().filter(|stat| !stat.contains(") Z ")).collect();
    assert!(left.is_empty(), "left when the successor began: {left:?}");

    let after = bench.status("x")["lease"].clone();
    assert_eq!(after["term"].as_i64().unwrap(), before["term"].as_i64().unwrap() + 1);
    let waited = after["claimed_at_ms"].as_i64().unwrap() - before["renewed_at_ms"].as_i64().unwrap();
    assert!(waited <= TTL_MS + SLACK_MS, "{waited} ms from the last renewal to the next claim");
    after
}

#[test]
fn after_sigkill_of_lease_nothing_of_its_command_is_left() {
    let bench = Bench::new();
    let (running, family) = start_with_children(&bench, TTL);
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, None);
    succeed(&bench, &family);
    assert!(bench.living().is_empty(), "{:?}", bench.living());
}

#[test]
fn after_sigstop_of_lease_nothing_of_its_command_is_left_and_going_on_it_exits_70() {
    let bench = Bench::new();
    let (running, family) = start_with_children(&bench, TTL);
    running.signal(Signal::STOP);
    succeed(&bench, &family);
    running.signal(Signal::CONT);
    // A renewal that was under way when it was stopped may be logged as failed.
    let lines = running.wait().expect(70).err;
    assert!(lines.contains("lost \"x\" (term 1)"), "{lines}");
    assert!(bench.living().is_empty(), "{:?}", bench.living());
}

#[test]
fn after_sigkill_of_lease_its_command_does_not_go_on_to_the_deadline() {
    let bench = Bench::new();
    let running = start(&bench, "1h", &["sleep", "1000"]);
    let command = bench.await_command("sleep 1000");
    running.signal(Signal::KILL);
    eventually("the end of the command", || (!command.lives()).then_some(()));
}

#[test]
fn a_command_deaf_to_sigterm_is_killed_all_the_same() {
    for signal in [Signal::KILL, Signal::STOP] {
        let bench = Bench::new();
        let script = "trap '' TERM HUP INT; sleep 1000 & echo >begun; while :; do sleep 1; done";
        let running = start(&bench, TTL, &["sh", "-c", script]);
        bench.await_file("begun");
        bench.await_command("sleep 1000");
        let family = bench.commands();
        assert!(family.len() >= 2, "{family:?}");
        running.signal(signal);
        succeed(&bench, &family);
        drop(running);
    }
}

/// `pkill` looks for a name anywhere in this.
#[test]
fn a_guardian_does_not_go_by_the_name_of_lease() {
    let bench = Bench::new();
    let (running, _) = start_with_children(&bench, "1h");
    let name = fs::read_to_string(format!("/proc/{}/comm", bench.await_guardian().pid())).unwrap();
    assert_eq!(name, "run-guardian\n");
    drop(running);
}

#[test]
fn when_the_guardian_is_killed_the_command_is_too_and_the_lease_given_back() {
    let bench = Bench::new();
    let (running, _) = start_with_children(&bench, "1h");
    bench.await_guardian().signal(Signal::KILL);
    let line = running.wait().expect_line(70);
    assert!(line.contains("guardian"), "{line}");
    assert!(bench.living().is_empty(), "{:?}", bench.living());
    assert_eq!(bench.status("x")["lease"]["state"], "released");
}

#[test]
fn when_lease_and_guardian_are_killed_at_once_the_command_is_too() {
    let bench = Bench::new();
    let running = start(&bench, "1h", &["sleep", "1000"]);
    let guardian = bench.await_guardian();
    let command = bench.await_command("sleep 1000");
    running.signal(Signal::STOP);
    guardian.signal(Signal::KILL);
    running.signal(Signal::KILL);
    eventually("the end of the command", || (!command.lives()).then_some(()));
}

/// Takes the lease away, as somebody does who clears the row of a holder believed dead.
fn take_away(bench: &Bench) {
    let database = Connection::open(bench.database()).unwrap();
    let taken = database.execute("UPDATE leases SET holder = 'ffffffffffffffffffffffffffffffff'", []);
    assert_eq!(taken.unwrap(), 1);
}

#[test]
fn at_the_loss_the_command_is_asked_to_end_and_lease_exits_70_whatever_it_answers() {
    let bench = Bench::new();
    let script = "trap 'echo >asked; exit 0' TERM; echo >begun; while :; do sleep 0.05; done";
    let running = start(&bench, "15s", &["sh", "-c", script]);
    bench.await_file("begun");
    take_away(&bench);
    // The shell may have a word to say too.
    let lines = running.wait().expect(70).err;
    let ours: Vec<&str> = lines.lines().filter(|line| line.starts_with("lease: ")).collect();
    assert!(ours.len() == 1 && ours[0].contains("lost \"x\" (term 1)"), "{lines}");
    bench.await_file("asked");
    assert!(bench.living().is_empty(), "{:?}", bench.living());
}

#[test]
fn a_stopped_guardian_does_not_keep_the_command_alive_after_the_loss() {
    let bench = Bench::new();
    let (running, _) = start_with_children(&bench, "15s");
    bench.await_guardian().signal(Signal::STOP);
    take_away(&bench);
    running.wait().expect_line(70);
    assert!(bench.living().is_empty(), "{:?}", bench.living());
}

/// One that waits behind a holder, and its guardian, which is idle.
fn wait_behind(bench: &Bench) -> (Running, Process) {
    let guardian = bench.await_guardian();
    let arguments =
        ["run", "x", "--slot", "@1577836860", "--ttl", "3s", "--wait", "1h", "--", "touch", "ran"];
    let waiter = bench.spawn(bench.lease(&arguments).env("LEASE_LOG", "warn,lease=debug"));
    eventually("a first claim", || waiter.said("held; asking again").then_some(()));
    let idle = bench.guardians().into_iter().find(|process| process.pid() != guardian.pid()).unwrap();
    (waiter, idle)
}

#[test]
fn a_wait_whose_guardian_is_killed_ends_and_has_claimed_nothing() {
    let bench = Bench::new();
    let holder = start(&bench, "1h", &["sleep", "1000"]);
    bench.await_command("sleep 1000");
    let (waiter, guardian) = wait_behind(&bench);
    guardian.signal(Signal::KILL);
    let lines = waiter.wait().expect(71).err;
    assert!(lines.contains("nothing was run"), "{lines}");
    assert_eq!(bench.status("x")["lease"]["slot"], Value::Null);
    drop(holder);
}

#[test]
fn a_guardian_that_is_stopped_before_it_starts_the_command_does_not_hold_the_name() {
    let bench = Bench::new();
    let holder = start(&bench, "1h", &["sleep", "1000"]);
    bench.await_command("sleep 1000");
    let (waiter, guardian) = wait_behind(&bench);
    guardian.signal(Signal::STOP);
    holder.signal(Signal::TERM);
    holder.wait().expect(143);
    let lines = waiter.wait().expect(71).err;
    assert!(lines.contains("stopped or killed before it started the command"), "{lines}");
    assert!(bench.living().is_empty() && !bench.path("ran").exists(), "{:?}", bench.living());
    let lease = &bench.status("x")["lease"];
    assert_eq!((&lease["state"], &lease["slot_state"]), (&"released".into(), &"cut_short".into()));
}

#[test]
fn a_signal_reaches_the_command_of_a_guardian_that_is_stopped() {
    let bench = Bench::new();
    let (running, _) = start_with_children(&bench, "1h");
    bench.await_guardian().signal(Signal::STOP);
    running.signal(Signal::TERM);
    running.wait().expect(143);
}

#[test]
fn a_command_that_leaves_its_group_is_still_guarded_itself() {
    let bench = Bench::new();
    let running = start(&bench, "1h", &["setsid", "sleep", "1000"]);
    bench.await_command("sleep 1000");
    running.signal(Signal::TERM);
    running.wait().expect(143);

    let running = start(&bench, "1h", &["setsid", "sleep", "1000"]);
    let command = bench.await_command("sleep 1000");
    running.signal(Signal::KILL);
    eventually("the end of the command", || (!command.lives()).then_some(()));
}

/// Starts a guardian of `sleep 1000`, tells it that there is a lease, and answers our end of its socket.
fn start_guardian(bench: &Bench) -> (Running, UnixStream) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    fcntl_setfd(&theirs, FdFlags::empty()).unwrap();
    let mut command = bench.command(crate::bench::lease_file());
    command.args(["__guardian", &theirs.as_raw_fd().to_string(), "10000000000", "sleep", "sleep", "1000"]);
    let guardian = bench.spawn(command.process_group(0));
    // A lease without a variable for the command.
    ours.write_all(&[&b"V"[..], &[0; 8]].concat()).unwrap();
    (guardian, ours)
}

/// The order to believe the lease for so long from now.
fn believe_for(time: Duration) -> Vec<u8> {
    let deadline = SystemClock::shared().unwrap().now().since_zero() + time;
    [&b"B"[..], &u64::try_from(deadline.as_nanos()).unwrap().to_le_bytes()].concat()
}

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn a_guardian_that_hears_of_no_renewal_says_so_and_ends_the_command() {
    let bench = Bench::new();
    let (guardian, mut socket) = start_guardian(&bench);
    socket.write_all(&believe_for(HOUR)).unwrap();
    let mut started = [0; 9];
    socket.read_exact(&mut started).unwrap();
    assert_eq!(started[0], b's');

    socket.write_all(&believe_for(Duration::from_millis(100))).unwrap();
    let mut reports = Vec::new();
    socket.read_to_end(&mut reports).unwrap();
    guardian.wait();
    let kinds: String = reports.chunks(9).map(|frame| char::from(frame[0])).collect();
    assert_eq!(kinds, "le", "lost, ended, in this order");
}

#[test]
fn a_guardian_whose_lease_ends_before_it_has_one_starts_nothing_and_ends() {
    for said in [&b""[..], b"V", &believe_for(HOUR)[..]] {
        let bench = Bench::new();
        let (ours, theirs) = UnixStream::pair().unwrap();
        fcntl_setfd(&theirs, FdFlags::empty()).unwrap();
        let mut command = bench.command(crate::bench::lease_file());
        command.args(["__guardian", &theirs.as_raw_fd().to_string(), "10000000000", "touch", "touch", "ran"]);
        let guardian = bench.spawn(command.process_group(0));
        drop(theirs);
        (&ours).write_all(said).unwrap();
        drop(ours);
        guardian.wait();
        assert!(!bench.path("ran").exists(), "{said:?}");
    }
}

#[test]
fn a_signal_to_be_passed_on_waits_for_the_command_to_be_started() {
    let bench = Bench::new();
    let (guardian, mut socket) = start_guardian(&bench);
    let term = [&b"S"[..], &15_u64.to_le_bytes()].concat();
    socket.write_all(&[believe_for(HOUR), term].concat()).unwrap();
    let mut reports = Vec::new();
    socket.read_to_end(&mut reports).unwrap();
    guardian.wait();
    assert_eq!(reports, [&b"s"[..], &[0; 8], b"e", &15_u64.to_le_bytes()].concat());
}

/// Needs root: a file with its rights lets a process of the command become another user's.
#[test]
fn processes_that_cannot_be_killed_are_waited_for_until_a_signal_and_the_lease_is_not_given_back() {
    if !rustix::process::geteuid().is_root() {
        eprintln!(
            "not shown: only root can make a process that its own user cannot kill; run the tests as root"
        );
        return;
    }
    let bench = Bench::new();
    let setpriv = bench.path("setpriv");
    fs::copy("/usr/bin/setpriv", &setpriv).unwrap();
    fs::set_permissions(&setpriv, fs::Permissions::from_mode(0o4755)).unwrap();
    let script = "./setpriv --reuid 1 --clear-groups sh -c 'echo $$ >other; exec sleep 1000' & wait";
    let script = format!(": >other; chmod 666 other; {script}");
    let mut command = bench.unprivileged(&["run", "x", "--ttl", "1h", "--", "sh", "-c", &script]);
    fs::set_permissions(bench.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let running = bench.spawn(&mut command);
    let other = bench.await_file("other");
    // Sooner than the grace.
    bench.await_guardian().signal(Signal::KILL);
    eventually("a word of it", || running.said("could not be killed").then_some(()));
    running.signal(Signal::TERM);
    running.wait().expect(143);
    assert_eq!(bench.status("x")["lease"]["state"], "held");
    let other = Pid::from_raw(other.trim().parse().unwrap()).unwrap();
    kill_process(other, Signal::KILL).unwrap();
}

#[test]
fn a_member_of_the_group_whose_parent_has_left_it_is_ended_too() {
    let bench = Bench::new();
    // The parent of `sleep 1002` starts a session of its own.
    let script = "((trap '' TERM; exec sleep 1002) & exec setsid sleep 1001) & exec sleep 1000";
    let running = start(&bench, "1h", &["sh", "-c", script]);
    let commands = ["sleep 1000", "sleep 1001", "sleep 1002"].map(|line| bench.await_command(line));
    running.signal(Signal::KILL);
    for member in [&commands[0], &commands[2]] {
        eventually("the end of the group", || (!member.lives()).then_some(()));
    }
}

#[test]
fn signals_are_passed_on_again_and_again_while_renewals_go_on_until_the_command_has_ended() {
    let bench = Bench::new();
    let script = "trap 'echo x >>asked' TERM; echo >begun; while ! [ -e end ]; do sleep 0.05; done; exit 5";
    let arguments = ["run", "x", "--ttl", "6s", "--", "sh", "-c", script];
    let mut running = bench.start(&arguments);
    bench.await_file("begun");
    let lease = || bench.status("x")["lease"].clone();
    running.signal(Signal::TERM);
    bench.await_file("asked");
    let asked_at = lease()["renewed_at_ms"].as_i64().unwrap();
    eventually("renewals for longer than a ttl after the signal", || {
        assert!(!running.has_ended());
        (lease()["renewed_at_ms"].as_i64().unwrap() > asked_at + 6_500).then_some(())
    });
    assert_eq!(bench.term("x"), 1);
    assert_eq!(bench.await_file("asked"), "x\n");
    running.signal(Signal::TERM);
    eventually("the second signal", || (bench.await_file("asked") == "x\nx\n").then_some(()));
    fs::write(bench.path("end"), "").unwrap();
    running.wait().expect(5);
    assert_eq!(lease()["state"], "released");
}

#[test]
fn a_command_ended_by_a_signal_passed_on_is_reported_as_a_shell_does() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::USR1, 138)] {
        let bench = Bench::new();
        let running = start(&bench, "1h", &["sh", "-c", "echo >begun; exec sleep 1000"]);
        bench.await_file("begun");
        running.signal(signal);
        assert_eq!(running.wait().expect(code).err, "");
        assert_eq!(bench.status("x")["lease"]["state"], "released");
    }
}
