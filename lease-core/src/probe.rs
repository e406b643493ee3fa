//! Whether the process that holds a lease on this very host is dead: what no clock says.

use std::fmt;

use crate::process::ProcessFacts;

/// What is known of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It has ended, and everything of the process group it named: proven, not supposed.
    Dead,
    /// It lives, or may: another host, another namespace, no right to look, facts that are missing.
    Unknown,
}

/// Judges the process that made a claim. Supplied by tests and for other platforms; [`HostProbe`] is that of the system.
///
/// It is asked in the middle of a claim and must neither block for long nor guess: who answers
/// [`Dead`](Liveness::Dead) for a process that lives lets a second holder in beside it.
pub trait Probe: fmt::Debug + Send + Sync + 'static {
    /// What is known of the process with these facts.
    fn judge(&self, facts: &ProcessFacts) -> Liveness;
}

/// The probe of this host, on Linux; elsewhere everything is [`Unknown`](Liveness::Unknown).
///
/// Dead is a process whose boot id and whose pid and time namespaces are ours, of which `kill(pid, 0)` says that
/// it does not exist (or whose pid belongs to a process that started at another time), and whose process group is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostProbe;

impl Probe for HostProbe {
    fn judge(&self, facts: &ProcessFacts) -> Liveness {
        system::judge(facts)
    }
}

impl ProcessFacts {
    /// Those of this process; `None` where they cannot be had, as on anything but Linux.
    pub fn current() -> Option<Self> {
        system::current()
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;
    use std::io;
    use std::os::unix::fs::MetadataExt;

    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process, test_kill_process_group};

    use super::{Liveness, ProcessFacts};

    pub(super) fn current() -> Option<ProcessFacts> {
        let pid = i32::try_from(std::process::id()).ok()?;
        // A /proc of another namespace shows other processes under our numbers, and us under one for each namespace in between.
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.trim();
        if numbers != pid.to_string() {
            return None;
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        let namespace = |name: &str| match fs::metadata(format!("/proc/self/ns/{name}")) {
            Ok(namespace) => Some(namespace.ino()),
            // This kernel has none of this kind: all processes since its boot are in the same.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(0),
            Err(_) => None,
        };
        Some(ProcessFacts {
            boot,
            pid_namespace: namespace("pid")?,
            time_namespace: namespace("time")?,
            pid,
            start: start_of(pid)?,
            group: None,
        })
    }

    pub(super) fn judge(facts: &ProcessFacts) -> Liveness {
        let Some(we) = current() else { return Liveness::Unknown };
        let is_near = facts.boot == we.boot
            && facts.pid_namespace == we.pid_namespace
            && facts.time_namespace == we.time_namespace;
        if facts.is_sound() && is_near && is_gone(facts) && facts.group.is_none_or(group_is_empty) {
            Liveness::Dead
        } else {
            Liveness::Unknown
        }
    }

    fn is_gone(facts: &ProcessFacts) -> bool {
        let Some(pid) = Pid::from_raw(facts.pid) else { return false };
        match test_kill_process(pid) {
            Err(Errno::SRCH) => true,
            // Ours or another's: whichever, it can have the number only if it started then.
            Ok(()) | Err(Errno::PERM) => start_of(facts.pid).is_some_and(|start| start != facts.start),
            Err(_) => false,
        }
    }

    fn group_is_empty(group: i32) -> bool {
        Pid::from_raw(group).is_some_and(|group| test_kill_process_group(group) == Err(Errno::SRCH))
    }

    /// When a process started, in ticks since boot. A process that ends meanwhile has none.
    fn start_of(pid: i32) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name, in parentheses, can hold anything. What is behind the last of them are fields 3 and on.
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_ascii_whitespace().nth(19)?.parse().ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Liveness, ProcessFacts};

    pub(super) fn current() -> Option<ProcessFacts> {
        None
    }

    pub(super) fn judge(_: &ProcessFacts) -> Liveness {
        Liveness::Unknown
    }
}
