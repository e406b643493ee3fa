//! The version says what has changed since the last one: what breaks users is no minor matter.

use super::{Outcome, Release, answer};
use crate::step::{Failure, cargo, say};

pub(super) fn check(release: &Release<'_>) -> Outcome {
    let mut before = Vec::new();
    for name in &release.crates {
        match published(answer(
            cargo().args(["info", "--registry", "crates-io", name]).current_dir(release.root),
        )) {
            Ok(Some(version)) if version == release.version => {
                return Outcome::Failed(Failure::new(format!(
                    "{name} {version} is published already; raise the version"
                )));
            }
            Ok(Some(version)) => before.push((name, version)),
            Ok(None) => say(&format!("{name}: first release, nothing to compare")),
            Err(reason) => return Outcome::Unseen(format!("the registry cannot be asked: {reason}")),
        }
    }
    // A program has no users that call it by its types.
    before.retain(|(name, _)| release.root.join(name).join("src/lib.rs").exists());
    if before.is_empty() {
        return Outcome::Unseen("first release, nothing to compare".to_owned());
    }
    let checked = release.tool("cargo-semver-checks").and_then(|mut semver_checks| {
        semver_checks.args(["semver-checks", "check-release"]);
        for (name, version) in &before {
            say(&format!("{name}: compared with {version}"));
            semver_checks.args(["--package", name]);
        }
        release.run(&mut semver_checks)
    });
    checked.into()
}

/// The version that the registry has, by the answer of `cargo info`; an error if that is not known.
fn published(answer: Result<String, Failure>) -> Result<Option<String>, String> {
    match answer {
        Ok(text) => {
            let version = text.lines().find_map(|line| line.strip_prefix("version: "));
            // Behind it stands whether there is a later one.
            let version = version.and_then(|version| version.split_whitespace().next());
            version.map(|version| Some(version.to_owned())).ok_or_else(|| "it named no version".to_owned())
        }
        Err(failure) if failure.message.contains("could not find `") => Ok(None),
        Err(failure) => Err(failure.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_is_not_there_is_told_from_a_registry_that_does_not_answer() {
        let answer = |text: &str| published(Ok(text.to_owned()));
        assert_eq!(answer("a #b\nversion: 0.1.0 (latest 0.2.0)\nlicense: MIT"), Ok(Some("0.1.0".to_owned())));
        assert!(answer("a").is_err());
        let failed = |text: &str| published(Err(Failure::new(text)));
        assert_eq!(failed("error: could not find `a` in registry `b`"), Ok(None));
        assert!(failed("error: failed to fetch").is_err());
    }
}
