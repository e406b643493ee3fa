//! Test programs side by side: most of their time they wait, for servers and for moments to come.

use std::collections::VecDeque;
use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::step::{Failure, announce, cargo};

/// A test program that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Program {
    package: String,
    /// `lib`, `bin`, `example` or `test`, and the target's name.
    target: (Kind, String),
    file: PathBuf,
    /// The folder of the package, in which cargo runs it too.
    folder: PathBuf,
}

/// In the order in which cargo runs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Lib,
    Bin,
    Test,
    Example,
}

/// What takes longer hangs: it is ended, and what it has said is shown.
const LONGEST: Duration = Duration::from_secs(900);

/// They keep the processors busy, of which the tests leave something.
const LONGEST_CHECKS: Duration = Duration::from_secs(1_320);

/// By this a test that takes long is known in what a program says.
const TAKES_LONG: &str = " has been running for over ";

/// What the test runner says before it tells of failed tests.
const FAILURES: &[u8] = b"\nfailures:\n";

/// So many of a program are shown again that has failed and told of no test.
const LAST_LINES: usize = 60;

/// How long after a program's end is waited for what it has said: something that it has started may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_secs(5);

const LOOK: Duration = Duration::from_millis(20);

/// Builds the test programs that these arguments of `cargo test` choose. What the compiler says goes where ours goes.
pub(crate) fn build(root: &Path, arguments: &[&str]) -> Result<Vec<Program>, Failure> {
    let mut build = cargo();
    build.args(arguments).args(["--no-run", "--message-format=json-render-diagnostics"]);
    let output = build
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::new(format!("cannot start cargo: {error}")))?;
    if !output.status.success() {
        let code = output.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        return Err(Failure { code, message: format!("the tests cannot be built: {}", output.status) });
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<Program> = messages.lines().filter_map(built).collect();
    programs.sort();
    Ok(programs)
}

/// The program that a message of cargo's tells of.
fn built(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let kind = match message["target"]["kind"][0].as_str()? {
        "bin" => Kind::Bin,
        "test" => Kind::Test,
        "example" => Kind::Example,
        _ => Kind::Lib,
    };
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(Program {
        package: folder.file_name()?.to_str()?.to_owned(),
        target: (kind, message["target"]["name"].as_str()?.to_owned()),
        file: message["executable"].as_str()?.into(),
        folder: folder.to_owned(),
    })
}

impl Program {
    /// To run it with these arguments and variables.
    pub(crate) fn job(&self, arguments: &[String], environment: &[(&str, String)]) -> Job {
        let (kind, name) = &self.target;
        let kind = match kind {
            Kind::Lib => "lib",
            Kind::Bin => "bin",
            Kind::Test => "test",
            Kind::Example => "example",
        };
        let mut command = Command::new(&self.file);
        command
            .args(arguments)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        Job { shown: format!("{} {kind} {name}", self.package), command, longest: LONGEST }
    }
}

/// This program with other arguments, beside the test programs, to which it leaves the processors that they want.
pub(crate) fn of_this_program(root: &Path, arguments: &[&str]) -> Result<Job, Failure> {
    let program = env::current_exe().map_err(|error| Failure::new(format!("where am I? {error}")))?;
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(program).args(arguments);
    command.env("CARGO_MANIFEST_DIR", root.join("xtask")).stdin(Stdio::null());
    Ok(Job { shown: format!("cargo xtask {}", arguments.join(" ")), command, longest: LONGEST_CHECKS })
}

/// What runs in a lane.
pub(crate) struct Job {
    shown: String,
    command: Command,
    longest: Duration,
}

