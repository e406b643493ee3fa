//! `cargo xtask release`: what must be right before the crates are published. Publishing itself cannot be undone, and is done by hand.

mod compatibility;
mod copy;
mod dependencies;
mod order;
mod rust_version;
mod systems;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::step::{Failure, announce, cargo, say};

/// What is about to be published.
pub(crate) struct Release<'a> {
    root: &'a Path,
    since: Instant,
    /// The crates, each behind those that it needs.
    crates: Vec<String>,
    version: String,
    rust_version: String,
    /// Whether the crates say where their sources are.
    has_address: bool,
    /// Cargo's target folder.
    target: PathBuf,
}

/// How a check ended.
enum Outcome {
    Passed,
    Failed(Failure),
    /// Nothing is known, and why.
    Unseen(String),
}

impl From<Result<(), Failure>> for Outcome {
    fn from(result: Result<(), Failure>) -> Self {
        result.map_or_else(Self::Failed, |()| Self::Passed)
    }
}

type Check = fn(&Release<'_>) -> Outcome;

/// In this order: the later ones look at the packages that the first one makes.
const CHECKS: &[(&str, Check)] = &[
    ("packages", packages),
    ("documentation", documentation),
    ("Rust version", rust_version::check),
    ("features", copy::features),
    ("least versions", copy::least_versions),
    ("other systems", systems::check),
    ("licences, bans and sources", dependencies::licences_bans_and_sources),
    ("advisories", dependencies::advisories),
    ("compatibility", compatibility::check),
];

/// Says the order, and with `dry_run` runs every check, also after one that failed.
pub(crate) fn run(root: &Path, dry_run: bool) -> Result<(), Failure> {
    let release = Release::read(root)?;
    let commands: Vec<String> =
        release.crates.iter().map(|name| format!("    cargo publish --locked --package {name}")).collect();
    say(&format!("{} is published in this order:\n{}", release.version, commands.join("\n")));
    if !dry_run {
        let message = "publishing is done by hand, by those commands from a clean clone of the commit to be tagged; \
                       `cargo xtask release --dry-run` checks what must be right before";
        return Err(Failure::new(message));
    }
    let outcomes: Vec<(&str, Outcome)> = CHECKS
        .iter()
        .map(|(name, check)| {
            announce(release.since, name);
            (*name, check(&release))
        })
        .collect();
    for (name, outcome) in &outcomes {
        match outcome {
            Outcome::Passed => {}
            Outcome::Failed(failure) => say(&format!("{name}: {}", failure.message)),
            Outcome::Unseen(reason) => say(&format!("{name}: NOT CHECKED: {reason}")),
        }
    }
    if !release.has_address {
        say(
            "beware: the crates have no `repository`, so their pages in the registry lead nowhere, nor do relative links in them",
        );
    }
    let summary = summary(&outcomes);
    if outcomes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Failed(_))) {
        return Err(Failure::new(summary));
    }
    announce(release.since, &summary);
    Ok(())
}

impl<'a> Release<'a> {
    fn read(root: &'a Path) -> Result<Self, Failure> {
        let metadata =
            answer(cargo().args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(root))?;
        let metadata: Value = serde_json::from_str(&metadata)
            .map_err(|error| Failure::new(format!("`cargo metadata` cannot be read: {error}")))?;
        let crates = order::of(&metadata)?;
        let mut packages = metadata["packages"].as_array().into_iter().flatten();
        let first = packages.find(|package| package["name"].as_str() == crates.first().map(String::as_str));
        let of_first = |field: &str| first.and_then(|package| package[field].as_str()).unwrap_or_default();
        Ok(Self {
            root,
            since: Instant::now(),
            version: of_first("version").to_owned(),
            rust_version: of_first("rust_version").to_owned(),
            has_address: !of_first("repository").is_empty(),
            target: metadata["target_directory"].as_str().unwrap_or("target").into(),
            crates,
        })
    }

