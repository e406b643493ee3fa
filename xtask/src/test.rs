//! `cargo xtask test`: every test, on a machine that has cargo, a C compiler and git.

use std::path::Path;
use std::time::Instant;

use crate::step::{Failure, Step, Tool, require};

const TOOLS: &[Tool] = &[
    Tool {
        program: "cc",
        probe: &["--version"],
        way_out: "a C compiler builds the SQLite that is inside; on Debian `apt-get install gcc libc6-dev`",
    },
    Tool { program: "git", probe: &["--version"], way_out: "on Debian `apt-get install git`" },
];

/// Runs the steps one after another and ends with the first that fails. Nothing is said after the
/// last, so that the test runner has the last word.
pub(crate) fn run(root: &Path, arguments: &[String], for_programs: &[String]) -> Result<(), Failure> {
    require(TOOLS)?;
    let since = Instant::now();
    steps(arguments, for_programs).iter().try_for_each(|step| step.run(root, since))
}

/// The documentation tests come first: a crate without any would close the run with "0 passed".
///
/// With packages or targets chosen by the caller nothing of ours is added to the choice.
fn steps(arguments: &[String], for_programs: &[String]) -> Vec<Step> {
    let step = |name, ours: &[&str]| {
        let mut step = Step::new(name, &[&["test", "--locked"], ours].concat());
        step.arguments.extend_from_slice(arguments);
        if !for_programs.is_empty() {
            step.arguments.push("--".to_owned());
            step.arguments.extend_from_slice(for_programs);
        }
        step
    };
    if arguments.iter().any(|argument| chooses(argument)) {
        return vec![step("tests", &[])];
    }
    vec![
        step("documentation tests", &["--workspace", "--doc"]),
        step("tests", &["--workspace", "--lib", "--bins", "--tests", "--examples"]),
    ]
}

/// Whether an argument of `cargo test` chooses packages or targets.
fn chooses(argument: &str) -> bool {
    let option = argument.split('=').next().unwrap_or(argument);
    // The package may stand right behind its `-p`.
    CHOICES.contains(&option) || option.starts_with("-p")
}

const CHOICES: &[&str] = &[
    "--workspace",
    "--all",
    "--package",
    "--doc",
    "--lib",
    "--bin",
    "--bins",
    "--test",
    "--tests",
    "--example",
    "--examples",
    "--bench",
    "--benches",
    "--all-targets",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(arguments: &[&str], for_programs: &[&str]) -> Vec<String> {
        let owned = |words: &[&str]| -> Vec<String> { words.iter().map(ToString::to_string).collect() };
        steps(&owned(arguments), &owned(for_programs)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_documentation_tests_come_first_so_that_the_run_closes_on_executed_tests() {
        assert_eq!(
            shown(&[], &[]),
            [
                "cargo test --locked --workspace --doc",
                "cargo test --locked --workspace --lib --bins --tests --examples",
            ]
        );
    }

    #[test]
    fn a_part_of_a_name_and_the_test_programs_arguments_reach_both_steps() {
        assert_eq!(
            shown(&["renewal"], &["--nocapture", "--test"]),
            [
                "cargo test --locked --workspace --doc renewal -- --nocapture --test",
                "cargo test --locked --workspace --lib --bins --tests --examples renewal -- --nocapture --test",
            ]
        );
    }

    #[test]
    fn a_chosen_crate_or_target_is_all_that_is_run() {
        assert_eq!(shown(&["-p", "lease-cli"], &[]), ["cargo test --locked -p lease-cli"]);
        assert_eq!(shown(&["-please-cli"], &[]), ["cargo test --locked -please-cli"]);
        assert_eq!(shown(&["--package=lease-cli"], &[]), ["cargo test --locked --package=lease-cli"]);
        assert_eq!(
            shown(&["-p", "lease-sqlite", "--test", "conformance"], &[]),
            ["cargo test --locked -p lease-sqlite --test conformance"]
        );
    }
}
