//! A process of its own, stopped or killed before each message of a guarded transaction of three inserts, in both
//! directions, while a successor claims: in no cell is a row committed after the successor's claim.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use lease_testkit::{Direction, Proxy};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::runtime::{Builder, Runtime};

use crate::process::{Process, stop};
use crate::support::{LONG, Scene, eventually, proxied};

const TTL: Duration = Duration::from_millis(1_500);

/// So many processes at once.
const AT_ONCE: usize = 8;

/// Before which message something happens to the process.
#[derive(Debug, Clone, Copy)]
struct Cell {
    k: u64,
    direction: Direction,
}

/// What was seen in one.
#[derive(Debug)]
struct Seen {
    cell: Cell,
    /// Rows when the successor's claim was granted, and in the end.
    rows: [usize; 2],
    said: Option<String>,
    kept_out: Duration,
}

/// When the message goes on to its receiver.
#[derive(Clone, Copy, PartialEq)]
enum Message {
    AtOnce,
    /// When the process does.
    Late,
}

/// A process that has come to the message.
struct There {
    runtime: Runtime,
    scene: Scene,
    process: Process,
    since: Instant,
    /// Until it is dropped, a message that is late waits.
    release: Option<Sender<()>>,
    _proxy: Proxy,
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Brings a process to the message and does something to it there. One that did not come there, for its lease was
/// lost before on a slow machine, is another's turn.
fn bring_to(cell: Cell, message: Message, act: fn(Pid)) -> There {
    let give_up = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < give_up, "no process comes to {cell:?}");
        let runtime = runtime();
        let scene = runtime.block_on(Scene::new());
        let (proxy, url) = proxied(&scene.url);
        let mut process = Process::start(&scene, &url, TTL);
        let (pid, (there, is_there), (release, released)) = (process.pid, channel(), channel::<()>());
        proxy.call_before(cell.k, cell.direction, move || {
            act(pid);
            there.send(Instant::now()).unwrap();
            if message == Message::Late {
                let _ = released.recv_timeout(LONG);
            }
        });
        process.go();
        if let Some(since) = wait(&is_there, &mut process) {
            return There { runtime, scene, process, since, release: Some(release), _proxy: proxy };
        }
    }
}

fn wait(is_there: &Receiver<Instant>, process: &mut Process) -> Option<Instant> {
    loop {
        match is_there.recv_timeout(Duration::from_millis(20)) {
            Ok(since) => return Some(since),
            Err(RecvTimeoutError::Timeout) if !process.has_ended() => {}
            Err(_) => return is_there.try_recv().ok(),
        }
    }
}

/// Every message of an undisturbed transaction, each way.
fn cells() -> Vec<Cell> {
    let give_up = Instant::now() + LONG;
    let passed = loop {
        assert!(Instant::now() < give_up, "no transaction goes through");
        let runtime = runtime();
        let scene = runtime.block_on(Scene::new());
        let (proxy, url) = proxied(&scene.url);
        let mut process = Process::start(&scene, &url, TTL);
        process.go();
        if process.said().as_deref() == Some("Committed") {
            break proxy.log();
        }
    };
    let mut cells = Vec::new();
    for direction in [Direction::ToServer, Direction::ToClient] {
        let is_of_it = |passed: &&lease_testkit::Passed| {
            passed.direction == direction && !passed.kind.starts_with("Auth") && passed.kind != "Terminate"
        };
        let logins = ["StartupMessage", "PasswordMessage", "ParameterStatus", "BackendKeyData"];
        let count = passed.iter().filter(is_of_it).filter(|passed| !logins.contains(&passed.kind)).count();
        // The login's own.
        let count = if direction == Direction::ToClient { count - 1 } else { count };
        cells.extend((1..=count as u64).map(|k| Cell { k, direction }));
    }
    assert!(cells.len() > 20, "too few messages for a transaction: {passed:?}");
    cells
}

