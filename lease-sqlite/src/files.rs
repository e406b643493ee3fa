//! Which files a connection has open.

use std::fs::Metadata;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use lease_core::ErrorKind;
use lease_core::store::StoreError;

/// The files of an open connection.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) identity: Identity,
    /// In WAL mode. SQLite finds the log by the name of the file, not through the file: with another
    /// log beside it the same file has other rows.
    pub(crate) log: Option<(PathBuf, Identity)>,
}

/// What other threads may know of the files that a connection of the store has. `None`: it has none open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(Arc<Mutex<Option<Files>>>);

impl Known {
    pub(crate) fn tell(&self, files: Option<Files>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }

    pub(crate) fn ask(&self) -> Option<Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Which file it is, whatever its name. Where the system has no such number all files are one, and
/// a replaced file goes unnoticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    pub(crate) fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_: &Metadata) -> Self {
        Self {}
    }
}

/// Refuses a file that somebody may know by another name, and so with another journal or log.
pub(crate) fn has_one_name(metadata: &Metadata) -> Result<(), StoreError> {
    if names(metadata) <= 1 {
        return Ok(());
    }
    let message = "the file has a second name (a hard link), and SQLite keeps its journal by name";
    Err(StoreError::new(ErrorKind::Unsupported, message).with_advice("use one name, or copy the file"))
}

#[cfg(unix)]
fn names(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn names(_: &Metadata) -> u64 {
    1
}
