//! A workspace of the packages themselves, as users get them: without what is not published, and resolved apart from ours.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Outcome, Release, answer};
use crate::step::{Failure, cargo, that_runs_cargo};

/// The crates can be built with each set of their features. Without what tests need, which switches features on.
pub(super) fn features(release: &Release<'_>) -> Outcome {
    let checked = lay_out(release).and_then(|copy| {
        let mut hack = release.tool("cargo-hack")?;
        hack.args(["hack", "check", "--workspace", "--feature-powerset", "--no-dev-deps", "--target-dir"]);
        release.run(hack.arg(&release.target).current_dir(copy))
    });
    checked.into()
}

/// The crates can be built with the least version that they ask for of each dependency.
pub(super) fn least_versions(release: &Release<'_>) -> Outcome {
    if answer(that_runs_cargo("rustup").args(["run", "nightly", "cargo", "--version"])).is_err() {
        let reason =
            "only a nightly cargo can choose them; `rustup toolchain install --profile minimal nightly`";
        return Outcome::Unseen(reason.to_owned());
    }
    let checked = lay_out(release).and_then(|copy| {
        let mut choose = that_runs_cargo("rustup");
        choose.args(["run", "nightly", "cargo", "update", "--quiet", "-Z", "direct-minimal-versions"]);
        release.run(choose.current_dir(&copy))?;
        let mut check = cargo();
        check
            .args(["check", "--locked", "--workspace", "--all-features", "--target-dir"])
            .arg(&release.target);
        release.run(check.current_dir(copy))
    });
    checked.into()
}

/// Makes the workspace anew, with our lock, and says where it is.
fn lay_out(release: &Release<'_>) -> Result<PathBuf, Failure> {
    let copy = release.target.join("as-published");
    let laid = || -> io::Result<()> {
        if copy.exists() {
            fs::remove_dir_all(&copy)?;
        }
        for name in &release.crates {
            copy_folder(&release.package(name), &copy.join(name))?;
        }
        fs::write(copy.join("Cargo.toml"), manifest(&release.crates))?;
        fs::copy(release.root.join("Cargo.lock"), copy.join("Cargo.lock")).map(drop)
    };
    laid().map_err(|error| Failure::new(format!("the packages cannot be copied: {error}")))?;
    Ok(copy)
}

fn manifest(crates: &[String]) -> String {
    let each = |shape: fn(&str) -> String| crates.iter().map(|name| shape(name)).collect::<Vec<_>>();
    let members = each(|name| format!("\"{name}\"")).join(", ");
    let patches = each(|name| format!("{name} = {{ path = \"{name}\" }}\n")).concat();
    format!("[workspace]\nresolver = \"3\"\nmembers = [{members}]\n\n[patch.crates-io]\n{patches}")
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let goal = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &goal)?;
        } else {
            fs::copy(entry.path(), goal)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_of_the_copy_are_each_others() {
        assert_eq!(
            manifest(&["a".to_owned(), "b".to_owned()]),
            "[workspace]\nresolver = \"3\"\nmembers = [\"a\", \"b\"]\n\n[patch.crates-io]\na = { path = \"a\" }\nb = { path = \"b\" }\n"
        );
    }
}
