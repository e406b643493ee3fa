//! Lends the terminal to the command, which runs in a process group of its own.
//!
//! A terminal lets one group read at a time and stops the others that try. So the terminal is lent
//! when the command is stopped for asking, not before: a pager at the other end of a pipe shares our
//! group and needs the terminal too.

use std::fs::File;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The controlling terminal, if there is one.
#[derive(Debug)]
pub(crate) struct Terminal(Option<File>);

impl Terminal {
    pub(crate) fn open() -> Self {
        Self(File::open("/dev/tty").ok())
    }

    /// Gives the terminal to a group if it is ours to give, and says whether the group has it now.
    pub(crate) fn lend(&self, group: Pid) -> bool {
        let Some(tty) = &self.0 else { return false };
        match tcgetpgrp(tty) {
            Ok(foreground) if foreground == getpgrp() => tcsetpgrp(tty, group).is_ok(),
            foreground => foreground == Ok(group),
        }
    }

    /// Takes the terminal back from a group if it has it.
    pub(crate) fn take_back(&self, group: Pid) {
        let Some(tty) = &self.0 else { return };
        if tcgetpgrp(tty) != Ok(group) {
            return;
        }
        // A background process that changes the terminal is stopped, unless this signal is blocked.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        let before = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let _ = tcsetpgrp(tty, getpgrp());
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
    }
}
