//! The tools of the checks, which nobody has to install.

use std::path::PathBuf;
use std::process::Command;

use super::Release;
use crate::step::{Failure, cargo, that_runs_cargo};

/// Each at the version that the checks were written for; another is another tool.
const TOOLS: [(&str, &str); 3] =
    [("cargo-deny", "0.20.2"), ("cargo-hack", "0.6.46"), ("cargo-semver-checks", "0.51.0")];

impl Release<'_> {
    /// The tool, built first if it is not there. The first time takes minutes.
    pub(super) fn tool(&self, name: &str) -> Result<Command, Failure> {
        let Some((_, version)) = TOOLS.iter().find(|(known, _)| *known == name) else {
            return Err(Failure::new(format!("{name} is not in the table of tools")));
        };
        let folder: PathBuf = self.root.join("target").join("tools");
        let tool = folder.join("bin").join(name);
        // What is there at this version cargo leaves alone, without asking the registry.
        let mut install = cargo();
        install.args(["install", "--quiet", "--locked", &format!("{name}@{version}"), "--root"]).arg(&folder);
        self.run(install.current_dir(self.root))?;
        let mut tool = that_runs_cargo(tool);
        tool.current_dir(self.root);
        Ok(tool)
    }
}
