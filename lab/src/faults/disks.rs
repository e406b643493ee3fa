//! Small disks that can be full: memory file systems that this process and those it starts see, and nobody else.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::Failure;

/// Where the disks are, in the environment of a process that has them.
const VARIABLE: &str = "LEASE_LAB_DISKS";

/// So many histories can have one at the same time.
const COUNT: usize = 4;

/// Room for a file with all its log, and no more.
const MOUNT: &str = r#"base="$1"; shift
for n in 0 1 2 3; do mkdir -p "$base/$n" && mount -t tmpfs -o size=16m,mode=755 none "$base/$n" || exit 3; done
exec "$@""#;

/// The disks that this process has, those not in use.
pub(crate) struct Disks(Mutex<Vec<PathBuf>>);

/// A disk in use, empty.
pub(crate) struct Disk<'a> {
    disks: &'a Disks,
    path: PathBuf,
}

impl Disks {
    /// None, or those of a process that [`have`] has made.
    pub(crate) fn of_this_process() -> Self {
        let base = env::var_os(VARIABLE).map(PathBuf::from);
        let all = base.into_iter().flat_map(|base| (0..COUNT).map(move |n| base.join(n.to_string())));
        Self(Mutex::new(all.collect()))
    }

    /// One that nobody uses.
    pub(crate) fn take(&self) -> Option<Disk<'_>> {
        let path = self.free().pop()?;
        Some(Disk { disks: self, path })
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk<'_> {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            // What cannot be removed is in the way of the next, which says so.
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
        self.disks.free().push(self.path.clone());
    }
}

/// Has this process begin anew with small disks mounted below that folder; returns where it has them already, and with the reason
/// when the system does not allow it. A user who is not root becomes one in a name space of their own, in which servers would not
/// run: so only root has both.
pub(crate) fn have(folder: &Path, with_servers: bool) -> Result<(), Failure> {
    if env::var_os(VARIABLE).is_some() {
        return Ok(());
    }
    let is_root = rustix::process::geteuid().is_root();
    if with_servers && !is_root {
        return Err("small disks and servers together need root; attack sqlite by itself".into());
    }
    std::fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let flags: &[&str] = if is_root { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(flags);
        command
    };
    // Tried before, for there is no way back.
    let tried = unshare().args(["mount", "-t", "tmpfs", "none"]).arg(&folder).output();
    let why = match tried {
        Ok(tried) if tried.status.success() => None,
        Ok(tried) => Some(String::from_utf8_lossy(&tried.stderr).trim().to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = why {
        return Err(format!("no small disk can be mounted: {why}").into());
    }
    let mut command = unshare();
    command
        .args(["sh", "-c", MOUNT, "sh"])
        .arg(&folder)
        .arg(env::current_exe()?)
        .args(env::args_os().skip(1));
    let failed: io::Error = command.env(VARIABLE, &folder).exec();
    Err(failed.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_had_by_one_at_a_time_and_given_back_empty() {
        let folder = tempfile::tempdir().unwrap();
        let disks = Disks(Mutex::new(vec![folder.path().to_owned()]));
        let disk = disks.take().unwrap();
        assert!(disks.take().is_none());
        std::fs::create_dir(disk.path().join("file")).unwrap();
        std::fs::write(disk.path().join("file/x"), "x").unwrap();
        drop(disk);
        assert!(disks.take().unwrap().path().read_dir().unwrap().next().is_none());
    }
}
