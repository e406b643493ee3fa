//! Servers that outlive the command that started them: `cargo xtask db`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::binaries::Binaries;
use crate::folder::{self, base, open_to_all};
use crate::instance::{Instance, within};
use crate::process::{self, send};
use crate::{Error, Product, Setup, data};

/// A server that [`up`] left running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The product and its version, for people.
    pub version: String,
    /// The URL of its superuser.
    pub url: String,
    pid: i32,
}

/// What [`up`] left of the product's server. All that ask wait for an [`up`] and a [`down`] under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// The server runs.
    Running(Kept),
    /// It runs and nobody can find it: its start was interrupted or its folder removed. [`down`] ends it.
    Astray,
    /// There is none.
    Nothing,
}

/// Starts the product's server if it does not run, and lets it run on.
pub fn up(product: Product) -> Result<Kept, Error> {
    up_in(&home(product)?, product)
}

/// What [`up`] left of the product's server.
pub fn left(product: Product) -> Result<Left, Error> {
    left_in(&home(product)?)
}

/// The product's server that [`up`] left running, if it still runs.
pub fn kept(product: Product) -> Result<Option<Kept>, Error> {
    Ok(match left(product)? {
        Left::Running(kept) => Some(kept),
        Left::Astray | Left::Nothing => None,
    })
}

/// Stops the product's server that [`up`] left running and removes its data; answers what ran.
pub fn down(product: Product) -> Result<Left, Error> {
    down_in(&home(product)?, product)
}

fn up_in(home: &Path, product: Product) -> Result<Kept, Error> {
    let _lock = lock(home)?;
    if let Left::Running(kept) = look(home) {
        return Ok(kept);
    }
    // One whose folder was removed, by `cargo clean` say, is not found any more but still runs.
    process::end_all_within(home);
    remove(home)?;
    open_to_all(home)?;
    let binaries = Binaries::find(product)?;
    let mut instance = Instance::start(binaries, home, Setup::default(), false, data::create)?;
    let pid = instance.pid().map_or(0, Pid::as_raw);
    let kept = Kept { version: instance.version(), url: product.url(instance.port), pid };
    if let Err(error) = fs::write(state_file(home), kept.state()) {
        instance.end_at_once();
        return Err(Error::while_doing(format_args!("write {}", state_file(home).display()))(error));
    }
    Ok(kept)
}

fn left_in(home: &Path) -> Result<Left, Error> {
    let _lock = lock(home)?;
    Ok(look(home))
}

fn down_in(home: &Path, product: Product) -> Result<Left, Error> {
    let _lock = lock(home)?;
    let left = look(home);
    if let Left::Running(kept) = &left {
        // The way of each to end without waiting for its sessions.
        let signal = if product == Product::Postgres { Signal::SIGINT } else { Signal::SIGTERM };
        send(Pid::from_raw(kept.pid), signal);
        within(Duration::from_secs(30), || !kept.runs_in(home));
    }
    process::end_all_within(home);
    remove(home)?;
    Ok(left)
}

/// Under the lock: without it a start under way is taken for one that was interrupted.
fn look(home: &Path) -> Left {
    let state = fs::read_to_string(state_file(home)).ok();
    match state.and_then(|state| Kept::read(&state)).filter(|kept| kept.runs_in(home)) {
        Some(kept) => Left::Running(kept),
        None if process::all_within(home).is_empty() => Left::Nothing,
        None => Left::Astray,
    }
}

impl Kept {
    /// Whether the process of this number is still that server: only a server of ours works in its data.
    fn runs_in(&self, home: &Path) -> bool {
        process::all_within(&home.join("data")).contains(&Pid::from_raw(self.pid))
    }

    fn state(&self) -> String {
        format!("{}\n{}\n{}\n", self.pid, self.url, self.version)
    }

    fn read(state: &str) -> Option<Self> {
        let mut lines = state.lines();
        let pid = lines.next()?.parse().ok()?;
        let url = lines.next()?.to_owned();
        Some(Self { pid, url, version: lines.next()?.to_owned() })
    }
}

