//! A server's clock that a test moves, with libfaketime.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::unistd::Pid;

use crate::folder::write_for_all;
use crate::{Error, binaries, process};

/// The wall clock of one server. Its monotonic clock stays what it is, as on a real machine whose
/// clock is set.
pub(crate) struct SteppedClock {
    library: PathBuf,
    /// libfaketime reads the offset from here at every reading of the clock.
    file: PathBuf,
    ahead_ms: i64,
}

impl SteppedClock {
    pub(crate) fn new(folder: &Path) -> Result<Self, Error> {
        let library = library().ok_or_else(|| {
            Error::new(
                "libfaketime is not installed; run `cargo xtask test`, which installs it where it may; or on \
                 Debian and Ubuntu `sudo apt-get install libfaketime`",
            )
        })?;
        let mut clock = Self { library, file: folder.join("clock"), ahead_ms: 0 };
        clock.write(0)?;
        Ok(clock)
    }

    pub(crate) fn library(&self) -> &Path {
        &self.library
    }

    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 6] {
        [
            ("FAKETIME_TIMESTAMP_FILE", self.file.clone()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            // The times of files stay real: servers compare them with nothing of ours.
            ("NO_FAKE_STAT", "1".into()),
            ("FAKETIME_DONT_RESET", "1".into()),
            // Its mending of waits on the monotonic clock ends them at once: InnoDB's threads would spin.
            ("FAKETIME_FORCE_MONOTONIC_FIX", "0".into()),
        ]
    }

    pub(crate) fn step(&mut self, seconds: i64) -> Result<(), Error> {
        self.step_ms(seconds.saturating_mul(1000))
    }

    pub(crate) fn step_ms(&mut self, ms: i64) -> Result<(), Error> {
        self.write(self.ahead_ms.saturating_add(ms))
    }

    pub(crate) fn set(&mut self, since_epoch: Duration) -> Result<(), Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.write(millis(since_epoch).saturating_sub(millis(now)))
    }

    fn write(&mut self, ahead_ms: i64) -> Result<(), Error> {
        let doing = || format!("move the clock in {}", self.file.display());
        // Renamed into place: the server reads the whole old offset or the whole new one.
        let new = self.file.with_extension("new");
        write_for_all(&new, &offset(ahead_ms)).map_err(Error::while_doing(doing()))?;
        fs::rename(&new, &self.file).map_err(Error::while_doing(doing()))?;
        self.ahead_ms = ahead_ms;
        Ok(())
    }
}

/// The wall clock of processes that somebody else starts, moved as that of a server is: where a database runs inside the
/// process, this is the database's clock.
///
/// Who reads the kernel's clock without libc, as `rustix` may, sees the true one. The monotonic clocks of all are.
pub struct ProcessClock(SteppedClock);

impl ProcessClock {
    /// A clock that is right, for which a file in this folder stands.
    pub fn new(folder: &Path) -> Result<Self, Error> {
        SteppedClock::new(folder).map(Self)
    }

    /// What a process must have in its environment to go by this clock.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        let preload = ("LD_PRELOAD", self.0.library.clone());
        self.0.environment().into_iter().chain([preload]).collect()
    }

    /// Moves it by milliseconds, at once and for good.
    pub fn step_ms(&mut self, ms: i64) -> Result<(), Error> {
        self.0.step_ms(ms)
    }
}

/// What libfaketime reads: seconds with their sign.
fn offset(ahead_ms: i64) -> String {
    let sign = if ahead_ms < 0 { '-' } else { '+' };
    let ms = ahead_ms.unsigned_abs();
    format!("{sign}{}.{:03}\n", ms / 1000, ms % 1000)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Removes the names of what libfaketime shares between processes: the server has it open by now, and
/// would leave it behind if it were killed, in the way of the next process of that number. So would one
/// that was killed at its start, and is forgotten here too.
pub(crate) fn forget_shared_memory(server: Pid) {
    for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let prefixes = ["faketime_shm_", "sem.faketime_sem_"];
        let pid = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)?.parse().ok());
        let pid = pid.map(Pid::from_raw);
        if pid.is_some_and(|pid| pid == server || process::state(pid).is_none()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The variant for programs with threads.
pub(crate) fn library() -> Option<PathBuf> {
    let places = binaries::below("/usr/lib", "faketime")
        .into_iter()
        .chain(["/usr/lib/faketime", "/usr/lib64/faketime"].map(PathBuf::from));
    places.map(|folder| folder.join("libfaketimeMT.so.1")).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_and_the_dead_share_is_forgotten_and_what_the_living_share_is_not() {
        let name = |pid: i32| PathBuf::from(format!("/dev/shm/faketime_shm_{pid}"));
        let (server, dead, living) = (i32::MAX, i32::MAX - 1, Pid::this().as_raw());
        for pid in [server, dead, living] {
            fs::write(name(pid), "").unwrap();
        }
        forget_shared_memory(Pid::from_raw(server));
        let left = [server, dead, living].map(|pid| name(pid).exists());
        fs::remove_file(name(living)).unwrap();
        assert_eq!(left, [false, false, true]);
    }

    #[test]
    fn an_offset_is_written_with_its_sign_before_the_seconds() {
        assert_eq!(offset(3_600_000), "+3600.000\n");
        assert_eq!(offset(-1_500), "-1.500\n");
        assert_eq!(offset(-20), "-0.020\n");
    }
}
