//! The time during which the command runs: feeds the guardian, passes signals on, and sees to it
//! that nothing of the command is left when the lease is given back.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use lease_core::clock::sleep_until;
use lease_core::{Clock, Lease, Leases, Moment, Tenure, Timings};
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::consts::{SIGCONT, SIGTSTP};

use crate::command::Program;
use crate::exit::{Failure, LOST, NOT_EXECUTABLE, SYSTEM, code_of_command, code_of_signal, say};
use crate::guardian::{Guardian, Report};
use crate::signals::{Received, Signals};
use crate::terminal::Terminal;

/// How long killed processes have before it is said that they are waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the command under the lease and gives the lease back. Answers the exit code.
pub(crate) async fn supervise(
    lease: Lease,
    leases: &Leases,
    program: &Program,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let outcome = match Supervision::start(&lease, leases, program) {
        Ok(supervision) => supervision.run(program, signals).await,
        Err(error) => Err(Failure::new(SYSTEM, format!("cannot start the guardian of the command: {error}"))),
    };
    let was_lost = !lease.tenure().check();
    tokio::select! {
        released = lease.release() => if let Err(error) = released && !was_lost {
            say(&format!("the command has ended, but: {error}"));
        },
        // What was not given back by then expires.
        _ = signals.next_to_end() => {}
    }
    outcome
}

struct Supervision {
    tenure: Tenure,
    timings: Timings,
    clock: Arc<dyn Clock>,
    guardian: Guardian,
    terminal: Terminal,
    started: bool,
    /// The error number, when the command could not be run.
    failed: Option<i32>,
    ended: Option<ExitStatus>,
    is_lost: bool,
    /// When to kill what is left after the loss, should the guardian not have done it.
    kill_at: Option<Moment>,
    /// The signal of the terminal that the command is stopped by.
    stopped_by: Option<i32>,
    /// The command was stopped for reading or setting the terminal, once at least.
    wants_terminal: bool,
}

impl Supervision {
    fn start(lease: &Lease, leases: &Leases, program: &Program) -> io::Result<Self> {
        let variables = [
            ("LEASE_NAME", lease.name().to_string()),
            ("LEASE_TERM", lease.term().to_string()),
            ("LEASE_HOLDER", lease.holder().to_string()),
        ];
        let timings = *leases.timings();
        Ok(Self {
            guardian: Guardian::start(program, &variables, timings.grace())?,
            tenure: lease.tenure(),
            timings,
            clock: Arc::clone(leases.clock()),
            terminal: Terminal::open(),
            started: false,
            failed: None,
            ended: None,
            is_lost: false,
            kill_at: None,
            stopped_by: None,
            wants_terminal: false,
        })
    }

    async fn run(mut self, program: &Program, signals: &mut Signals) -> Result<u8, Failure> {
        self.guardian.believe(self.tenure.deadline());
        let mut feed_at = self.next_feed();
        loop {
            tokio::select! {
                report = self.guardian.report() => match report {
                    Some(report) => self.heard(report),
                    None => break,
                },
                signal = signals.next() => match signal {
                    Received::PassOn(signal) => self.guardian.pass_on(signal),
                    Received::Continued => self.continue_command(),
                },
                _ = self.tenure.lost(), if !self.is_lost => self.lost(),
                () = sleep_until(&self.clock, feed_at), if !self.is_lost => {
                    self.guardian.believe(self.tenure.deadline());
                    feed_at = self.next_feed();
                }
                () = sleep_until(&self.clock, self.kill_at.unwrap_or_default()), if self.kill_at.is_some() => {
                    self.kill_at = None;
                    self.guardian.kill();
                }
            }
        }
        self.terminal.take_back(self.guardian.group());
        self.end_group(signals).await;
        self.outcome(program)
    }