fn home(product: Product) -> Result<PathBuf, Error> {
    Ok(base()?.join("up").join(product.name()))
}

fn lock(home: &Path) -> Result<File, Error> {
    home.parent().map_or(Ok(()), open_to_all)?;
    folder::lock(&home.with_extension("lock"))
}

fn state_file(home: &Path) -> PathBuf {
    home.join("state")
}

fn remove(home: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(home) {
        Err(error) if home.exists() => {
            Err(Error::while_doing(format_args!("remove {}", home.display()))(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use super::*;
    use crate::folder::Folder;

    #[test]
    fn a_kept_server_is_found_until_it_is_stopped() {
        let folder = Folder::new("kept").unwrap();
        let home = folder.path().join("up");
        let up = up_in(&home, Product::Postgres).unwrap();
        assert_eq!(left_in(&home).unwrap(), Left::Running(up.clone()));
        assert_eq!(up_in(&home, Product::Postgres).unwrap(), up);
        assert_eq!(down_in(&home, Product::Postgres).unwrap(), Left::Running(up));
        assert_eq!(left_in(&home).unwrap(), Left::Nothing);
        assert_eq!(process::all_within(&home), []);
        assert!(!home.exists());
        assert_eq!(down_in(&home, Product::Postgres).unwrap(), Left::Nothing);
    }

    #[test]
    fn two_who_start_a_server_at_once_have_one_and_who_asks_meanwhile_waits_for_it() {
        let folder = Folder::new("kept").unwrap();
        let home = folder.path().join("up");
        let (one, other) = thread::scope(|scope| {
            let start = || scope.spawn(|| up_in(&home, Product::MariaDb).unwrap());
            let (one, other) = (start(), start());
            while !home.exists() {
                thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(left_in(&home).unwrap(), Left::Running(one.join().unwrap()));
            (left_in(&home).unwrap(), other.join().unwrap())
        });
        assert_eq!(one, Left::Running(other));
        assert_eq!(process::all_within(&home).len(), 1);
    }

    #[test]
    fn a_server_whose_folder_was_removed_is_seen_and_ended_all_the_same() {
        let folder = Folder::new("kept").unwrap();
        let home = folder.path().join("up");
        up_in(&home, Product::MariaDb).unwrap();
        fs::remove_dir_all(&home).unwrap();
        assert_eq!(left_in(&home).unwrap(), Left::Astray);
        assert_eq!(down_in(&home, Product::MariaDb).unwrap(), Left::Astray);
        assert_eq!(process::all_within(&home), []);
    }

    #[test]
    fn a_server_that_a_panic_left_behind_ends_with_its_folder() {
        let folder = Folder::new("kept").unwrap();
        let home = folder.path().join("up");
        up_in(&home, Product::MariaDb).unwrap();
        drop(folder);
        assert_eq!(process::all_within(&home), []);
    }

    #[test]
    fn a_process_that_has_the_number_of_a_server_is_no_server_and_is_not_stopped() {
        let folder = Folder::new("kept").unwrap();
        let home = folder.path().join("up");
        open_to_all(&home).unwrap();
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        let url = "mysql://root@127.0.0.1:15001/test".to_owned();
        let pid = other.id().try_into().unwrap();
        let kept = Kept { version: "MySQL 9.7.4".to_owned(), url, pid };
        fs::write(state_file(&home), kept.state()).unwrap();
        assert_eq!(left_in(&home).unwrap(), Left::Nothing);
        assert_eq!(down_in(&home, Product::MySql).unwrap(), Left::Nothing);
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_state_file_is_read_as_it_was_written() {
        let url = "mysql://root@127.0.0.1:15001/test".to_owned();
        let kept = Kept { version: "MySQL 9.7.4".to_owned(), url, pid: 77 };
        assert_eq!(Kept::read(&kept.state()), Some(kept.clone()));
    }

    #[test]
    fn a_state_file_that_is_cut_off_names_no_server() {
        assert_eq!(Kept::read("77\nmysql://root@127.0.0.1:15001/test\n"), None);
        assert_eq!(Kept::read(""), None);
    }
}
