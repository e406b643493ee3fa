//! Paths as they are given.

use std::path::{Path, PathBuf};

use lease_core::ErrorKind;
use lease_core::store::StoreError;

/// The path from the root on, so that a change of the working folder changes nothing.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let problem = if bytes.is_empty() || bytes == b":memory:" {
        "a database in memory protects nothing, for no other process sees it; give the path of a file"
    } else if bytes.starts_with(b"file:") {
        "it is a URI; give a plain path"
    } else if bytes.contains(&0) {
        "its path has a NUL byte"
    } else {
        return std::path::absolute(path).map_err(|error| {
            let message = format!("the working folder cannot be found out: {error}");
            StoreError::new(ErrorKind::Unavailable, message).with_source(error)
        });
    };
    Err(StoreError::new(ErrorKind::Invalid, problem))
}

/// A path on one line.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string().replace(char::is_control, "?")
}
