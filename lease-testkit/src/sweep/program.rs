//! A process of its own that asks for one operation, to be killed at it.

use std::io::{self, BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use lease_core::LeaseStore;

use super::case::LONG;
use super::operation::{Request, Told};

/// What the process is to ask for, and what it is to ask for before that, to have its connections made: one or two requests,
/// one behind the other.
const TASK: &str = "LEASE_SWEEP_TASK";

/// Whether this process is one of a sweep's. One that is calls [`ask_as_told`] and does nothing else.
pub fn is_a_program() -> bool {
    std::env::var_os(TASK).is_some()
}

/// Asks for what the parent wants, when it says so, and tells it the answer. The process does not outlive it.
///
/// # Panics
///
/// Not in a process that a sweep has started, or when what comes before fails.
pub async fn ask_as_told(store: Arc<dyn LeaseStore>) {
    let task = std::env::var(TASK).expect("a task");
    let mut requests: Vec<Request> =
        task.split('|').map(|request| request.parse().expect("a request")).collect();
    let request = requests.pop().expect("a request");
    for before in requests {
        let told = before.ask(&*store, LONG).await;
        assert!(matches!(told, Told::Done | Told::Partly(_)), "{told:?}");
    }
    say("ready");
    let mut word = String::new();
    io::stdin().lock().read_line(&mut word).expect("a word");
    let told = request.ask(&*store, LONG).await;
    say(&told.to_string());
    // Whatever the store would do at its end is not part of the operation.
    std::process::exit(0);
}

fn say(what: &str) {
    println!("\nsweep> {what}");
    io::stdout().flush().expect("a parent that listens");
}

/// Such a process, waited for and never left behind.
pub(super) struct Program {
    child: Arc<Mutex<Child>>,
    said: Lines<BufReader<ChildStdout>>,
    stdin: ChildStdin,
}

impl Program {
    /// Starts it, and waits until it is about to ask.
    pub(super) fn start(mut command: Command, before: Option<&Request>, request: &Request) -> Self {
        let task = before.map_or_else(|| request.to_string(), |before| format!("{before}|{request}"));
        command.env(TASK, task).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let stdin = child.stdin.take().expect("piped");
        let mut program = Self { child: Arc::new(Mutex::new(child)), said, stdin };
        assert_eq!(program.says().as_deref(), Some("ready"), "it does not get so far");
        program
    }

    /// What kills it.
    pub(super) fn killer(&self) -> impl FnOnce() + Send + 'static {
        let child = Arc::clone(&self.child);
        move || child.lock().unwrap_or_else(PoisonError::into_inner).kill().expect("a process of ours")
    }

    pub(super) fn go(&mut self) {
        // One that has been killed does not hear it.
        let _ = self.stdin.write_all(b"go\n");
    }

    /// Waits for its end, and says what it was told before that.
    pub(super) fn told(mut self) -> Told {
        self.says().map_or(Told::Nothing, |said| said.parse().expect("what is told"))
    }

    fn says(&mut self) -> Option<String> {
        // The harness has lines of its own.
        let ours = |line: io::Result<String>| line.ok()?.strip_prefix("sweep> ").map(str::to_owned);
        self.said.by_ref().find_map(ours)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.lock().kill();
        let _ = self.lock().wait();
    }
}