    /// The folder in which cargo has unpacked the package of a crate.
    fn package(&self, name: &str) -> PathBuf {
        self.target.join("package").join(format!("{name}-{}", self.version))
    }

    /// The arguments that choose the crates.
    fn chosen(&self) -> Vec<&str> {
        self.crates.iter().flat_map(|name| ["--package", name]).collect()
    }

    /// Runs a command, its output going where ours goes.
    fn run(&self, command: &mut Command) -> Result<(), Failure> {
        let shown = shown(command);
        announce(self.since, &shown);
        let status = command.stdin(Stdio::null()).status();
        let status = status.map_err(|error| Failure::new(format!("cannot start `{shown}`: {error}")))?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("`{shown}` failed: {status}"))) }
    }
}

/// What each package holds beside its sources.
const BESIDE: [&str; 4] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Each crate can be packed, and its package be built from what is in it and in those before it.
fn packages(release: &Release<'_>) -> Outcome {
    for package in release.crates.iter().map(|name| release.package(name)).filter(|package| package.exists())
    {
        // Of an earlier run, which the later checks must not take for what is packed now.
        if let Err(error) = fs::remove_dir_all(&package) {
            return Outcome::Failed(Failure::new(format!(
                "{} cannot be removed: {error}",
                package.display()
            )));
        }
    }
    let packed =
        release.run(cargo().args(["package", "--locked"]).args(release.chosen()).current_dir(release.root));
    if let Err(failure) = packed {
        return Outcome::Failed(failure);
    }
    for name in &release.crates {
        let package = release.package(name);
        if let Some(missing) = BESIDE.iter().find(|file| !package.join(file).is_file()) {
            return Outcome::Failed(Failure::new(format!("the package of {name} has no {missing}")));
        }
    }
    Outcome::Passed
}

/// The pages that users of the registry read have no warnings.
fn documentation(release: &Release<'_>) -> Outcome {
    let mut doc = cargo();
    doc.args(["doc", "--locked", "--no-deps", "--all-features"]).args(release.chosen());
    release.run(doc.env("RUSTDOCFLAGS", "-D warnings").current_dir(release.root)).into()
}

/// What a command prints; its reason if it fails.
fn answer(command: &mut Command) -> Result<String, Failure> {
    let shown = shown(command);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Failure::new(format!("cannot start `{shown}`: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(Failure::new(format!("`{shown}` failed: {reason}")))
}

/// The command as a person would type it: no folders before the program's name.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = [program].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// One line: what failed first, then what is not known, then what passed.
fn summary(outcomes: &[(&str, Outcome)]) -> String {
    let names = |is_wanted: fn(&Outcome) -> bool| -> Vec<&str> {
        outcomes.iter().filter(|(_, outcome)| is_wanted(outcome)).map(|(name, _)| *name).collect()
    };
    let parts = [
        ("failed", names(|outcome| matches!(outcome, Outcome::Failed(_)))),
        ("not checked", names(|outcome| matches!(outcome, Outcome::Unseen(_)))),
        ("passed", names(|outcome| matches!(outcome, Outcome::Passed))),
    ];
    let parts = parts.iter().filter(|(_, names)| !names.is_empty());
    parts.map(|(word, names)| format!("{word}: {}", names.join("; "))).collect::<Vec<_>>().join(". ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_checked_is_said_and_never_counted_as_passed() {
        let outcomes = [
            ("a", Outcome::Passed),
            ("b", Outcome::Unseen("no tool".to_owned())),
            ("c", Outcome::Failed(Failure::new("no"))),
            ("d", Outcome::Passed),
        ];
        assert_eq!(summary(&outcomes), "failed: c. not checked: b. passed: a; d");
        assert_eq!(summary(&outcomes[..2]), "not checked: b. passed: a");
    }

    #[test]
    fn a_command_is_shown_without_the_folders_of_this_machine() {
        let folder = Path::new("target").join("tools");
        assert_eq!(
            shown(Command::new(folder.join("cargo-deny")).args(["check", "bans"])),
            "cargo-deny check bans"
        );
    }
}
