//! Finds the command as a shell would, before anything is claimed for it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::exit::{Failure, NOT_EXECUTABLE, NOT_FOUND};

/// A command that was found.
#[derive(Debug)]
pub(crate) struct Program {
    /// The file to run.
    pub(crate) path: PathBuf,
    /// The command as it was written: its name and its arguments.
    pub(crate) words: Vec<OsString>,
}

impl Program {
    /// Finds the file of a command: as it stands when its name has a slash, else along `PATH`.
    pub(crate) fn find(words: Vec<OsString>) -> Result<Self, Failure> {
        let name = words.first().map(OsString::as_os_str).unwrap_or_default();
        // What the C library takes when there is no PATH.
        let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        let path = find(name, &path)?;
        Ok(Self { path, words })
    }

    /// The command's name, for messages.
    pub(crate) fn name(&self) -> String {
        self.words.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

fn find(name: &OsStr, path: &OsStr) -> Result<PathBuf, Failure> {
    let shown = name.to_string_lossy();
    let candidates: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
        vec![name.into()]
    } else if name.is_empty() {
        vec![]
    } else {
        env::split_paths(path).map(|folder| folder.join(name)).collect()
    };
    let mut found = None;
    for candidate in candidates {
        match obstacle(&candidate) {
            None => return Ok(candidate),
            Some(Obstacle::Missing) => {}
            // A folder of PATH that is closed to us says nothing about what is in it.
            Some(Obstacle::Unreachable) if candidate.as_os_str() != name => {}
            Some(Obstacle::Unreachable) => {
                found = Some((candidate, "cannot be reached with these rights"));
            }
            Some(Obstacle::Unusable(why)) => {
                found.get_or_insert((candidate, why));
            }
        }
    }
    Err(match found {
        Some((file, why)) => Failure::new(
            NOT_EXECUTABLE,
            format!("cannot run {shown:?}: {} {why}; nothing was claimed", file.display()),
        ),
        None => Failure::new(
            NOT_FOUND,
            format!("command {shown:?} not found; check its name and PATH; nothing was claimed"),
        ),
    })
}

enum Obstacle {
    Missing,
    Unreachable,
    Unusable(&'static str),
}

fn obstacle(file: &Path) -> Option<Obstacle> {
    match file.metadata() {
        Ok(metadata) if metadata.is_dir() => Some(Obstacle::Unusable("is a folder")),
        Ok(_) if access(file, Access::EXEC_OK).is_ok() => None,
        Ok(_) => Some(Obstacle::Unusable("is not executable (chmod +x)")),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Some(Obstacle::Unreachable),
        Err(_) => Some(Obstacle::Missing),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_command_is_looked_for_along_the_path_and_one_that_can_run_is_preferred() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            file
        };
        make("first/tool", 0o644);
        let tool = make("second/tool", 0o755);
        make("first/data", 0o644);
        let path = env::join_paths(["first", "second"].map(|name| folder.path().join(name))).unwrap();
        let code = |name: &str| find(name.as_ref(), &path).map_err(|failure| failure.code);

        assert_eq!(code("tool"), Ok(tool.clone()));
        assert_eq!(code("data"), Err(NOT_EXECUTABLE));
        assert_eq!(code("missing"), Err(NOT_FOUND));
        assert_eq!(code(""), Err(NOT_FOUND));
        assert_eq!(code(tool.to_str().unwrap()), Ok(tool));
        assert_eq!(code(folder.path().to_str().unwrap()), Err(NOT_EXECUTABLE), "a folder");
        assert_eq!(code("./missing"), Err(NOT_FOUND));
    }
}
