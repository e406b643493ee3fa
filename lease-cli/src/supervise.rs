//! The time during which the command runs: feeds the guardian, passes signals on, and sees to it
//! that nothing of the command is left when it has ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use lease_core::clock::sleep_until;
use lease_core::{Clock, Leases, Moment, Tenure, Timings};
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};

use crate::command::Program;
use crate::exit::{
    Failure, LOST, NOT_EXECUTABLE, SYSTEM, code_of_command, code_of_signal, say, say_unmasked,
};
use crate::guardian::{Guardian, Report};
use crate::holding::Holding;
use crate::signals::{Received, Signals};
use crate::terminal::Terminal;

/// The signals that ask a command to end. The others that are passed on may mean anything.
const ASKS_TO_END: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// The signals of which a command dies because somebody wants it to, whoever sent them; of others it dies
/// of its own fault.
const ENDS: [i32; 7] = [SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// How long killed processes have before it is said that they are waited for; and at least the guardian to start
/// the command.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a command ended, nothing of it being left.
pub(crate) struct Ended {
    /// The exit code.
    pub(crate) outcome: Result<u8, Failure>,
    /// Success, or a failure of its own while the lease was held: what ended it was neither a signal nor a loss.
    pub(crate) ran_to_its_end: bool,
    /// The lease was lost and the command ended for it, which has been said.
    pub(crate) is_lost: bool,
    /// Somebody asked this holder to step down.
    pub(crate) stepped_down: bool,
}

/// Runs the command under what is held, by a guardian that was started before the claim.
pub(crate) async fn supervise(
    holding: &Holding,
    leases: &Leases,
    program: &Program,
    guardian: Guardian,
    signals: &mut Signals,
) -> Ended {
    let variables = holding.variables();
    let variables = variables.iter().map(|(name, value)| (*name, value.as_deref()));
    match guardian.granted(variables) {
        Ok(()) => Supervision::new(holding, leases, guardian).run(program, signals).await,
        Err(error) => {
            let message = format!("the guardian of the command has ended: {error}; {}", holding.again());
            Ended {
                outcome: Err(Failure::new(SYSTEM, message)),
                ran_to_its_end: false,
                is_lost: false,
                stepped_down: false,
            }
        }
    }
}

struct Supervision {
    tenure: Tenure,
    timings: Timings,
    clock: Arc<dyn Clock>,
    guardian: Guardian,
    terminal: Terminal,
    start: Start,
    /// How the command ended, unless the lease had been lost before.
    ended: Option<ExitStatus>,
    is_lost: bool,
    /// Somebody asked this holder to step down, and the command was told.
    stepped_down: bool,
    /// The last signal passed on that asks it to end.
    asked_to_end_by: Option<i32>,
    /// What to do about a command that did not run to its end.
    again: &'static str,
    /// When to kill the group, should the guardian not have started the command by then, or after the loss not
    /// have done it.
    kill_at: Option<Moment>,
    /// The signal of the terminal that the command is stopped by.
    stopped_by: Option<i32>,
    /// The command was stopped for reading or setting the terminal, once at least.
    wants_terminal: bool,
}

/// What is known of the start of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Awaited,
    Done,
    /// It could not be run: the error number.
    Failed(i32),
}

impl Supervision {
    fn new(holding: &Holding, leases: &Leases, guardian: Guardian) -> Self {
        Self {
            guardian,
            tenure: holding.lease().tenure(),
            timings: *leases.timings(),
            clock: Arc::clone(leases.clock()),
            terminal: Terminal::open(),
            start: Start::Awaited,
            ended: None,
            is_lost: false,
            stepped_down: false,
            asked_to_end_by: None,
            again: holding.again(),
            kill_at: None,
            stopped_by: None,
            wants_terminal: false,
        }
    }

