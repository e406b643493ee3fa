//! What the crates say about themselves.

use super::manifest::value;
use super::tree::{Finding, Tree};

/// Every "Rust X.Y or later" of the tracked Markdown files, on one line each, names the
/// `rust-version` of `Cargo.toml`, and `README.md` has one.
pub(crate) fn the_rust_versions_agree(tree: &Tree) -> Vec<Finding> {
    let manifest = tree.file("Cargo.toml").map_or("", |file| &file.text);
    let Some(version) = value(manifest, "workspace.package", "rust-version") else {
        return vec![Finding::new("Cargo.toml", 1, "no rust-version in [workspace.package]; write one")];
    };
    let mut findings = Vec::new();
    let mut readme_says = false;
    for file in tree.markdown() {
        for (index, stated) in
            file.text.lines().enumerate().flat_map(|(i, line)| stated(line).map(move |s| (i, s)))
        {
            readme_says |= file.path == "README.md";
            if stated != version {
                let problem = format!(
                    "says Rust {stated}, but Cargo.toml's rust-version is {version}; mend the one that is wrong"
                );
                findings.push(Finding::new(&file.path, index + 1, problem));
            }
        }
    }
    if !readme_says {
        let problem =
            format!("does not say which Rust is needed; write \"Rust {version} or later\" on one line");
        findings.push(Finding::new("README.md", 1, problem));
    }
    findings
}

/// The versions of the line's "Rust X.Y or later".
fn stated(line: &str) -> impl Iterator<Item = &str> {
    line.split("Rust ").skip(1).filter_map(|rest| {
        let (version, rest) = rest.split_once(' ')?;
        let is_stated = version.starts_with(|c: char| c.is_ascii_digit()) && rest.starts_with("or later");
        is_stated.then_some(version)
    })
}

/// What every crate's `[package]` has, its own or the workspace's.
const FIELDS: &[&str] = &["description", "version", "edition", "rust-version", "license", "readme"];

/// Every crate describes itself, takes the workspace's licence and Rust, and names its README.
pub(crate) fn every_crate_has_its_manifest_fields(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in tree.crates() {
        let path = format!("{folder}/Cargo.toml");
        let manifest = tree.file(&path).map_or("", |file| &file.text);
        for field in FIELDS {
            let own = value(manifest, "package", field);
            if own.or(value(manifest, "package", &format!("{field}.workspace"))).is_none_or(str::is_empty) {
                findings.push(Finding::new(&path, 1, format!("[package] has no `{field}`; write one")));
            }
        }
    }
    findings
}

/// Every crate's README says more than its title.
pub(crate) fn every_crate_has_its_readme(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in tree.crates() {
        let path = format!("{folder}/README.md");
        let readme = tree.file(&path).map_or("", |file| &file.text);
        if !readme.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            findings.push(Finding::new(
                path,
                1,
                "missing or a mere title; say what the crate is and for whom",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::shown;

    const MANIFEST: (&str, &str) =
        ("Cargo.toml", "[workspace.package]\nversion = \"0.1.0\"\nrust-version = \"1.95\"\n[other]\n");

    #[test]
    fn a_readme_that_states_another_rust_is_found() {
        let tree = Tree::planted(&[
            MANIFEST,
            ("README.md", "# lease\n\nNeeds Rust 1.94 or later.\n"),
            ("a/README.md", "Rust 1.95 or later, Rust 1.9 or later\n"),
        ]);
        let findings = shown(&the_rust_versions_agree(&tree));
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(
            findings[0].starts_with("README.md:3: says Rust 1.94, but Cargo.toml's rust-version is 1.95")
        );
        assert!(findings[1].starts_with("a/README.md:1: says Rust 1.9, "));
    }

    #[test]
    fn a_readme_that_states_no_rust_is_found() {
        let tree = Tree::planted(&[
            MANIFEST,
            ("README.md", "Written in Rust 2024.\n"),
            ("a.md", "Rust 1.95 or later\n"),
        ]);
        assert!(shown(&the_rust_versions_agree(&tree))[0].contains("\"Rust 1.95 or later\""));
        let tree = Tree::planted(&[("Cargo.toml", "[workspace]\n"), ("README.md", "Rust 1.95 or later\n")]);
        assert!(shown(&the_rust_versions_agree(&tree))[0].starts_with("Cargo.toml:1: no rust-version"));
    }

    #[test]
    fn rust_versions_that_agree_are_no_finding() {
        let tree =
            Tree::planted(&[MANIFEST, ("README.md", "Rust 1.95 or later, or \"Rust X.Y or later\"\n")]);
        assert_eq!(the_rust_versions_agree(&tree), []);
    }

    #[test]
    fn a_missing_or_empty_manifest_field_is_found() {
        let manifest = "[package]\ndescription = \"\"\nversion.workspace = true\nedition.workspace = true\n\
                        rust-version.workspace = true\nlicense.workspace = true\n\n[lib]\nreadme = \"x\"\n";
        let tree = Tree::planted(&[("a/Cargo.toml", manifest), ("a/tests/b/Cargo.toml", "")]);
        assert_eq!(
            shown(&every_crate_has_its_manifest_fields(&tree)),
            [
                "a/Cargo.toml:1: [package] has no `description`; write one",
                "a/Cargo.toml:1: [package] has no `readme`; write one",
            ]
        );
    }

    #[test]
    fn a_crate_without_a_readme_that_says_something_is_found() {
        let tree = Tree::planted(&[
            ("a/Cargo.toml", ""),
            ("b/Cargo.toml", ""),
            ("b/README.md", "# b\n\n"),
            ("c/Cargo.toml", ""),
            ("c/README.md", "# c\n\nWhat it is.\n"),
        ]);
        let places: Vec<_> = every_crate_has_its_readme(&tree);
        let places = shown(&places);
        assert_eq!(places.len(), 2, "{places:?}");
        assert!(places[0].starts_with("a/README.md:1:") && places[1].starts_with("b/README.md:1:"));
    }
}
