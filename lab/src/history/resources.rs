//! What a process uses.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// What a process, or the server, uses at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Of what: empty for the process that writes, else a word for it (`server`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// Resident memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// Open file descriptors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fds: Option<u64>,
    /// Threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// Tasks of the async runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// Connections to the database, as the server counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
}

impl Sample {
    /// Of this process, from `/proc/self`.
    ///
    /// # Errors
    ///
    /// `/proc` cannot be read.
    pub fn of_this_process() -> io::Result<Self> {
        Self::read("self")
    }

    /// Of another, from `/proc/PID`.
    ///
    /// # Errors
    ///
    /// There is none, or it may not be looked at.
    pub fn of_process(pid: u32, of: &str) -> io::Result<Self> {
        Ok(Self { of: of.to_owned(), ..Self::read(&pid.to_string())? })
    }

    fn read(pid: &str) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let fds = fs::read_dir(format!("/proc/{pid}/fd"))?.count();
        Ok(Self {
            rss_bytes: number("VmRSS:").map(|kib| kib * 1024),
            fds: u64::try_from(fds).ok(),
            threads: number("Threads:"),
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_say_what_it_uses() {
        let sample = Sample::of_this_process().unwrap();
        assert!(
            sample.rss_bytes.unwrap() > 100_000 && sample.fds.unwrap() > 2 && sample.threads.unwrap() > 0
        );
    }
}
