//! What befalls a file.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::faults::Failure;
use crate::faults::ledger::sqlite;
use crate::faults::world::World;

/// What SQLite keeps beside a file.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

impl World {
    fn path(&self) -> &Path {
        Path::new(&self.direct.at)
    }

    fn folder(&self) -> Result<&Path, Failure> {
        Ok(self.path().parent().ok_or("a file is in a folder")?)
    }

    /// Neither the file nor its folder can be written by who opens it now.
    pub(super) async fn file_read_only(&self, lasts: Duration) -> Result<(), Failure> {
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        mode(self.path(), 0o444)?;
        mode(self.folder()?, 0o555)?;
        sleep(lasts).await;
        mode(self.folder()?, 0o755)?;
        mode(self.path(), 0o644)?;
        Ok(())
    }

    /// Puts another file of the same content at the path, of whose rows none is missed: nobody writes while it is copied. With time
    /// to last there is no file meanwhile.
    pub(super) async fn replace(&self, lasts: Duration) -> Result<bool, Failure> {
        let (path, copy) = (self.path().to_owned(), self.path().with_extension("copy"));
        let old = self.path().with_extension("old");
        let lock = sqlite::locked(text(&path)?).await?;
        block_in_place(|| -> Result<(), Failure> {
            sqlite::connect(text(&path)?)?.execute("VACUUM INTO ?1", [text(&copy)?])?;
            // The journal mode is not copied.
            Connection::open(&copy)?.query_row("PRAGMA journal_mode = wal", [], |_| Ok(()))?;
            rename(&path, &old)
        })?;
        sleep(lasts).await;
        rename(&copy, &path)?;
        lock.execute_batch("ROLLBACK")?;
        drop(lock);
        remove(&old);
        Ok(true)
    }

    /// Leaves no byte on the disk of the file for so long. `false`: the disk is no small one of the history's own.
    pub(super) async fn fill_disk(&self, lasts: Duration) -> Result<bool, Failure> {
        let disk = self.folder()?;
        let free = |disk: &Path| -> Result<u64, Failure> {
            let stat = rustix::fs::statvfs(disk)?;
            Ok(stat.f_bavail * stat.f_frsize)
        };
        if free(disk)? > SMALL {
            return Ok(false);
        }
        let filler = disk.join("filler");
        block_in_place(|| -> Result<(), Failure> {
            use std::io::Write as _;
            let mut file = fs::File::create(&filler)?;
            // Until there is no room.
            while file.write_all(&[0; 4096]).is_ok() {}
            Ok(())
        })?;
        sleep(lasts).await;
        fs::remove_file(&filler)?;
        Ok(true)
    }
}

/// A disk with more room than this is no small one.
const SMALL: u64 = 64 << 20;

/// Moves a database with what is beside it.
fn rename(from: &Path, to: &Path) -> Result<(), Failure> {
    for beside in BESIDE {
        let _ = fs::remove_file(with(to, beside));
    }
    fs::rename(from, to)?;
    for beside in BESIDE {
        let _ = fs::rename(with(from, beside), with(to, beside));
    }
    Ok(())
}

fn remove(path: &Path) {
    for beside in BESIDE {
        let _ = fs::remove_file(with(path, beside));
    }
    let _ = fs::remove_file(path);
}

fn with(path: &Path, beside: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(beside);
    path.into()
}

fn text(path: &Path) -> Result<&str, Failure> {
    Ok(path.to_str().ok_or("the path is no text")?)
}
