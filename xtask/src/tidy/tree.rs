//! What the checks look at, and what they answer.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::step::{Failure, cargo};

/// The files of the workspace and the crates below `lease-core`.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
    /// `lease-core` and all that it is built from, one crate a line, the name first.
    pub(crate) core_dependencies: String,
}

/// A file that git tracks.
pub(crate) struct File {
    /// From the root of the workspace, with `/`.
    pub(crate) path: String,
    /// Empty if the file is not text.
    pub(crate) text: String,
}

impl File {
    /// Whether the name has this extension.
    pub(crate) fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }
}

/// A place where a rule is broken.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    /// What is wrong and how to mend it.
    problem: String,
}

impl Finding {
    /// `line` counts from 1; what is wrong with a file as a whole stands at line 1.
    pub(crate) fn new(path: impl Into<String>, line: usize, problem: impl Into<String>) -> Self {
        Self { path: path.into(), line, problem: problem.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.problem)
    }
}

impl Tree {
    /// The files that git tracks below `root` and the dependencies that cargo resolves.
    pub(crate) fn of_git(root: &Path) -> Result<Self, Failure> {
        let mut git = Command::new("git");
        let listing = output(git.args(["ls-files", "-z"]).current_dir(root))?;
        let mut files = Vec::new();
        for path in listing.split('\0').filter(|path| !path.is_empty()) {
            // A file removed but not yet from the index is as good as gone, and a link to a folder is no file.
            if let Ok(bytes) = fs::read(root.join(path)) {
                files
                    .push(File { path: path.to_owned(), text: String::from_utf8(bytes).unwrap_or_default() });
            }
        }
        let tree = ["tree", "--package", "lease-core", "--all-features", "--edges", "normal,build"];
        let core_dependencies =
            output(cargo().args(tree).args(["--prefix", "none", "--locked"]).current_dir(root))?;
        Ok(Self { files, core_dependencies })
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(crate) fn markdown(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is("md"))
    }

    /// The Rust files whose path starts so.
    pub(crate) fn rust(&self, start: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.path.starts_with(start) && file.is("rs"))
    }

    /// The folders of the crates, in order.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &str> {
        let folders = self.files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
        // A package further down is a fixture of the crate that holds it.
        folders.filter(|folder| !folder.contains('/'))
    }

    /// A tree of these paths and texts.
    #[cfg(test)]
    pub(crate) fn planted(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
        Self { files: files.iter().map(file).collect(), core_dependencies: String::new() }
    }
}

/// What a command prints, or why it failed in the words of the command.
fn output(command: &mut Command) -> Result<String, Failure> {
    let shown = format!("{command:?}");
    let output = command.output().map_err(|error| Failure::new(format!("cannot start {shown}: {error}")))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("{shown} failed: {}", reason.trim_end())));
    }
    String::from_utf8(output.stdout).map_err(|_| Failure::new(format!("{shown} printed no UTF-8")))
}

/// The findings as people see them, to compare in tests.
#[cfg(test)]
pub(crate) fn shown(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}
