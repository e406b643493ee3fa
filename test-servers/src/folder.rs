//! Where servers live: below cargo's `target`, each in a folder of its own that is gone with it.

use std::env;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Error, process};

/// All that this crate writes.
pub(crate) fn base() -> Result<PathBuf, Error> {
    let base = target().join("test-servers");
    open_to_all(&base)?;
    // As the kernel names it, so that the folders of processes compare with it.
    base.canonicalize().map_err(Error::while_doing(format_args!("find {}", base.display())))
}

/// The `target` that holds the program that runs; the workspace's for a program elsewhere, as
/// documentation tests are.
fn target() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let holds = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    if let Some(target) = holds {
        return target.to_owned();
    }
    let this_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    // One that is relative is so to the folder where cargo was called: most likely the workspace's.
    this_crate.join("..").join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// A folder that servers under another user can enter, whatever our umask is.
pub(crate) fn open_to_all(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(refused("create", path))?;
    let is_open = fs::metadata(path).is_ok_and(|found| found.mode() & 0o755 == 0o755);
    if is_open {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(refused("open", path))
}

/// Holds the file as long as the answer lives; waits until nobody else does.
pub(crate) fn lock(path: &Path) -> Result<File, Error> {
    let file = File::create(path).map_err(refused("create", path))?;
    file.lock().map_err(refused("lock", path))?;
    Ok(file)
}

/// Holds it as [`lock`] does, but beside others that hold it so.
pub(crate) fn lock_with_others(path: &Path) -> Result<File, Error> {
    let file = File::create(path).map_err(refused("create", path))?;
    file.lock_shared().map_err(refused("lock", path))?;
    Ok(file)
}

/// What another user has made, root in a run with sudo say, stands in our way.
fn refused(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| {
        let way_out = match error.kind() {
            io::ErrorKind::PermissionDenied => "; remove what another user has made there",
            _ => "",
        };
        Error::new(format!("cannot {doing} {}: {error}{way_out}", path.display()))
    }
}

/// Writes a file that servers under another user can read, whatever our umask is.
pub(crate) fn write_for_all(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o644))
}

/// A folder that is removed on drop, and after a death of this process by the next that makes one.
pub(crate) struct Folder {
    path: PathBuf,
    /// Locked as long as we live: the sign for others to leave the folder alone.
    lock: PathBuf,
    _locked: File,
}

impl Folder {
    pub(crate) fn new(name: &str) -> Result<Self, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self::within(&base()?.join("run"), &format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    fn within(run: &Path, name: &str) -> Result<Self, Error> {
        open_to_all(run)?;
        // Held while folders are made and cleared, so that none is cleared between the two steps of its making.
        let _all = lock(&run.join("lock"))?;
        remove_leftovers(run)?;

        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let path = run.join(format!("{name}-{now:x}"));
        let lock = path.with_extension("lock");
        let locked = self::lock(&lock)?;
        open_to_all(&path)?;
        Ok(Self { path, lock, _locked: locked })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // One that outlives its value, and lost it to a panic.
        process::end_all_within(&self.path);
        // What cannot be removed now is removed by the next run, which finds it unlocked.
        if fs::remove_dir_all(&self.path).is_ok() {
            let _ = fs::remove_file(&self.lock);
        }
    }
}

/// Ends and removes what runs that are dead have left behind.
fn remove_leftovers(run: &Path) -> Result<(), Error> {
    let doing = || format!("clear {}", run.display());
    for entry in fs::read_dir(run).map_err(Error::while_doing(doing()))? {
        // Of a folder and its lock either may be left alone.
        let folder = entry.map_err(Error::while_doing(doing()))?.path().with_extension("");
        let lock = folder.with_extension("lock");
        let is_ours = folder == run.join("lock");
        if is_ours || File::open(&lock).is_ok_and(|file| file.try_lock().is_err()) {
            continue;
        }
        process::end_all_within(&folder);
        // One that another user owns stays; it must not keep us from working.
        if fs::remove_dir_all(&folder).is_ok() || !folder.exists() {
            let _ = fs::remove_file(&lock);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dead_left_is_removed_and_what_the_living_have_is_not() {
        let folder = Folder::new("folder").unwrap();
        let run = folder.path().join("run");
        let living = Folder::within(&run, "living").unwrap();
        let [without_lock, with_lock] = ["a-1", "a-2"].map(|name| run.join(name));
        fs::create_dir(&without_lock).unwrap();
        fs::create_dir(&with_lock).unwrap();
        fs::write(run.join("a-2.lock"), "").unwrap();
        fs::write(run.join("a-3.lock"), "").unwrap();
        drop(Folder::within(&run, "next").unwrap());
        let left = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path());
        let mut left: Vec<PathBuf> = left.collect();
        left.sort();
        assert_eq!(left, [living.path().to_owned(), living.lock.clone(), run.join("lock")]);
    }
}
