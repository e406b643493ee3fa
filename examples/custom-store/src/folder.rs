//! The database: a folder with a table in one file, a lock, and the machine's clock.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lease_core::ErrorKind;
use lease_core::store::{StoreError, millis};

use crate::table::Table;

/// What a statement may do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A folder that keeps leases.
#[derive(Debug, Clone)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// Runs a statement alone on the table, and returns its answer once what it changed is on disk.
    ///
    /// One try: while others hold the lock it fails as busy.
    pub(crate) fn run<T>(
        &self,
        access: Access,
        statement: impl FnOnce(&mut Table) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _lock = self.locked(access)?;
        let before = fs::read_to_string(self.table()).map_err(unchanged)?;
        // The clock is read only now, under the lock: nobody's reading is older than a change it did not see.
        let mut table = Table::read(&before, now()).map_err(StoreError::without_effect)?;
        let answer = statement(&mut table).map_err(StoreError::without_effect)?;
        if matches!(access, Access::Write) {
            let after = table.text();
            if after != before {
                fs::rename(self.write_beside(&after)?, self.table()).map_err(unchanged)?;
            }
            // Until the folder is on disk, a crash may bring back the old table: also one that another process
            // replaced before it ended, or failed, at this very place. So nothing is answered without this.
            sync(&self.0).map_err(error)?;
        }
        Ok(answer)
    }

    /// Whether statements can do what they have to, short of changing the table. One try, as [`run`](Self::run).
    pub(crate) fn check(
        &self,
        look: impl FnOnce(&mut Table) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.run(Access::Write, |table| {
            look(table)?;
            fs::remove_file(self.write_beside(&table.text())?).map_err(unchanged)
        })
    }

    /// Makes the folder (not its parent) and an empty table, if they are missing. One try, as
    /// [`run`](Self::run).
    pub(crate) fn make(&self) -> Result<(), StoreError> {
        match fs::create_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let missing = StoreError::new(ErrorKind::Invalid, "the parent of the folder is missing");
                return Err(missing.with_advice("make it first").with_source(error).without_effect());
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(unchanged(error)),
            _ => {}
        }
        // Every time: whoever made the folder may have ended before it was on disk.
        sync(&self.0.join("..")).map_err(error)?;
        File::options().create(true).append(true).open(self.lock()).map_err(unchanged)?;
        let _lock = self.locked(Access::Write)?;
        if !self.table().try_exists().map_err(unchanged)? {
            fs::rename(self.write_beside(&Table::empty().text())?, self.table()).map_err(unchanged)?;
        }
        sync(&self.0).map_err(error)
    }

    /// The lock, unless others have it. It is given back when the file is closed: at the end of the
    /// statement, also when that is the end of the process.
    fn locked(&self, access: Access) -> Result<File, StoreError> {
        let lock = File::options().read(true).write(true).open(self.lock()).map_err(unchanged)?;
        let locked = match access {
            Access::Read => lock.try_lock_shared(),
            Access::Write => lock.try_lock(),
        };
        match locked {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => {
                Err(StoreError::new(ErrorKind::Busy, "others keep the folder locked").without_effect())
            }
            Err(TryLockError::Error(error)) => Err(unchanged(error)),
        }
    }

    /// Writes a table to disk beside the one in use. Renamed to that, it takes its place: whole or not at
    /// all, whenever the power fails.
    fn write_beside(&self, table: &str) -> Result<PathBuf, StoreError> {
        let new = self.0.join("leases.tsv.new");
        let mut file = File::create(&new).map_err(unchanged)?;
        file.write_all(table.as_bytes()).and_then(|()| file.sync_all()).map_err(unchanged)?;
        Ok(new)
    }

    fn table(&self) -> PathBuf {
        self.0.join("leases.tsv")
    }

    /// A file of its own, since the table's is another one after each change.
    fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }
}

/// Writes to disk what is in a folder: which names there are, and which files they name.
fn sync(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// The database's clock: that of the machine.
fn now() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, millis)
}

/// An error after which the table is surely the old one.
fn unchanged(source: io::Error) -> StoreError {
    error(source).without_effect()
}

fn error(source: io::Error) -> StoreError {
    let (kind, message) = match source.kind() {
        io::ErrorKind::InvalidData => (ErrorKind::Damaged, "the table is not text"),
        io::ErrorKind::NotFound => (ErrorKind::Schema, "there is no table in the folder"),
        io::ErrorKind::PermissionDenied => (ErrorKind::Denied, "the folder cannot be read and written"),
        io::ErrorKind::ReadOnlyFilesystem => (ErrorKind::ReadOnly, "the file system is read-only"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (ErrorKind::Full, "the disk is full"),
        _ => (ErrorKind::Other, "the folder cannot be used"),
    };
    StoreError::new(kind, message).with_source(source)
}
