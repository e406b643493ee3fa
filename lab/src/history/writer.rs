//! The file that a process writes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use super::{Entry, Event};

/// This moment, in nanoseconds of `CLOCK_BOOTTIME`.
///
/// # Panics
///
/// The kernel has no such clock, or it is negative: neither can be on Linux.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec).expect("a clock from boot on") * 1_000_000_000
        + u64::try_from(time.tv_nsec).expect("a part of a second")
}

/// Writes the lines of one incarnation of one process. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct Writer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: File,
    process: u32,
    incarnation: u32,
    numbers: AtomicU64,
}

impl Writer {
    /// The file of an incarnation, in the folder of the history.
    ///
    /// # Errors
    ///
    /// It cannot be made, or is there already: an incarnation writes one file.
    pub fn create(folder: &Path, process: u32, incarnation: u32) -> io::Result<Self> {
        let path = folder.join(format!("process-{process}-{incarnation}.jsonl"));
        let file = OpenOptions::new().create_new(true).append(true).open(path)?;
        Ok(Self(Arc::new(Shared { file, process, incarnation, numbers: AtomicU64::new(1) })))
    }

    /// Writes a line whose moment is now.
    pub fn tell(&self, event: Event) {
        self.write(now(), event);
    }

    /// Writes a line whose moment was read before, in one write.
    ///
    /// # Panics
    ///
    /// The file cannot be written: a history with holes would convict the innocent.
    pub fn write(&self, at: u64, event: Event) {
        let Shared { file, process, incarnation, .. } = &*self.0;
        let entry = Entry { at, process: *process, incarnation: *incarnation, event };
        let mut line = serde_json::to_vec(&entry).expect("an entry is JSON");
        line.push(b'\n');
        (&*file).write_all(&line).expect("the history can be written");
    }

    /// A number that this incarnation has not used: for calls, transactions and faults.
    pub fn number(&self) -> u64 {
        self.0.numbers.fetch_add(1, Ordering::Relaxed)
    }
}
