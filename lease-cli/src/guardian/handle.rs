//! The side of `lease run`: starts the guardian, feeds it, hears from it, and sees to its end.

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use lease_core::Moment;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::net::UnixStream;
use tokio::time::sleep;

use super::SUBCOMMAND;
use super::wire::{FRAME, Inbox, Order, Report, Variable, encode_variables};
use crate::command::Program;

/// How often the end of killed processes is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// How often that is done where it cannot be seen: for two seconds.
const BLIND_LOOKS: u32 = 400;

/// A guardian that was started, and its group.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
    group: Pid,
    orders: StdUnixStream,
    reports: UnixStream,
    inbox: Inbox,
    fed: Option<Moment>,
}

impl Guardian {
    /// Starts a guardian, so that its group can be recorded with the claim. It is idle until the lease is
    /// [`granted`](Self::granted), and ends with this process, or when this is dropped.
    pub(crate) fn start(program: &Program, grace: Duration) -> io::Result<Self> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let orders = ours.try_clone()?;
        let reports = UnixStream::from_std(ours)?;
        fcntl_setfd(&theirs, FdFlags::empty())?;
        let mut guardian = Command::new(own_program()?);
        guardian
            .arg0("lease")
            .arg(SUBCOMMAND)
            .arg(theirs.as_raw_fd().to_string())
            .arg(grace.as_nanos().to_string())
            .arg(&program.path)
            .args(&program.words)
            .process_group(0);
        let process = guardian.spawn()?;
        let group = Pid::from_child(&process);
        Ok(Self { process, group, orders, reports, inbox: Inbox::default(), fed: None })
    }

    /// The process group of guardian and command.
    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// Says that there is a lease, and what the command is to find in its environment. The command starts with the
    /// first [`believe`](Self::believe).
    pub(crate) fn granted<'a>(&self, variables: impl IntoIterator<Item = Variable<'a>>) -> io::Result<()> {
        let text = encode_variables(variables);
        // Nothing was sent before, and so little fits into any socket.
        (&self.orders).write_all(&Order::Variables(text.len()).encode())?;
        (&self.orders).write_all(text.as_bytes())
    }

    /// Says until when the lease is believed, if that is news.
    pub(crate) fn believe(&mut self, until: Moment) {
        if self.fed != Some(until) && self.send(Order::Believe(until)) {
            self.fed = Some(until);
        }
    }

    /// Says that the lease is lost.
    pub(crate) fn lost(&mut self) {
        self.send(Order::Lost);
    }

    /// Has a signal passed on to the group. Not to be called after [`group_end`](Self::group_end).
    pub(crate) fn pass_on(&mut self, signal: i32) {
        // One that somebody stopped would not do it. Not waited for yet, so the number is still its own.
        let _ = kill_process(self.group, Signal::CONT);
        self.send(Order::Signal(signal));
    }

    /// The next report; `None` once the guardian has ended. May be dropped and called again.
    pub(crate) async fn report(&mut self) -> Option<Report> {
        loop {
            if let Some(report) = self.inbox.next().and_then(Report::decode) {
                return Some(report);
            }
            self.reports.readable().await.ok()?;
            let mut bytes = [0; 8 * FRAME];
            match self.reports.try_read(&mut bytes) {
                Ok(0) => return None,
                Ok(length) => self.inbox.push(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }

    /// Waits for the end of a guardian that has nothing to report yet.
    pub(crate) async fn end(&mut self) {
        while self.report().await.is_some() {}
    }

    /// A report that is there already, though the runtime may not have seen it yet.
    pub(crate) fn report_there(&mut self) -> Option<Report> {
        let mut bytes = [0; 8 * FRAME];
        if let Ok(length) = (&self.orders).read(&mut bytes) {
            self.inbox.push(&bytes[..length]);
        }
        self.inbox.next().and_then(Report::decode)
    }

    /// Kills the group, the guardian with it. Not to be called after [`group_end`](Self::group_end).
    pub(crate) fn kill(&self) {
        // The guardian has not been waited for, so the number still names its group and no other.
        let _ = kill_process_group(self.group, Signal::KILL);
    }

    /// Waits until no process of the group lives, the guardian among them, after they were killed. May be
    /// dropped and called again.
    pub(crate) async fn group_end(&mut self) {
        while let Ok(None) = self.process.try_wait() {
            sleep(LOOK).await;
        }
        // Without /proc one cannot see whether those left are only waiting to be reaped. They were killed, so
        // it is taken for granted in the end.
        let mut looks = 0;
        while !group_has_ended(self.group).unwrap_or(looks >= BLIND_LOOKS) {
            looks += 1;
            sleep(LOOK).await;
        }
    }

    /// Whether it could be sent. A frame is so short that a socket takes all of it or nothing.
    fn send(&self, order: Order) -> bool {
        (&self.orders).write(&order.encode()).is_ok()
    }
}

impl Drop for Guardian {
    /// Ends one that was not needed. One that was, and its group, have ended before.
    fn drop(&mut self) {
        // Does nothing to a process that was waited for, whose number may be another's by now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The file of this very program, though another may have been installed in its place meanwhile.
fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { env::current_exe() }
}

/// Whether no process of the group lives; `None` where that cannot be seen. Those that have ended may
/// wait to be reaped for ever, by a parent outside the group.
fn group_has_ended(group: Pid) -> Option<bool> {
    match test_kill_process_group(group) {
        Err(Errno::SRCH) => return Some(true),
        // Members of another user, whom /proc may hide.
        Err(Errno::PERM) => return Some(false),
        _ => {}
    }
    if !cfg!(target_os = "linux") {
        return None;
    }
    let mut processes = fs::read_dir("/proc").ok()?.flatten().filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    });
    Some(!processes.any(|entry| may_live_in(&fs::read_to_string(entry.path().join("stat")), group)))
}

/// What cannot be read may be a member, unless it has ended meanwhile.
fn may_live_in(stat: &io::Result<String>, group: Pid) -> bool {
    match stat {
        Ok(stat) => is_live_member(stat, group),
        Err(error) => {
            error.kind() != io::ErrorKind::NotFound
                && error.raw_os_error() != Some(Errno::SRCH.raw_os_error())
        }
    }
}

/// Reads a line of `/proc/PID/stat`: `PID (NAME) STATE PARENT GROUP ...`, with the number of threads as the 18th
/// from STATE on.
fn is_live_member(stat: &str, group: Pid) -> bool {
    // The name may hold anything, parentheses too.
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let mut fields = fields.split(' ');
    let state = fields.next().unwrap_or_default();
    let member = fields.nth(1).and_then(|field| field.parse().ok()) == Some(group.as_raw_pid());
    // A leader that has ended is a zombie for as long as its threads run.
    let threads: Option<u32> = fields.nth(14).and_then(|field| field.parse().ok());
    member && !(matches!(state, "Z" | "X") && threads.is_some_and(|threads| threads <= 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_the_group_are_told_from_others_and_from_those_that_have_ended() {
        let group = Pid::from_raw(77).unwrap();
        assert!(is_live_member("80 (sleep) S 79 77 77 0 -1", group));
        assert!(is_live_member("80 (a) S 1 (b) D 79 77 77 0 -1", group));
        assert!(!is_live_member("80 (sleep) S 79 78 77 0 -1", group));
        let zombie =
            |threads| format!("80 (sleep) Z 79 77 77 0 -1 4228100 0 0 0 0 0 0 0 0 20 0 {threads} 0 5632");
        assert!(!is_live_member(&zombie(1), group));
        assert!(is_live_member(&zombie(2), group), "its threads live");
        assert!(!is_live_member("", group));
    }

    #[test]
    fn what_cannot_be_read_counts_as_alive_unless_it_has_ended() {
        let group = Pid::from_raw(77).unwrap();
        let refused = |errno: Errno| may_live_in(&Err(errno.into()), group);
        assert!(refused(Errno::ACCESS) && refused(Errno::PERM) && refused(Errno::IO));
        assert!(!refused(Errno::NOENT) && !refused(Errno::SRCH));
    }
}
