//! One command of a chore: announced, timed, and its exit code passed on.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Why a chore ends, and with which exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    /// A failure of ours, not of a command.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }
}

impl From<test_servers::Error> for Failure {
    fn from(error: test_servers::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// A cargo command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// What it does, for people.
    pub(crate) name: &'static str,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

impl Step {
    pub(crate) fn new(name: &'static str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Self { name, arguments, environment: &[] }
    }

    /// Runs it in the workspace, its output going where ours goes, with these variables besides its own.
    pub(crate) fn run(&self, root: &Path, since: Instant, also: &[(&str, String)]) -> Result<(), Failure> {
        announce(since, &format!("{}: {self}", self.name));
        let started = Instant::now();
        let status = cargo()
            .args(&self.arguments)
            .envs(self.environment.iter().copied())
            .envs(also.iter().map(|(name, value)| (name, value)))
            .current_dir(root)
            .status()
            .map_err(|error| Failure::new(format!("{}: cannot start cargo: {error}", self.name)))?;
        if status.success() {
            return Ok(());
        }
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        let message = format!("{} failed after {} s: {status}", self.name, started.elapsed().as_secs());
        Err(Failure { code, message })
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, value) in self.environment {
            write!(f, "{name}='{value}' ")?;
        }
        write!(f, "cargo {}", self.arguments.join(" "))
    }
}

/// A program that a chore cannot do without.
pub(crate) struct Tool {
    pub(crate) program: &'static str,
    /// What makes it say its version and nothing else.
    pub(crate) probe: &'static [&'static str],
    pub(crate) way_out: &'static str,
}

/// Fails with every tool that is missing and how to get it, before anything long has begun.
pub(crate) fn require(tools: &[Tool]) -> Result<(), Failure> {
    let missing: Vec<String> = tools
        .iter()
        .filter(|tool| !tool.answers())
        .map(|tool| {
            let asked = [&[tool.program], tool.probe].concat().join(" ");
            format!("`{asked}` does not work: {}", tool.way_out)
        })
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(Failure::new(missing.join("\n"))) }
}

impl Tool {
    fn answers(&self) -> bool {
        let mut command = if self.program == "cargo" { cargo() } else { Command::new(self.program) };
        command.args(self.probe).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

/// The cargo that runs us, so that a chore never mixes toolchains.
pub(crate) fn cargo() -> Command {
    that_runs_cargo(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A program that will run cargo.
pub(crate) fn that_runs_cargo(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    // What cargo says of xtask: build scripts that look at it would be run again, and all that depends on them be built
    // again, at each change between `cargo xtask` and `cargo`.
    for (name, _) in env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(name);
        }
    }
    command
}

/// Says what begins now, `since` when the chore began.
pub(crate) fn announce(since: Instant, what: &str) {
    say(&format!("[{:>4} s] {what}", since.elapsed().as_secs()));
}

/// Says it on standard error: standard output is for findings and for the test runner.
pub(crate) fn say(message: &str) {
    // With standard error closed there is nobody left to tell.
    let _ = writeln!(io::stderr(), "xtask: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_tool_is_named_with_its_way_out_at_once() {
        let missing = |program| Tool { program, probe: &["--version"], way_out: "install it" };
        let present = Tool { program: "cargo", probe: &["--version"], way_out: "get Rust" };
        let failure = require(&[missing("no-such-tool"), present, missing("nor-this-one")]).unwrap_err();
        assert_eq!(
            failure.message,
            "`no-such-tool --version` does not work: install it\n\
             `nor-this-one --version` does not work: install it"
        );
    }

    #[test]
    fn a_tool_that_answers_with_failure_counts_as_missing() {
        let tool = Tool { program: "cargo", probe: &["no-such-command"], way_out: "add the component" };
        assert!(require(&[tool]).is_err());
    }

    #[test]
    fn a_step_reads_as_the_command_a_person_would_type() {
        let mut step = Step::new("docs", &["doc", "--no-deps"]);
        step.environment = &[("RUSTDOCFLAGS", "-D warnings")];
        assert_eq!(step.to_string(), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }
}
