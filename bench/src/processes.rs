//! What `/proc` tells of processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::Outcome;
use crate::database::Database;

/// The server's process, with all that it has started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Server(u32);

/// How a server's program may be called: the number in its file could be another machine's.
const PROGRAMS: [&str; 4] = ["postgres", "mariadbd", "mysqld", "postmaster"];

impl Server {
    /// None where there is no such process, or where it cannot be found from here.
    pub(crate) async fn of(database: &mut Database) -> Outcome<Option<Self>> {
        let Some(file) = database.pid_file().await? else { return Ok(None) };
        let pid = fs::read_to_string(file).ok().and_then(|text| text.lines().next()?.trim().parse().ok());
        let is_server = |pid: &u32| is_server(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
        Ok(pid.filter(is_server).map(Self))
    }

    /// The processor time of all of them up to now, with those that have ended.
    pub(crate) fn used(self) -> Duration {
        let ticks = of_tree(&processes(), self.0);
        Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100)
    }
}

/// Whether a server's program is called, by the loader of another system's libraries even.
fn is_server(words: &[u8]) -> bool {
    let mut words =
        words.split(|byte| *byte == 0).filter_map(|word| word.rsplit(|byte| *byte == b'/').next());
    words.any(|word| PROGRAMS.iter().any(|program| program.as_bytes() == word))
}

/// The memory of this process that is in the machine's, in bytes; 0 where it is not told.
pub(crate) fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    resident_of(&status).unwrap_or(0)
}

fn resident_of(status: &str) -> Option<u64> {
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(kilobytes.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// One line of `/proc/<pid>/stat`, as far as it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    /// Ticks of its own, in itself and in the kernel, and of its children that have ended.
    ticks: u64,
}

impl Process {
    fn read(line: &str) -> Option<Self> {
        // The name between may hold anything.
        let (pid, rest) = line.split_once(" (")?;
        let fields: Vec<&str> = rest.rsplit_once(") ")?.1.split(' ').collect();
        let numbers = fields.get(11..15)?.iter().map(|field| field.parse::<u64>());
        let ticks = numbers.sum::<Result<u64, _>>().ok()?;
        Some(Self { pid: pid.parse().ok()?, parent: fields.get(1)?.parse().ok()?, ticks })
    }
}

fn processes() -> Vec<Process> {
    let folders = fs::read_dir(Path::new("/proc")).into_iter().flatten().flatten();
    let lines = folders.filter_map(|folder| fs::read_to_string(folder.path().join("stat")).ok());
    lines.filter_map(|line| Process::read(&line)).collect()
}

/// The ticks of one and of all that descend from it.
fn of_tree(processes: &[Process], root: u32) -> u64 {
    let mut tree = BTreeSet::from([root]);
    loop {
        let before = tree.len();
        tree.extend(
            processes.iter().filter(|one| tree.contains(&one.parent)).map(|one| one.pid).collect::<Vec<_>>(),
        );
        if tree.len() == before {
            return processes.iter().filter(|one| tree.contains(&one.pid)).map(|one| one.ticks).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_program_is_called() {
        let line = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 55 66 77";
        assert_eq!(Process::read(line), Some(Process { pid: 42, parent: 7, ticks: 127 }));
        assert_eq!(Process::read("42 (a) S 7"), None);
        assert_eq!(Process::read(""), None);
    }

    #[test]
    fn a_server_is_known_by_its_program_however_it_is_started() {
        assert!(is_server(b"/usr/lib/postgresql/15/bin/postgres\0-D\0/x\0"));
        assert!(is_server(
            b"/y/lib/ld-linux-x86-64.so.2\0--library-path\0/y/lib\0/y/sbin/mysqld\0--port=1\0"
        ));
        assert!(!is_server(b"grep\0mysqld.pid\0"));
        assert!(!is_server(b""));
    }

    #[test]
    fn a_tree_is_all_that_descend_and_nothing_else() {
        let process = |pid, parent, ticks| Process { pid, parent, ticks };
        let all = [process(5, 3, 1000), process(3, 2, 100), process(2, 1, 10), process(4, 1, 1)];
        assert_eq!(of_tree(&all, 2), 1110);
        assert_eq!(of_tree(&all, 9), 0);
    }

    #[test]
    fn memory_is_told_in_kilobytes() {
        assert_eq!(resident_of("VmHWM:\t  9 kB\nVmRSS:\t    1234 kB\n"), Some(1234 * 1024));
        assert_eq!(resident_of("Name:\tbench\n"), None);
        assert!(resident() > 100_000);
    }
}