/// Plays every cell, and says what was seen in each.
fn play(what: &str, one: impl Fn(Cell) -> Seen + Sync) -> Vec<Seen> {
    let waiting = Mutex::new(cells().into_iter());
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let cell = waiting.lock().unwrap().next();
                    let Some(cell) = cell else { break };
                    let seen = one(cell);
                    all.lock().unwrap().push(seen);
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    all.sort_by_key(|seen| (seen.cell.direction as usize, seen.cell.k));
    println!("{what}");
    for Seen { cell, rows, said, kept_out } in &all {
        let said = said.as_deref().unwrap_or("-");
        println!("  {:?} {:2}: {rows:?} {said}, {kept_out:?}", cell.direction, cell.k);
    }
    all
}

#[track_caller]
fn keeps_the_promise(all: &[Seen]) {
    for seen in all {
        let [then, after] = seen.rows;
        assert!(then == after, "a row was committed after the successor's claim: {seen:?}");
        assert!(then == 0 || then == 3, "half a transaction: {seen:?}");
        if seen.said.as_deref() == Some("Committed") {
            assert_eq!(then, 3, "{seen:?}");
        }
    }
    // Else nothing was tried.
    let committed = all.iter().filter(|seen| seen.rows[0] == 3).count();
    assert!(committed > 0 && committed < all.len() / 2, "{committed} of {} committed", all.len());
}

impl There {
    fn rows(&self) -> usize {
        self.runtime.block_on(self.scene.rows()).len()
    }

    fn succeed(&self) {
        self.runtime.block_on(self.scene.succeed("a"));
    }

    /// Waits until nothing of the process can be committed any more.
    fn is_over(&self) {
        self.runtime.block_on(self.scene.no_session_is_left());
    }
}

/// Stops it until the successor is in.
fn outlived(cell: Cell, message: Message) -> Seen {
    let mut there = bring_to(cell, message, stop);
    there.succeed();
    let (kept_out, then) = (there.since.elapsed(), there.rows());
    there.release.take();
    there.process.go_on();
    let said = there.process.said();
    assert!(said.is_some(), "{cell:?}: it said nothing");
    there.is_over();
    Seen { cell, rows: [then, there.rows()], said, kept_out }
}

#[test]
fn a_process_stopped_at_any_message_commits_nothing_after_its_successors_claim() {
    keeps_the_promise(&play("stopped until the successor is in", |cell| outlived(cell, Message::AtOnce)));
}

/// As if the process, or the network, had paused between its last look at the clock and its message.
#[test]
fn a_message_that_comes_after_the_successors_claim_commits_nothing() {
    keeps_the_promise(&play("the message comes late", |cell| outlived(cell, Message::Late)));
}

#[test]
fn a_process_that_goes_on_before_its_successor_commits_nothing_after_its_claim() {
    let all = play("stopped until the lease has expired", |cell| {
        let mut there = bring_to(cell, Message::AtOnce, stop);
        there.runtime.block_on(async {
            let sql = crate::common::Sql::connect(&there.scene.url).await;
            // No row at all: its claim was too slow for it, and it came to the message on its way out.
            let held = format!(
                "SELECT 1 FROM {} WHERE expires_at_ms > extract(epoch FROM clock_timestamp()) * 1000",
                there.scene.table
            );
            let is_so = async || sql.client.query(&held, &[]).await.unwrap().is_empty();
            eventually("the lease has expired", is_so).await;
        });
        there.process.go_on();
        there.succeed();
        let (kept_out, then) = (there.since.elapsed(), there.rows());
        let said = there.process.said();
        assert!(said.is_some(), "{cell:?}: it said nothing");
        there.is_over();
        Seen { cell, rows: [then, there.rows()], said, kept_out }
    });
    keeps_the_promise(&all);
}

#[test]
fn a_process_killed_at_any_message_commits_nothing_after_its_successors_claim() {
    let all = play("killed", |cell| {
        let mut there = bring_to(cell, Message::AtOnce, |pid| kill(pid, Signal::SIGKILL).unwrap());
        there.succeed();
        let (kept_out, then) = (there.since.elapsed(), there.rows());
        let said = there.process.said();
        there.is_over();
        Seen { cell, rows: [then, there.rows()], said, kept_out }
    });
    keeps_the_promise(&all);
}
