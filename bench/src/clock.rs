//! Clocks that two processes of one host can compare.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The monotonic clock, which all processes of the host share.
pub(crate) fn now() -> Duration {
    read(ClockId::Monotonic)
}

/// The processor time that this process has used, all threads together.
pub(crate) fn used() -> Duration {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    Duration::from_secs(tv_sec.unsigned_abs()) + Duration::from_nanos(tv_nsec.unsigned_abs())
}