/// Runs the programs, so many at a time, all of them though one fails, and shows whole what each has said when it has ended. The
/// checks, if they are given, run beside them as one more, and never have the last word. What went wrong is shown once more at the
/// end: of a long log that is the part that people see, and at times the only one that is kept.
pub(crate) fn run(
    programs: Vec<Job>,
    checks: Option<Job>,
    lanes: usize,
    since: Instant,
) -> Result<(), Failure> {
    let shows = Mutex::new(Shows { checks_run: checks.is_some(), held_back: None });
    let waiting = Mutex::new(VecDeque::from(programs));
    let failed = Mutex::new(Vec::new());
    let perform = |mut job: Job, is_checks: bool| {
        announce(since, &format!("runs: {}", job.shown));
        let started = Instant::now();
        let (said, outcome) = job.run(since);
        let head = format!("\n     Running {} ({} s)\n", job.shown, started.elapsed().as_secs());
        if let Err(problem) = outcome {
            lock(&failed).push((format!("{}: {problem}", job.shown), what_went_wrong(&said)));
        }
        lock(&shows).show([head.into_bytes(), said].concat(), is_checks);
    };
    thread::scope(|scope| {
        if let Some(checks) = checks {
            scope.spawn(|| perform(checks, true));
        }
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    // Not held while a program runs.
                    let next = lock(&waiting).pop_front();
                    let Some(program) = next else { return };
                    perform(program, false);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (problem, said) in &failed {
        print(&[format!("\n     Again {problem}\n").as_bytes(), said].concat());
    }
    let problems: Vec<String> = failed.into_iter().map(|(problem, _)| problem).collect();
    if problems.is_empty() { Ok(()) } else { Err(Failure { code: 101, message: problems.join("\n") }) }
}

/// Of what a program has said: from where the test runner tells of failures, or else the last lines.
fn what_went_wrong(said: &[u8]) -> Vec<u8> {
    let failures = said.windows(FAILURES.len()).position(|window| window == FAILURES);
    let last_lines = || {
        let ends = said.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
        ends.map(|(at, _)| at + 1).nth(LAST_LINES).unwrap_or(0)
    };
    said[failures.unwrap_or_else(last_lines)..].to_vec()
}

/// With standard output closed there is nobody left to tell.
fn print(said: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(said).and_then(|()| out.flush());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows what has been said on standard output. While the checks run, what a program said last is held back.
struct Shows {
    checks_run: bool,
    held_back: Option<Vec<u8>>,
}

impl Shows {
    fn show(&mut self, said: Vec<u8>, is_checks: bool) {
        let now = if is_checks {
            self.checks_run = false;
            [Some(said), self.held_back.take()]
        } else if self.checks_run {
            [self.held_back.replace(said), None]
        } else {
            [Some(said), None]
        };
        now.into_iter().flatten().for_each(|said| print(&said));
    }
}

impl Job {
    /// Runs it to its end: what it has said, and what is wrong.
    fn run(&mut self, since: Instant) -> (Vec<u8>, Result<(), String>) {
        match said_and_status(&self.shown, &mut self.command, self.longest, since) {
            Err(error) => (Vec::new(), Err(format!("cannot be run: {error}"))),
            Ok((said, Some(status))) if status.success() => (said, Ok(())),
            Ok((said, Some(status))) => (said, Err(format!("failed: {status}"))),
            Ok((said, None)) => {
                let problem = format!("ended, for it took longer than {} s", self.longest.as_secs());
                (said, Err(problem))
            }
        }
    }
}

/// `None` if it took too long.
fn said_and_status(
    shown: &str,
    command: &mut Command,
    longest: Duration,
    since: Instant,
) -> io::Result<(Vec<u8>, Option<ExitStatus>)> {
    let (reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the pipe's other end too.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (lines, said) = mpsc::channel();
    let program = shown.to_owned();
    thread::spawn(move || {
        for line in Lines(BufReader::new(reader)) {
            if let Some(line) = std::str::from_utf8(&line).ok().filter(|line| line.contains(TAKES_LONG)) {
                announce(since, &format!("{program}: {}", line.trim_end()));
            }
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    let status = end(&mut child, longest)?;
    let mut all = Vec::new();
    let until = Instant::now() + LAST_WORDS;
    while let Ok(line) = said.recv_timeout(until.saturating_duration_since(Instant::now())) {
        all.extend(line);
    }
    Ok((all, status))
}

/// Waits for the end of a program, and ends it when it takes too long: `None` then.
fn end(child: &mut Child, longest: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() >= longest {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// Lines with their ends, whatever bytes they hold.
struct Lines<R>(BufReader<R>);

impl<R: Read> Iterator for Lines<R> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let length = self.0.read_until(b'\n', &mut line).unwrap_or(0);
        (length > 0).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, script: &str, longest: Duration) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        Job { shown: name.to_owned(), command, longest }
    }

    #[test]
    fn a_program_that_fails_keeps_no_other_from_running_and_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let touch = |name: &str| format!("touch {}", folder.path().join(name).display());
        let jobs = vec![
            job("first", &format!("{}; exit 3", touch("first")), LONGEST),
            job("second", &touch("second"), LONGEST),
            job("third", "exit 1", LONGEST),
        ];
        let checks = job("checks", &touch("checks"), LONGEST);
        let failure = run(jobs, Some(checks), 1, Instant::now()).err().unwrap();
        assert_eq!(failure.message, "first: failed: exit status: 3\nthird: failed: exit status: 1");
        for name in ["first", "second", "checks"] {
            assert!(folder.path().join(name).exists(), "{name} was not run");
        }
    }

    #[test]
    fn of_what_a_failed_program_has_said_the_failures_are_shown_again_or_its_last_lines() {
        let of_tests = b"test a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b ----\n\nfailures:\n    b\n";
        assert_eq!(what_went_wrong(of_tests), b"\nfailures:\n\n---- b ----\n\nfailures:\n    b\n");
        let lines: Vec<String> = (0..200).map(|n| format!("{n}\n")).collect();
        assert_eq!(what_went_wrong(lines.concat().as_bytes()), lines[140..].concat().as_bytes());
        assert_eq!(what_went_wrong(b"few"), b"few");
    }

    #[test]
    fn a_program_that_hangs_is_ended_and_what_it_has_said_is_kept() {
        let mut hangs = job("hangs", "echo so far; exec sleep 3600", Duration::from_secs(2));
        let (said, outcome) = hangs.run(Instant::now());
        assert_eq!(String::from_utf8(said).unwrap(), "so far\n");
        assert_eq!(outcome, Err("ended, for it took longer than 2 s".to_owned()));
    }
}
