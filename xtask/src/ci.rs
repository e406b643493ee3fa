//! `cargo xtask ci`: what a change must pass.

use std::path::Path;
use std::time::Instant;

use crate::api;
use crate::step::{Failure, Step, Tool, announce, require, say};
use crate::test::{self, Tests};
use crate::tidy;

pub(crate) const TOOLS: &[Tool] = &[
    Tool {
        program: "cargo",
        probe: &["fmt", "--version"],
        way_out: "run `rustup component add rustfmt`, or `apt-get install rustfmt` with Debian's Rust",
    },
    Tool {
        program: "cargo",
        probe: &["clippy", "--version"],
        way_out: "run `rustup component add clippy`, or `apt-get install rust-clippy` with Debian's Rust",
    },
];

/// What `--all-features` hides: the crate without its default feature.
const SYSTEM_SQLITE: [&str; 5] = ["clippy", "--locked", "--package", "lease-sqlite", "--no-default-features"];
/// What it hides too: the feature `metrics` brings its crates, without which core is used by most.
const PLAIN_CORE: [&str; 5] = ["clippy", "--locked", "--package", "lease-core", "--all-targets"];

/// One program holds one libsqlite3-sys, of which cargo sees to it: sqlx, diesel, sea-orm and we must still agree on one. Resolved apart
/// from the workspace, as by a user of all, and beside its other products, of which it shares those that are the same.
pub(crate) const BESIDE_OTHERS: [&str; 5] =
    ["--locked", "--manifest-path", "examples/beside-others/Cargo.toml", "--target-dir", "target"];

/// The orders in which the shared state of core may be touched, played by shuttle. Built apart, for all that `lease-core` is built of is
/// built with the flag.
const RACES: [&str; 8] =
    ["test", "--locked", "--package", "lease-core", "--lib", "--target-dir", "target/shuttle", "races"];

/// Runs every check, also after one that failed; unless `no_test` beside every test.
pub(crate) fn run(root: &Path, no_test: bool) -> Result<(), Failure> {
    require(TOOLS)?;
    if !no_test {
        return test::run(root, &Tests { checks: true, ..Tests::default() });
    }
    let since = Instant::now();
    let mut outcomes: Vec<(&str, Result<(), Failure>)> =
        checks().iter().map(|step| (step.name, step.run(root, since, &[]))).collect();
    announce(since, "public API: what the libraries offer");
    outcomes.push(("public API", api::run(root, false)));
    announce(since, "tidy: the rules of the house");
    outcomes.push(("tidy", tidy::run(root)));

    for failure in outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().err()) {
        say(&failure.message);
    }
    let outcomes: Vec<(&str, bool)> =
        outcomes.iter().map(|(name, outcome)| (*name, outcome.is_ok())).collect();
    let summary = summary(&outcomes);
    if outcomes.iter().any(|(_, passed)| !passed) {
        return Err(Failure::new(summary));
    }
    announce(since, &summary);
    Ok(())
}

fn checks() -> Vec<Step> {
    let clippy = ["clippy", "--locked", "--workspace", "--all-targets", "--all-features"];
    let deny = ["--", "-D", "warnings"];
    let doc = ["doc", "--locked", "--workspace", "--all-features", "--no-deps"];
    let mut checks = vec![
        Step::new("format", &["fmt", "--all", "--check"]),
        Step::new("format of beside-others", &["fmt", BESIDE_OTHERS[1], BESIDE_OTHERS[2], "--check"]),
        Step::new("clippy", &[&clippy[..], &deny].concat()),
        Step::new("lease-sqlite on the system's SQLite", &[&SYSTEM_SQLITE[..], &deny].concat()),
        Step::new("lease-core without features", &[&PLAIN_CORE[..], &deny].concat()),
        Step::new("beside-others", &[&["clippy"], &BESIDE_OTHERS[..], &["--all-targets"], &deny].concat()),
        Step::new("races", &RACES),
        Step::new("docs", &doc),
        // Apart from the public docs: a public page that links to a private item is only found there.
        Step::new("docs of private items", &[&doc[..], &["--document-private-items"]].concat()),
    ];
    for step in &mut checks {
        if step.name.starts_with("docs") {
            step.environment = &[("RUSTDOCFLAGS", "-D warnings")];
        }
        if step.name == "races" {
            // In place of any other flags: without it no race is there, and none would fail.
            step.environment = &[("CARGO_ENCODED_RUSTFLAGS", "--cfg=lease_shuttle")];
        }
    }
    checks
}

/// One line: what failed first, then what passed.
fn summary(outcomes: &[(&str, bool)]) -> String {
    let names = |wanted: bool| -> Vec<&str> {
        outcomes.iter().filter(|(_, passed)| *passed == wanted).map(|(name, _)| *name).collect()
    };
    let parts = [("failed", names(false)), ("passed", names(true))];
    let parts = parts.iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> = parts.map(|(word, names)| format!("{word}: {}", names.join(", "))).collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_first_what_failed() {
        assert_eq!(
            summary(&[("format", true), ("clippy", false), ("docs", true), ("tidy", false)]),
            "failed: clippy, tidy; passed: format, docs"
        );
        assert_eq!(summary(&[("format", true), ("tidy", true)]), "passed: format, tidy");
    }

    #[test]
    fn the_races_are_built_with_their_flag() {
        let races = checks().into_iter().find(|step| step.name == "races").unwrap();
        assert_eq!(races.environment, [("CARGO_ENCODED_RUSTFLAGS", "--cfg=lease_shuttle")]);
    }

    #[test]
    fn warnings_are_errors_to_clippy_and_to_the_docs() {
        for step in checks() {
            let shown = step.to_string();
            let lints = shown.contains("clippy") || shown.contains("doc");
            assert_eq!(shown.contains("-D warnings"), lints, "{shown}");
        }
    }
}