    async fn run(mut self, program: &Program, signals: &mut Signals) -> Ended {
        self.guardian.believe(self.tenure.deadline());
        // A guardian that was stopped starts nothing.
        self.kill_at = Some(self.clock.now() + self.timings.grace().max(PATIENCE));
        let mut feed_at = self.next_feed();
        loop {
            tokio::select! {
                // First what came first: whoever shuts a machine down signals this process and the command alike.
                biased;
                signal = signals.next() => match signal {
                    Received::PassOn(signal) => self.pass_on(signal),
                    Received::Continued => self.continue_command(),
                },
                report = self.guardian.report() => match report {
                    Some(report) => self.heard(report),
                    None => break,
                },
                _ = self.tenure.lost(), if !self.is_lost => {
                    // This process may have been stopped; what the command did meanwhile came before.
                    while let Some(report) = self.guardian.report_there() {
                        self.heard(report);
                    }
                    if !self.is_lost {
                        self.lost();
                    }
                }
                () = self.tenure.stopping(), if !self.is_lost && !self.stepped_down => self.step_down(),
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
        let ran_to_its_end = self.ran_to_its_end();
        let is_lost = self.is_lost && self.ended.is_none();
        let stepped_down = self.stepped_down;
        Ended { outcome: self.outcome(program, ran_to_its_end), ran_to_its_end, is_lost, stepped_down }
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
            Report::Started => self.answered(Start::Done),
            Report::NotStarted(errno) => self.answered(Start::Failed(errno)),
            Report::Stopped(signal) => self.stop_with_command(signal),
            Report::Ending if !self.is_lost => self.lost(),
            Report::Ended(status) if !self.is_lost => self.ended = Some(ExitStatus::from_raw(status)),
            // Nothing that comes after the loss counts.
            Report::Ending | Report::Ended(_) => {}
        }
    }

    fn answered(&mut self, start: Start) {
        self.start = start;
        if !self.is_lost {
            self.kill_at = None;
        }
    }

    fn pass_on(&mut self, signal: i32) {
        if ASKS_TO_END.contains(&signal) && self.ended.is_none() {
            self.asked_to_end_by = Some(signal);
        }
        self.guardian.pass_on(signal);
    }

    /// Has the command asked to end, as a signal to this process would. The name is held until it has.
    fn step_down(&mut self) {
        self.stepped_down = true;
        if self.ended.is_none() {
            say_unmasked(&format!(
                "{:?} (term {}): its holder was asked to step down; the command gets SIGTERM",
                self.tenure.name(),
                self.tenure.term()
            ));
            self.pass_on(SIGTERM);
        }
    }

    /// Has the command ended by the guardian, and from here in case that one is stopped.
    fn lost(&mut self) {
        self.guardian.lost();
        self.is_lost = true;
        // A little later than the guardian does it.
        let grace = self.timings.grace() / 20 * 19;
        self.kill_at = Some(self.clock.now().min(self.tenure.deadline()) + grace);
        if self.ended.is_none() {
            let now = format!("`lease status` says who holds it now; {}", self.again);
            say(&format!("{}; the command is being ended ({now})", self.loss()));
        }
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

    /// Success counts whatever was asked of the command meanwhile, a failure only if nothing was.
    fn ran_to_its_end(&self) -> bool {
        let Some(status) = self.ended else { return false };
        let was_ended = status.signal().is_some_and(|signal| ENDS.contains(&signal));
        status.success() || (self.tenure.check() && self.asked_to_end_by.is_none() && !was_ended)
    }

    fn outcome(&self, program: &Program, ran_to_its_end: bool) -> Result<u8, Failure> {
        if self.is_lost && self.ended.is_none() {
            return Ok(LOST);
        }
        let again = self.again;
        if !self.tenure.check() {
            let when = if self.start == Start::Done {
                "while the command ran"
            } else {
                "before the command was started"
            };
            let so = if ran_to_its_end { "it ran to its end all the same" } else { again };
            return Err(Failure::new(LOST, format!("{}, {when}; {so}", self.loss())));
        }
        if let Some(status) = self.ended {
            return Ok(code_of_command(status));
        }
        Err(match self.start {
            Start::Failed(errno) => {
                let error = io::Error::from_raw_os_error(errno);
                let message = format!("cannot run {:?}: {error}; correct it and {again}", program.name());
                Failure::new(NOT_EXECUTABLE, message)
            }
            Start::Done => {
                let message =
                    format!("the guardian of the command was killed, so the command was killed too; {again}");
                Failure::new(LOST, message)
            }
            Start::Awaited => {
                let message = format!(
                    "the guardian of the command was stopped or killed before it started the command; {again}"
                );
                Failure::new(SYSTEM, message)
            }
        })
    }
}
