//! The guardian's own process: one loop around [`GuardianState`].
//!
//! It has no async runtime, no threads, and never writes to the terminal or a log: whatever could
//! block it would keep the command alive.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgid, getpid, kill_process, kill_process_group, wait, waitpgid,
};
use signal_hook::consts::{SIGCHLD, SIGTSTP, SIGTTIN, SIGTTOU};
use signal_hook::low_level::pipe;

use lease_core::Moment;

use super::now;
use super::state::{GuardianState, Step};
use super::wire::{FRAME, Inbox, Order, Report, decode_variables};
use crate::signals::{Ignored, PASSED_ON};

/// The longest sleep: `poll` does not count the time for which the machine is suspended.
const NAP: Duration = Duration::from_millis(100);

/// How often, and how many times, is looked for the end of a command that was killed outside the group.
const LOOK: Duration = Duration::from_millis(1);
const OUTSIDE_LOOKS: u32 = 50;

/// The signals by which a terminal stops the whole group. The guardian must not be stopped.
const STOPS: [i32; 3] = [SIGTSTP, SIGTTIN, SIGTTOU];

/// Runs the guardian. `arguments` are those after the subcommand, as [`super::Guardian::start`] makes them.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(task) = Task::parse(arguments) else { return ExitCode::FAILURE };
    match Watch::start(task) {
        Ok(Some(watch)) => watch.run(),
        // Nothing is to be guarded (any more).
        Ok(None) => {}
        Err(_) => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}

/// What `lease run` hands over.
struct Task {
    run: UnixStream,
    grace: Duration,
    command: Command,
}

impl Task {
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let run = arguments.next()?.to_str()?.parse().ok().filter(|fd| *fd > 2)?;
        let grace = Duration::from_nanos(arguments.next()?.to_str()?.parse().ok()?);
        let mut command = Command::new(arguments.next()?);
        command.arg0(arguments.next()?).args(arguments);
        #[expect(unsafe_code, reason = "an inherited descriptor comes as a number")]
        // SAFETY: `lease run` passed the number of a socket that this process inherited and that
        // nothing else in it, freshly started, has touched.
        let run = unsafe { OwnedFd::from_raw_fd(run) };
        Some(Self { run: run.into(), grace, command })
    }
}

struct Watch {
    state: GuardianState,
    /// The command, until it has been waited for.
    command: Option<Pid>,
    /// The process group, named by its leader: this process.
    group: Pid,
    link: Link,
    /// Readable after each signal to this process.
    woken: UnixStream,
    /// Kept until there is a command that they can reach.
    signals_to_pass_on: Vec<Signal>,
}

impl Watch {
    /// Waits for a lease and starts the command under it, unless it is lost by then.
    fn start(mut task: Task) -> io::Result<Option<Self>> {
        let group = getpid();
        let woken = prepare_process()?;
        let mut link = Link::new(task.run)?;
        let Some(deadline) = link.await_lease(&mut task.command)? else { return Ok(None) };
        let state = GuardianState::new(deadline, task.grace);
        let mut watch = Self { state, command: None, group, link, woken, signals_to_pass_on: Vec::new() };
        // A start that took long has later news behind the first.
        watch.obey();
        if !matches!(watch.state.step(now()), Step::Wait(_)) {
            return Ok(None);
        }
        #[cfg(target_os = "linux")]
        die_with(group, &mut task.command);
        match task.command.spawn() {
            Ok(child) => {
                watch.command = Some(Pid::from_child(&child));
                watch.link.report(Report::Started);
                Ok(Some(watch))
            }
            Err(error) => {
                watch.link.report(Report::NotStarted(error.raw_os_error().unwrap_or(0)));
                Ok(None)
            }
        }
    }

    fn run(mut self) -> ! {
        loop {
            self.obey();
            for signal in mem::take(&mut self.signals_to_pass_on) {
                self.signal(signal);
            }
            self.reap();
            let was_lost = self.state.is_lost();
            let step = self.state.step(now());
            if self.state.is_lost() && !was_lost {
                self.link.report(Report::Ending);
            }
            match step {
                Step::Wait(until) => self.sleep(until),
                Step::Terminate => {
                    self.signal(Signal::TERM);
                    // Who is stopped would not notice.
                    self.signal(Signal::CONT);
                }
                Step::Kill => self.kill(),
            }
        }
    }

    /// Takes in what `lease run` says.
    fn obey(&mut self) {
        while let Some(order) = self.link.order() {
            match order {
                Order::Believe(until) => self.state.believed_until(until),
                // Only the first.
                Order::Variables(_) => {}
                Order::Lost => self.state.lose(now()),
                Order::Signal(signal) => {
                    self.signals_to_pass_on.extend(Signal::from_named_raw(signal));
                }
            }
        }
        if self.link.is_closed() {
            self.state.lose(now());
        }
    }

