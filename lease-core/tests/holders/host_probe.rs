//! The probe of this host, on real processes.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use lease_core::{HostProbe, Liveness, Probe, ProcessFacts};

fn judge(facts: &ProcessFacts) -> Liveness {
    HostProbe.judge(facts)
}

/// A child of this process that does nothing, killed and waited for at the latest when the test ends.
struct Sleeper(Child);

impl Sleeper {
    fn start(group: i32) -> Self {
        let mut sleep = Command::new("sleep");
        Self(sleep.arg("3600").process_group(group).stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    /// What it would have recorded itself.
    fn facts(&self) -> ProcessFacts {
        facts_of(self.pid())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
    }

    fn end(mut self) {
        self.kill();
        self.0.wait().unwrap();
    }

    /// Killed, and nobody has waited for it: it still has its pid.
    fn into_zombie(mut self) -> Self {
        self.kill();
        while !stat(self.pid()).contains(") Z ") {
            std::thread::yield_now();
        }
        self
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn stat(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap()
}

fn facts_of(pid: i32) -> ProcessFacts {
    let text = stat(pid);
    let start = text.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(19).unwrap();
    ProcessFacts { pid, start: start.parse().unwrap(), ..ProcessFacts::current().unwrap() }
}

#[test]
fn this_process_knows_its_own_facts_and_is_not_dead() {
    let current = ProcessFacts::current().unwrap();
    assert_eq!(current, facts_of(i32::try_from(std::process::id()).unwrap()));
    assert_eq!(judge(&current), Liveness::Unknown);
}

#[test]
fn a_process_is_dead_once_somebody_has_waited_for_it() {
    let sleeper = Sleeper::start(0);
    let facts = sleeper.facts();
    assert_eq!(judge(&facts), Liveness::Unknown);
    // A zombie: nobody can tell it from one whose other threads still run.
    let zombie = sleeper.into_zombie();
    assert_eq!(judge(&facts), Liveness::Unknown);
    zombie.end();
    assert_eq!(judge(&facts), Liveness::Dead);
}

#[test]
fn a_pid_that_was_given_out_again_is_that_of_a_dead_process() {
    let sleeper = Sleeper::start(0);
    let facts = sleeper.facts();
    for start in [facts.start - 1, facts.start + 1, 0] {
        assert_eq!(judge(&ProcessFacts { start, ..facts.clone() }), Liveness::Dead);
    }
}

#[test]
fn a_process_of_elsewhere_is_not_judged() {
    let sleeper = Sleeper::start(0);
    let facts = sleeper.facts();
    sleeper.end();
    assert_eq!(judge(&facts), Liveness::Dead);
    let other_boot =
        ProcessFacts { boot: "6f0c8d2e-6c1f-4c43-9d0c-1f6f1f3c8a11".to_owned(), ..facts.clone() };
    let other_pids = ProcessFacts { pid_namespace: facts.pid_namespace - 1, ..facts.clone() };
    let other_time = ProcessFacts { time_namespace: facts.time_namespace - 1, ..facts };
    for facts in [other_boot, other_pids, other_time] {
        assert_eq!(judge(&facts), Liveness::Unknown, "{facts}");
    }
}

#[test]
fn a_process_is_not_dead_before_all_of_its_group_is() {
    let leader = Sleeper::start(0);
    let member = Sleeper::start(leader.pid());
    let alone = leader.facts();
    let grouped = ProcessFacts { group: Some(leader.pid()), ..alone.clone() };
    leader.end();
    assert_eq!((judge(&alone), judge(&grouped)), (Liveness::Dead, Liveness::Unknown));
    let member = member.into_zombie();
    assert_eq!(judge(&grouped), Liveness::Unknown);
    member.end();
    assert_eq!(judge(&grouped), Liveness::Dead);
}

#[test]
fn numbers_that_are_no_processs_are_not_asked_about() {
    let sleeper = Sleeper::start(0);
    let facts = sleeper.facts();
    sleeper.end();
    for pid in [0, -1, i32::MIN] {
        assert_eq!(judge(&ProcessFacts { pid, ..facts.clone() }), Liveness::Unknown);
    }
    for group in [0, 1, -1, i32::MIN] {
        assert_eq!(judge(&ProcessFacts { group: Some(group), ..facts.clone() }), Liveness::Unknown);
    }
}

const AS_ANOTHER_USER: &str = "LEASE_TEST_AS_ANOTHER_USER";

/// The first process is root's: who is not may not signal it.
#[test]
fn of_a_process_that_we_may_not_signal_only_its_start_tells() {
    if rustix::process::geteuid().is_root() && std::env::var_os(AS_ANOTHER_USER).is_none() {
        let test = "holders::host_probe::of_a_process_that_we_may_not_signal_only_its_start_tells";
        // By this path it can be run though it lies in a directory that is not the other user's to enter.
        let child = Command::new("/proc/self/exe")
            .args(["--exact", test, "--nocapture"])
            .env(AS_ANOTHER_USER, "1")
            .current_dir("/")
            .uid(65_534)
            .output()
            .expect("the user 65534, or a user other than root to run the tests as");
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(child.status.success() && said.contains("1 passed"), "{said}{:?}", child.stderr);
        return;
    }
    let first = facts_of(1);
    let signal = rustix::process::test_kill_process(rustix::process::Pid::from_raw(1).unwrap());
    assert_eq!(signal, Err(rustix::io::Errno::PERM));
    assert_eq!(judge(&first), Liveness::Unknown);
    assert_eq!(judge(&ProcessFacts { start: first.start + 1, ..first }), Liveness::Dead);
}