    /// Kills what is left of the group and waits for its end. Processes of another user cannot be
    /// killed; then a signal ends the wait, and this program without giving the lease back.
    async fn end_group(&mut self, signals: &mut Signals) {
        self.guardian.kill();
        let patience = self.clock.now() + PATIENCE;
        loop {
            tokio::select! {
                () = self.guardian.group_end() => return,
                // Meant for a command that is about to end anyway.
                _ = signals.next() => {}
                () = sleep_until(&self.clock, patience) => break,
            }
        }
        say(&format!(
            "waiting for processes in group {} that could not be killed; a signal ends the wait, and {:?} then expires",
            self.guardian.group().as_raw_pid(),
            self.tenure.name(),
        ));
        tokio::select! {
            () = self.guardian.group_end() => {}
            // Any return would give the lease back beside processes that live.
            signal = signals.next_to_end() => process::exit(code_of_signal(signal).into()),
        }
    }

    fn heard(&mut self, report: Report) {
        match report {
            Report::Started => self.started = true,
            Report::NotStarted(errno) => self.failed = Some(errno),
            Report::Stopped(signal) => self.stop_with_command(signal),
            Report::Ending if !self.is_lost => self.lost(),
            Report::Ending => {}
            Report::Ended(status) => self.ended = Some(ExitStatus::from_raw(status)),
        }
    }

    /// Has the command ended by the guardian, and from here in case that one is stopped.
    fn lost(&mut self) {
        self.guardian.lost();
        self.is_lost = true;
        // A little later than the guardian does it.
        let grace = self.timings.grace() / 20 * 19;
        self.kill_at = Some(self.clock.now().min(self.tenure.deadline()) + grace);
        say(&format!("{}; the command is being ended", self.loss()));
    }

    /// What is lost, and why.
    fn loss(&self) -> String {
        let reason = self.tenure.reason().map(|reason| reason.to_string());
        let reason = reason.as_deref().unwrap_or("no renewal was answered before the deadline");
        format!("lost {:?} (term {}): {reason}", self.tenure.name(), self.tenure.term())
    }

    /// A signal of the terminal stopped the command. If it only asked for the terminal and can have it, it
    /// goes on; otherwise this process stops too, so that who looks after it sees one job.
    fn stop_with_command(&mut self, signal: i32) {
        self.stopped_by = Some(signal);
        let group = self.guardian.group();
        if signal != SIGTSTP {
            self.wants_terminal = true;
            if self.terminal.lend(group) {
                return self.continue_command();
            }
        }
        self.terminal.take_back(group);
        if let Some(signal) = Signal::from_named_raw(signal) {
            // Time passes here. A group that no shell looks after is not stopped; then this goes on.
            let _ = kill_current_process_group(signal);
        }
        self.continue_command();
    }

    /// After this process was continued: the command too, if the terminal stopped it. One that wants the
    /// terminal and cannot have it stays stopped, rather than ask without end.
    fn continue_command(&mut self) {
        let Some(signal) = self.stopped_by else { return };
        let has_terminal = self.wants_terminal && self.terminal.lend(self.guardian.group());
        if has_terminal || signal == SIGTSTP {
            self.stopped_by = None;
            self.guardian.pass_on(SIGCONT);
        }
    }

    /// More often as the deadline comes near, since a renewal that took place then must be heard of in time.
    fn next_feed(&self) -> Moment {
        let now = self.clock.now();
        let left = self.tenure.deadline().since(now) / 4;
        now + left.min(self.timings.renew() / 4).max(Duration::from_millis(5))
    }

    fn outcome(&self, program: &Program) -> Result<u8, Failure> {
        if self.is_lost {
            return Ok(LOST);
        }
        if !self.tenure.check() {
            let when = if self.started { "while the command ran" } else { "before the command was started" };
            return Err(Failure::new(LOST, format!("{}, {when}; run it again", self.loss())));
        }
        if let Some(status) = self.ended {
            return Ok(code_of_command(status));
        }
        if let Some(errno) = self.failed {
            let error = io::Error::from_raw_os_error(errno);
            return Err(Failure::new(NOT_EXECUTABLE, format!("cannot run {:?}: {error}", program.name())));
        }
        if self.started {
            let message =
                "the guardian of the command was killed, so the command was killed too; run it again";
            return Err(Failure::new(LOST, message));
        }
        Err(Failure::new(
            SYSTEM,
            "the guardian of the command ended before it started the command; try again",
        ))
    }
}
