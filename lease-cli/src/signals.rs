//! Which signals are passed on, and which `lease` was started to ignore.

use std::fs;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// What `lease run` passes on to the command. The guardian, in the command's group, survives them.
pub(crate) const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// The signals that this process was started to ignore: `nohup` and a shell's `&` do that, and the
/// command inherits it as it would without `lease` in between.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ignored(u64);

impl Ignored {
    /// Reads the set. To be called before handlers are installed: they replace what was ignored.
    pub(crate) fn at_start() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self(parse(&status).unwrap_or(0))
    }

    pub(crate) fn contains(self, signal: i32) -> bool {
        self.0 >> (signal - 1) & 1 == 1
    }
}

fn parse(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_read_from_the_status_of_the_process() {
        let ignored = Ignored(parse("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n").unwrap());
        assert!(ignored.contains(SIGHUP));
        assert!(ignored.contains(signal_hook::consts::SIGPIPE));
        assert!(!ignored.contains(SIGTERM));
        assert!(parse("Name:\tx\n").is_none());
    }
}
