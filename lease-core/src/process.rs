//! Facts by which a process on the same host can tell whether the one that claimed still lives.

use std::fmt;
use std::str::FromStr;

use crate::store::IDENTITY_MAX_BYTES;

/// What a process records about itself at a claim, for the [probe](crate::Probe) of others on its host.
///
/// As text, the `process` column: `boot=… pidns=… timens=… pid=… start=… group=…`, the last left out without a group
/// of its own. Machines cloned while they run share a boot id; their namespaces may be told apart no better.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProcessFacts {
    /// The id the kernel drew at boot.
    pub boot: String,
    /// The inode of the pid namespace, in which alone `pid` means something.
    pub pid_namespace: u64,
    /// The inode of the time namespace, in which alone `start` means something.
    pub time_namespace: u64,
    /// The process.
    pub pid: i32,
    /// When it started, in the kernel's ticks since boot: a pid that was given out again has another.
    pub start: u64,
    /// The process group of the command that runs under the lease: none of it may live either.
    pub group: Option<i32>,
}

impl fmt::Display for ProcessFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { boot, pid_namespace, time_namespace, pid, start, group } = self;
        write!(f, "boot={boot} pidns={pid_namespace} timens={time_namespace} pid={pid} start={start}")?;
        group.map_or(Ok(()), |group| write!(f, " group={group}"))
    }
}

/// A text that is not what a [`ProcessFacts`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the facts of a process")]
pub struct NotProcessFacts;

impl FromStr for ProcessFacts {
    type Err = NotProcessFacts;

    /// Facts that are missing, damaged, doubled or unknown are no facts: who judges by them must not guess.
    fn from_str(text: &str) -> Result<Self, NotProcessFacts> {
        // One that fills its column may have been cut, a group with it.
        let is_whole = text.is_ascii() && text.len() < IDENTITY_MAX_BYTES;
        let facts = if is_whole { parse(text) } else { None };
        facts.filter(|facts| facts.is_sound() && facts.to_string() == text).ok_or(NotProcessFacts)
    }
}

fn parse(text: &str) -> Option<ProcessFacts> {
    let mut words = text.split(' ');
    let mut next = |key| words.next()?.strip_prefix(key);
    Some(ProcessFacts {
        boot: next("boot=")?.to_owned(),
        pid_namespace: next("pidns=")?.parse().ok()?,
        time_namespace: next("timens=")?.parse().ok()?,
        pid: next("pid=")?.parse().ok()?,
        start: next("start=")?.parse().ok()?,
        group: match words.next() {
            None => None,
            Some(word) => Some(word.strip_prefix("group=")?.parse().ok()?),
        },
    })
}

impl ProcessFacts {
    /// A pid of 0 or below, or 1 as a group, would ask the kernel something else.
    pub(crate) fn is_sound(&self) -> bool {
        !self.boot.is_empty() && self.pid > 0 && self.group.is_none_or(|group| group > 1)
    }
}
