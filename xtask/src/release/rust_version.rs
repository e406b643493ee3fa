//! The crates can be built with the Rust that they declare.

use super::{Outcome, Release, answer};
use crate::step::{cargo, that_runs_cargo};

pub(super) fn check(release: &Release<'_>) -> Outcome {
    let declared = &release.rust_version;
    match answer(cargo().arg("--version")) {
        Err(failure) => return Outcome::Failed(failure),
        // All else here was built with it.
        Ok(version) if is_of(&version, declared) => return Outcome::Passed,
        Ok(_) => {}
    }
    for toolchain in [declared.clone(), format!("{declared}.0")] {
        if answer(that_runs_cargo("rustup").args(["run", &toolchain, "cargo", "--version"])).is_ok() {
            let mut check = that_runs_cargo("rustup");
            check
                .args(["run", &toolchain, "cargo", "check", "--locked", "--all-features"])
                .args(release.chosen());
            return release.run(check.current_dir(release.root)).into();
        }
    }
    Outcome::Unseen(format!(
        "this is another Rust than {declared}, and rustup has none; `rustup toolchain install {declared}`"
    ))
}

/// Whether `cargo 1.2.3 (...)` is of the declared version, `1.2` or `1.2.3`.
fn is_of(answer: &str, declared: &str) -> bool {
    let version = answer.split_whitespace().nth(1).unwrap_or_default();
    let rest = version.strip_prefix(declared);
    !declared.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declared_version_is_known_by_its_numbers() {
        assert!(is_of("cargo 1.95.1 (f2d3ce0bd 2026-03-21)", "1.95"));
        assert!(is_of("cargo 1.95.0", "1.95.0"));
        for (other, declared) in
            [("cargo 1.96.0", "1.95"), ("cargo 1.950.0", "1.95"), ("", "1.95"), ("cargo 1.95.0", "")]
        {
            assert!(!is_of(other, declared), "{other}");
        }
    }
}
