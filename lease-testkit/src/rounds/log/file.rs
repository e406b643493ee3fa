//! The log as a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Entry;

/// The moment of a line.
pub(crate) fn now() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since_1970.as_millis()).expect("a clock in this age")
}

/// The log as it is written, by many processes at once.
pub(crate) struct Log(File);

/// What the end of a line shows: that the process was not killed in the middle of writing it.
const WHOLE: &str = " .";

impl Log {
    /// A log of its own: no other trial's may be there.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().create_new(true).append(true).open(path)?))
    }

    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().append(true).open(path)?))
    }

    /// One write, so that no other line gets between; a line of its own even behind one torn by a kill.
    pub(crate) fn append(&self, entry: &Entry) {
        (&self.0).write_all(format!("\n{entry}{WHOLE}\n").as_bytes()).expect("the log can be written");
    }
}

/// The log as it is read while it grows.
pub(crate) struct Tail {
    file: File,
    /// What has been read of a line that has not ended.
    begun: String,
}

impl Tail {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, begun: String::new() })
    }

    /// What has come since the last call.
    pub(crate) fn read(&mut self) -> io::Result<Vec<Entry>> {
        self.file.read_to_string(&mut self.begun)?;
        let Some(end) = self.begun.rfind('\n') else { return Ok(Vec::new()) };
        let rest = self.begun.split_off(end + 1);
        let whole = self.begun.lines().filter_map(|line| line.strip_suffix(WHOLE));
        let entries = whole.map(|line| line.parse().map_err(io::Error::other)).collect();
        self.begun = rest;
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;

    #[test]
    fn a_line_that_a_kill_has_torn_is_left_out_and_spoils_no_other() {
        let path = std::env::temp_dir().join(format!("lease-rounds-log-{}", std::process::id()));
        let (log, mut tail) = (Log::create(&path).unwrap(), Tail::open(&path).unwrap());
        assert_eq!(Log::create(&path).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        let entry = |at| Entry { at, worker: 1, event: Event::Done };
        log.append(&entry(1));
        (&log.0).write_all(b"\n2 w1 kil").unwrap();
        assert_eq!(tail.read().unwrap(), [entry(1)]);
        log.append(&entry(3));
        assert_eq!(tail.read().unwrap(), [entry(3)]);
        assert_eq!(tail.read().unwrap(), []);
        std::fs::remove_file(path).unwrap();
    }
}
