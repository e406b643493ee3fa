//! A process that is traced, and killed at one of the system calls by which it touches the files in a folder.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::libc::{self, c_long};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The call at which the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    /// Counted from 1.
    pub(crate) n: usize,
    /// When it has returned, instead of before it begins.
    pub(crate) is_after: bool,
}

/// Lets a process of a group of its own go, kills it where it is to be killed, and waits for its end. Says how many calls
/// had begun, and whether it was killed.
///
/// The kernel tells the thread that traces: all of it is done on one.
pub(crate) fn trace(process: u32, folder: &Path, at: Option<At>, go: impl FnOnce()) -> (usize, bool) {
    let process = Pid::from_raw(process.try_into().unwrap());
    seize(process);
    go();
    let (mut begun, mut is_killed) = (0, false);
    // The threads that are inside a call, and those of them whose call is the one.
    let (mut inside, mut at_it) = (HashSet::new(), None);
    loop {
        match waitpid(Pid::from_raw(-process.as_raw()), Some(WaitPidFlag::__WALL)).unwrap() {
            WaitStatus::PtraceSyscall(thread) => {
                let kill_now = if inside.remove(&thread) {
                    at_it == Some(thread)
                } else {
                    inside.insert(thread);
                    begun += usize::from(touches(process, thread, folder));
                    let is_it = at_it.is_none() && at.is_some_and(|at| at.n == begun);
                    at_it = at_it.or(is_it.then_some(thread));
                    is_it && at.is_some_and(|at| !at.is_after)
                };
                if kill_now && !is_killed {
                    kill(process, Signal::SIGKILL).unwrap();
                    is_killed = true;
                }
                go_on(thread, None);
            }
            WaitStatus::Stopped(thread, signal) => go_on(thread, Some(signal)),
            WaitStatus::PtraceEvent(thread, ..) => go_on(thread, None),
            WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, ..) if thread == process => {
                return (begun, is_killed);
            }
            _ => {}
        }
    }
}

/// Has all threads stop at each call from now on.
fn seize(process: Pid) {
    let mut seized = HashSet::new();
    loop {
        let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().map_while(Result::ok);
        let threads = threads.map(|thread| thread.file_name().to_str().unwrap().parse().unwrap());
        let new: Vec<i32> = threads.filter(|thread| !seized.contains(thread)).collect();
        if new.is_empty() {
            return;
        }
        for thread in new {
            seized.insert(thread);
            let thread = Pid::from_raw(thread);
            let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE;
            ptrace::seize(thread, options).expect("a system that lets a process trace its child");
            ptrace::interrupt(thread).unwrap();
            waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
            go_on(thread, None);
        }
    }
}

fn go_on(thread: Pid, signal: Option<Signal>) {
    match ptrace::syscall(thread, signal) {
        // It has been killed meanwhile.
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Whether the call that the thread begins changes, locks, makes or removes a file of the folder.
fn touches(process: Pid, thread: Pid, folder: &Path) -> bool {
    let Some((call, first)) = call(thread) else { return false };
    if makes_or_removes(call) {
        return true;
    }
    let by_descriptor = [
        libc::SYS_write,
        libc::SYS_pwrite64,
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_fcntl,
    ];
    by_descriptor.contains(&call)
        && fs::read_link(format!("/proc/{process}/fd/{first}")).is_ok_and(|file| file.starts_with(folder))
}

#[cfg(target_arch = "x86_64")]
fn makes_or_removes(call: c_long) -> bool {
    [libc::SYS_open, libc::SYS_openat, libc::SYS_unlink, libc::SYS_unlinkat, libc::SYS_rename].contains(&call)
}

#[cfg(not(target_arch = "x86_64"))]
fn makes_or_removes(call: c_long) -> bool {
    [libc::SYS_openat, libc::SYS_unlinkat].contains(&call)
}

/// Its number and its first argument; `None` of a thread that is gone.
#[cfg(target_arch = "x86_64")]
fn call(thread: Pid) -> Option<(c_long, u64)> {
    let registers = ptrace::getregs(thread).ok()?;
    Some((registers.orig_rax.cast_signed(), registers.rdi))
}

#[cfg(target_arch = "aarch64")]
fn call(thread: Pid) -> Option<(c_long, u64)> {
    let registers = ptrace::getregs(thread).ok()?;
    Some((registers.regs[8].cast_signed(), registers.regs[0]))
}