    /// Waits for children that have ended, the orphans of the group among them.
    fn reap(&mut self) {
        while let Ok(Some((child, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            self.note(child, status);
        }
        let empty = loop {
            match waitpgid(self.group, WaitOptions::NOHANG) {
                Ok(Some((child, status))) => self.note(child, status),
                Ok(None) => break false,
                Err(error) => break error == Errno::CHILD,
            }
        };
        self.state.group_is_empty(empty);
    }

    fn note(&mut self, child: Pid, status: WaitStatus) {
        if self.command != Some(child) {
            return;
        }
        match status.stopping_signal() {
            Some(signal) if STOPS.contains(&signal) => self.link.report(Report::Stopped(signal)),
            Some(_) => {}
            None => {
                self.command = None;
                self.state.command_ended(now());
                self.link.report(Report::Ended(status.as_raw()));
            }
        }
    }

    /// Sends a signal to the group, and to the command if it has left the group.
    fn signal(&self, signal: Signal) {
        self.signal_command_outside(signal);
        let _ = kill_process_group(self.group, signal);
    }

    fn signal_command_outside(&self, signal: Signal) {
        if let Some(command) = self.command_outside() {
            let _ = kill_process(command, signal);
        }
    }

    /// The command, if it lives and has left the group. Not waited for yet, so the number is still the command's.
    fn command_outside(&self) -> Option<Pid> {
        self.command.filter(|command| getpgid(Some(*command)).is_ok_and(|group| group != self.group))
    }

    /// Kills the group, this process with it. What it reported is in the socket.
    fn kill(&mut self) {
        self.signal_command_outside(Signal::KILL);
        // As long as this process lives nobody takes the lease for that of the dead.
        let mut looks = 0;
        while looks < OUTSIDE_LOOKS && self.command_outside().is_some() {
            thread::sleep(LOOK);
            self.reap();
            looks += 1;
        }
        let _ = kill_process_group(self.group, Signal::KILL);
    }

    fn sleep(&mut self, until: Moment) {
        let nap = until.since(now()).min(NAP);
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        if !self.link.is_closed() {
            fds.push(PollFd::new(&self.link.socket, PollFlags::IN));
        }
        // An interrupted sleep is as good as one that is over.
        let _ = poll(&mut fds, Timespec::try_from(nap).ok().as_ref());
        let mut wakes = [0; 64];
        while self.woken.read(&mut wakes).is_ok_and(|length| length > 0) {}
    }
}

/// Makes this process one that survives the signals of its group and adopts the group's orphans.
/// The stream answered becomes readable with each signal.
fn prepare_process() -> io::Result<UnixStream> {
    #[cfg(target_os = "linux")]
    {
        // Without the program's name: who kills `lease` by name is not to kill what ends its command.
        rustix::thread::set_name(c"run-guardian")?;
        rustix::process::set_child_subreaper(Some(getpid()))?;
    }
    let (woken, waker) = UnixStream::pair()?;
    woken.set_nonblocking(true)?;
    let ignored = Ignored::at_start();
    for signal in PASSED_ON.into_iter().chain(STOPS).filter(|signal| !ignored.contains(*signal)) {
        // Handlers, not ignoring: the command starts without them.
        pipe::register(signal, waker.try_clone()?)?;
    }
    pipe::register(SIGCHLD, waker)?;
    SigSet::empty().thread_set_mask()?;
    Ok(woken)
}

/// Makes the kernel kill the command when the guardian is killed.
#[cfg(target_os = "linux")]
fn die_with(guardian: Pid, command: &mut Command) {
    use rustix::process::{getppid, set_parent_process_death_signal};

    let die = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The guardian may have died just before.
        if getppid() == Some(guardian) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    #[expect(unsafe_code, reason = "the request holds for the process that makes it, so the child must")]
    // SAFETY: between fork and exec only two system calls are made; nothing allocates or locks.
    unsafe {
        command.pre_exec(die);
    }
}

/// The socket to `lease run`.
struct Link {
    socket: UnixStream,
    inbox: Inbox,
    closed: bool,
}

impl Link {
    fn new(socket: UnixStream) -> io::Result<Self> {
        // It was inherited; the command must not inherit it.
        fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        Ok(Self { socket, inbox: Inbox::default(), closed: false })
    }

    /// Blocks, without end and at no cost, until `lease run` has a lease: sets the variables of the command and
    /// answers the first deadline; `None` when `lease run` has ended instead.
    fn await_lease(&mut self, command: &mut Command) -> io::Result<Option<Moment>> {
        let Some(Order::Variables(length)) = self.await_order()? else { return Ok(None) };
        let mut text = String::new();
        (&mut self.socket).take(length as u64).read_to_string(&mut text)?;
        for (name, value) in decode_variables(&text) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let Some(Order::Believe(until)) = self.await_order()? else { return Ok(None) };
        self.socket.set_nonblocking(true)?;
        Ok(Some(until))
    }

    fn await_order(&mut self) -> io::Result<Option<Order>> {
        let mut frame = [0; FRAME];
        match self.socket.read_exact(&mut frame) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            read => read.map(|()| Order::decode(frame)),
        }
    }

    /// The next order that has arrived.
    fn order(&mut self) -> Option<Order> {
        loop {
            if let Some(frame) = self.inbox.next() {
                match Order::decode(frame) {
                    None => continue,
                    order => return order,
                }
            }
            let mut bytes = [0; 32 * FRAME];
            match self.socket.read(&mut bytes) {
                Ok(length) if length > 0 => self.inbox.push(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Ok(_) | Err(_) => {
                    self.closed = true;
                    return None;
                }
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.closed
    }

    fn report(&mut self, report: Report) {
        // Nobody to tell it to is no reason to stop guarding.
        let _ = self.socket.write_all(&report.encode());
    }
}
