//! A process of its own that asks for one operation, to be killed at it.

use std::io::{self, BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use lease_core::LeaseStore;

use super::case::{Case, LONG, Prepared};
use super::operation::{Operation, Request, Told};

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

/// A process of its own that is about to ask for an operation, and what must be so when it has ended in whatever way.
pub struct Trial {
    prepared: Prepared,
    program: Program,
}

/// What came of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The process was told that it took place.
    pub is_told: bool,
    /// It took place.
    pub took_place: bool,
}

impl Trial {
    /// Starts the process, which calls [`ask_as_told`] with a store on the same table as `beside`, and waits until its next
    /// step is the operation; it has done the same before, on another name.
    ///
    /// # Panics
    ///
    /// When it does not get so far.
    pub async fn start(beside: &Arc<dyn LeaseStore>, command: Command, operation: Operation) -> Self {
        let (before, case) = (Case::before(beside, operation).await, Case::before(beside, operation).await);
        let (before, request) = (before.request, case.request);
        let start = move || Program::start(command, Some(&before), &request);
        let program = tokio::task::spawn_blocking(start).await.expect("a program");
        Self { prepared: case.prepared(), program }
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.program.lock().id()
    }

    /// Lets it ask.
    pub fn go(&mut self) {
        self.program.go();
    }

    /// It has ended, and has been waited for.
    pub fn has_ended(&mut self) {
        self.program.is_reaped = true;
    }

    /// Judges what a process that has ended leaves, by a store on the table. `point` is for messages.
    ///
    /// # Panics
    ///
    /// When it is not as it must be.
    pub async fn judge(self, beside: &Arc<dyn LeaseStore>, point: &str) -> Outcome {
        let Self { prepared, program } = self;
        let case = prepared.by(beside);
        let told = program.told();
        let took_place = case.judge(point, &told).await;
        case.goes_on(point, &took_place).await;
        let is_told = matches!(told, Told::Done | Told::Partly(_));
        Outcome { is_told, took_place: took_place.contains(&true) }
    }
}

/// Such a process, waited for and never left behind.
pub(super) struct Program {
    child: Arc<Mutex<Child>>,
    said: Lines<BufReader<ChildStdout>>,
    stdin: ChildStdin,
    is_reaped: bool,
}

impl Program {
    /// Starts it, and waits until it is about to ask.
    pub(super) fn start(mut command: Command, before: Option<&Request>, request: &Request) -> Self {
        let task = before.map_or_else(|| request.to_string(), |before| format!("{before}|{request}"));
        command.env(TASK, task).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let stdin = child.stdin.take().expect("piped");
        let mut program = Self { child: Arc::new(Mutex::new(child)), said, stdin, is_reaped: false };
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
        if !self.is_reaped {
            let _ = self.lock().kill();
            let _ = self.lock().wait();
        }
    }
}
