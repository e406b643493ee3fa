//! The guardian: the small process that stands between `lease run` and its command.
//!
//! It leads a process group of its own, is the parent of the command in it, and knows until when
//! the lease is believed. It is there, idle, before the lease is claimed, so that the claim can record its group: as long
//! as the command runs or may yet be started, that group has a member. So the command ends in time whatever
//! becomes of `lease run`:
//!
//! | what happens | what the guardian does |
//! |---|---|
//! | the deadline passes without a renewal (`lease run` is stopped, the database is away) | SIGTERM to the group, SIGKILL before the grace ends |
//! | `lease run` says that the lease is lost, or dies | the same, at once |
//! | the command ends | reports its wait status, then ends what it left in the group |
//! | it is stopped before it has started the command | nothing; `lease run` kills the group after a while |
//! | the guardian itself is killed | the kernel kills the command (Linux), `lease run` kills the group |
//!
//! [`state`] decides, without I/O; [`watch`] is the process around it; [`handle`] is the side of
//! `lease run`; [`wire`] is what they say to each other.

mod handle;
mod state;
mod watch;
mod wire;

pub(crate) use handle::Guardian;
pub(crate) use watch::main;
pub(crate) use wire::Report;

use std::time::Duration;

use lease_core::Moment;
use rustix::time::{ClockId, clock_gettime};

/// The first argument by which the program knows that it is to be a guardian. Not for people.
pub(crate) const SUBCOMMAND: &str = "__guardian";

/// The clock of [`lease_core::SystemClock`], which all processes of a machine share.
fn now() -> Moment {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    Moment::new(Duration::try_from(clock_gettime(clock)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use lease_core::{Clock, SystemClock};

    #[test]
    fn the_guardian_reads_the_clock_that_leases_are_counted_by() {
        let clock = SystemClock::shared().unwrap();
        let (before, between, after) = (clock.now(), super::now(), clock.now());
        assert!(before <= between && between <= after);
    }
}
