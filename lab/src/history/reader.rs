//! Reads a history back.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

use super::Entry;

/// All lines of all processes, by moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    entries: Vec<Entry>,
}

impl History {
    /// A history of these lines, in any order.
    pub fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by_key(|entry| entry.at);
        Self { entries }
    }

    /// Reads every `.jsonl` of a folder. The last line of a file may have been torn by a kill, and is left out then.
    ///
    /// # Errors
    ///
    /// A file cannot be read, there is none, or a line that is not the last is no [`Entry`]; the message names file and line.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut entries = Vec::new();
        let mut files = 0;
        for found in folder.read_dir()? {
            let path = found?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                files += 1;
                read_file(&path, &mut entries)?;
            }
        }
        if files == 0 {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("no history in {}", folder.display()),
            ));
        }
        Ok(Self::new(entries))
    }

    /// The lines, by moment.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

fn read_file(path: &Path, entries: &mut Vec<Entry>) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        reader.read_until(b'\n', &mut line)?;
        // Without its end it is the torn one; and nothing is behind that.
        if line.pop() != Some(b'\n') {
            break;
        }
        let entry = serde_json::from_slice(&line).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}:{number}: {error}", path.display()))
        })?;
        entries.push(entry);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write as _;

    use super::*;
    use crate::history::{Event, Writer};

    #[test]
    fn a_line_torn_by_a_kill_is_left_out_and_lines_come_by_moment() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) =
            (Writer::create(folder.path(), 1, 0).unwrap(), Writer::create(folder.path(), 2, 0).unwrap());
        one.write(3, Event::Done);
        other.write(2, Event::Healed);
        one.write(1, Event::Done);
        let path = folder.path().join("process-1-0.jsonl");
        let torn = br#"{"at":4,"process":1,"incarnation":0,"event":"done"}"#;
        for upto in 1..=torn.len() {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            let whole = file.metadata().unwrap().len();
            file.write_all(&torn[..upto]).unwrap();
            let history = History::read(folder.path()).unwrap();
            assert_eq!(history.entries().iter().map(|entry| entry.at).collect::<Vec<_>>(), [1, 2, 3]);
            file.set_len(whole).unwrap();
        }
        assert_eq!(Writer::create(folder.path(), 1, 0).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(History::read(folder.path()).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(folder.path().join("x.jsonl"), "{\"at\":4,\n{}\n").unwrap();
        assert!(History::read(folder.path()).unwrap_err().to_string().contains("x.jsonl:1"));
    }
}
