//! The crates are for Linux, macOS and Windows; what only some have is left out elsewhere.

use super::{Outcome, Release, answer};
use crate::step::{cargo, that_runs_cargo};

/// Those that are checked without a C compiler for the other system: the stores build SQLite, or the cryptography of TLS.
const PURE_RUST: [&str; 4] = ["--package", "lease-core", "--package", "lease-testkit"];

pub(super) fn check(release: &Release<'_>) -> Outcome {
    let installed =
        answer(that_runs_cargo("rustup").args(["target", "list", "--installed"])).unwrap_or_default();
    let others: Vec<&str> = others(&installed);
    if others.is_empty() {
        let reason = "no target of macOS or Windows is here; `rustup target add x86_64-pc-windows-gnu aarch64-apple-darwin`";
        return Outcome::Unseen(reason.to_owned());
    }
    for target in others {
        let mut check = cargo();
        check.args(["check", "--locked", "--target", target]).args(PURE_RUST);
        if let Err(failure) = release.run(check.current_dir(release.root)) {
            return Outcome::Failed(failure);
        }
    }
    Outcome::Passed
}

fn others(installed: &str) -> Vec<&str> {
    let is_other = |target: &&str| target.contains("-windows-") || target.contains("-apple-darwin");
    installed.lines().map(str::trim).filter(is_other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_of_other_systems_are_found() {
        let installed = "aarch64-apple-darwin\nx86_64-pc-windows-gnu\nx86_64-unknown-linux-gnu\n";
        assert_eq!(others(installed), ["aarch64-apple-darwin", "x86_64-pc-windows-gnu"]);
        assert!(others("x86_64-unknown-linux-gnu\n").is_empty());
    }
}
