//! Two instances on one file, as people run them: real processes, HTTP and signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longer than anything takes on a slow machine, and far shorter than the ttl: what changes hands within it was given back.
const PATIENCE: Duration = Duration::from_secs(60);
const TTL_SECONDS: &str = "600";

/// An instance, which is ended with the test.
struct Instance {
    process: Child,
    address: String,
}

impl Instance {
    fn start(database: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_leader-service"))
            .args(["--listen", "127.0.0.1:0", "--ttl", TTL_SECONDS, "--database"])
            .arg(database)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").expect("it did not start").to_owned();
        Self { process, address }
    }

    /// Its answer: the status and the text.
    fn read(&self, request: &str) -> (u16, String) {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(connection, "{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address)
            .unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// The answer where that is JSON.
    fn ask(&self, request: &str) -> (u16, Value) {
        let (status, body) = self.read(request);
        (status, serde_json::from_str(&body).unwrap())
    }

    /// Waits until a figure is shown, which is recorded a little later.
    fn shows(&self, figure: &str) {
        until(figure, || self.read("GET /metrics").1.lines().any(|line| line == figure));
    }

    /// The term under which it leads, as its health says, which is always there.
    fn term(&self) -> Option<i64> {
        let (status, health) = self.ask("GET /health");
        assert_eq!(status, 200, "{health}");
        assert_eq!(health["leader"], health["lease"].is_object(), "{health}");
        health["term"].as_i64()
    }

    fn ask_to_stop(&self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
    }

    fn ended(mut self) -> ExitStatus {
        let mut ended = None;
        until("it has ended", || {
            ended = self.process.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "not in time: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Two of them, the leader first, and its term.
fn leader_and_other(database: &Path) -> (Instance, Instance, i64) {
    let (one, two) = (Instance::start(database), Instance::start(database));
    let mut terms = (None, None);
    until("one leads", || {
        terms = (one.term(), two.term());
        terms != (None, None)
    });
    match terms {
        (Some(term), None) => (one, two, term),
        (None, Some(term)) => (two, one, term),
        both => panic!("two lead: {both:?}"),
    }
}

#[test]
fn the_leader_hands_over_at_once_when_it_is_asked_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (leader, other, first) = leader_and_other(&folder.path().join("leases.db"));
    leader.ask_to_stop();
    assert!(leader.ended().success());
    let mut second = None;
    until("the other leads", || {
        second = other.term();
        second.is_some()
    });
    assert!(second.unwrap() > first, "{second:?} behind {first}");
    assert_eq!(other.ask("POST /tickets").1["term"].as_i64(), second);
}

#[test]
fn a_client_that_is_slow_does_not_delay_the_successor() {
    let folder = tempfile::tempdir().unwrap();
    let (leader, other, first) = leader_and_other(&folder.path().join("leases.db"));
    let mut slow = TcpStream::connect(&leader.address).unwrap();
    slow.write_all(b"POST /tickets HTTP/1.1\r\n").unwrap();
    // The connection before this one was taken when this is answered.
    assert_eq!(leader.term(), Some(first));
    leader.ask_to_stop();
    until("the other leads", || other.term().is_some());
    drop(slow);
    assert!(leader.ended().success());
}

#[test]
fn only_the_leader_hands_out_tickets_and_the_other_says_who_leads() {
    let folder = tempfile::tempdir().unwrap();
    let (leader, other, term) = leader_and_other(&folder.path().join("leases.db"));
    for expected in 1..=3 {
        let (status, ticket) = leader.ask("POST /tickets");
        assert_eq!((status, &ticket["term"], &ticket["number"]), (200, &term.into(), &expected.into()));
    }
    let address = format!("http://{}", leader.address);
    let (status, refused) = other.ask("POST /tickets");
    assert_eq!((status, refused["leader"]["address"].as_str()), (503, Some(address.as_str())), "{refused}");
    for instance in [&leader, &other] {
        let (status, seen) = instance.ask("GET /leader");
        assert_eq!((status, seen["address"].as_str()), (200, Some(address.as_str())), "{seen}");
        assert_eq!(seen["term"], term, "{seen}");
    }
}

#[test]
fn whether_an_instance_leads_is_shown_to_prometheus_by_each_and_follows_a_hand_over() {
    let folder = tempfile::tempdir().unwrap();
    let (leader, other, term) = leader_and_other(&folder.path().join("leases.db"));
    leader.shows(r#"lease_held{lease="leader-service"} 1"#);
    leader.shows(&format!(r#"lease_term{{lease="leader-service"}} {term}"#));
    other.shows(r#"lease_held{lease="leader-service"} 0"#);
    other.shows(r#"lease_waiting{lease="leader-service"} 1"#);
    leader.ask_to_stop();
    other.shows(r#"lease_held{lease="leader-service"} 1"#);
    assert!(leader.ended().success());
}
