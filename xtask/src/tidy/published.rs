//! What is published: the crates whose folders begin with `lease-`. Nothing else is, by mistake or otherwise.

use super::manifest::{keys, value};
use super::tree::{Finding, Tree};

/// The packages of these crates are published.
const PUBLISHED: &str = "lease-";

/// `publish = false` stands in every manifest but those of the crates that are published.
pub(crate) fn nothing_else_is_published(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { continue };
        // What a test reads is no crate of ours.
        if folder.contains("/tests/") {
            continue;
        }
        let is_kept = value(&file.text, "package", "publish") == Some("false");
        let is_published = folder.starts_with(PUBLISHED) && !folder.contains('/');
        if is_published == is_kept {
            let problem = if is_published {
                format!("says `publish = false`, but crates named `{PUBLISHED}...` are published; rename it")
            } else {
                format!("would be published; write `publish = false`, or name its folder `{PUBLISHED}...`")
            };
            findings.push(Finding::new(&file.path, 1, problem));
        }
    }
    findings
}

/// One version for all: each published crate has the workspace's, and so has each requirement of one crate on another.
pub(crate) fn one_version_for_all(tree: &Tree) -> Vec<Finding> {
    let manifest = tree.file("Cargo.toml").map_or("", |file| &file.text);
    let version = value(manifest, "workspace.package", "version").unwrap_or_default();
    let mut findings = Vec::new();
    for folder in published(tree) {
        let path = format!("{folder}/Cargo.toml");
        let text = tree.file(&path).map_or("", |file| &file.text);
        if value(text, "package", "version.workspace") != Some("true") {
            findings.push(Finding::new(
                path,
                1,
                "has a version of its own; write `version.workspace = true`",
            ));
        }
    }
    for entry in keys(manifest).filter(|entry| entry.section == "workspace.dependencies") {
        let is_published =
            entry.part("path").is_some_and(|path| published(tree).any(|folder| folder == path));
        if is_published && entry.part("version") != Some(version) {
            let problem =
                format!("`{}` is published at {version}; write `version = \"{version}\"`", entry.key);
            findings.push(Finding::new("Cargo.toml", entry.line, problem));
        }
    }
    findings
}

/// A published crate reaches crates of the workspace through `[workspace.dependencies]`, which has their version, and none that is
/// not published, save for its tests. A test's dependency by its path alone is left out of what is published.
pub(crate) fn published_crates_need_published_ones(tree: &Tree) -> Vec<Finding> {
    let manifest = tree.file("Cargo.toml").map_or("", |file| &file.text);
    let ours: Vec<&str> = keys(manifest)
        .filter(|entry| entry.section == "workspace.dependencies" && entry.part("path").is_some())
        .map(|entry| entry.key)
        .collect();
    let mut findings = Vec::new();
    for folder in published(tree) {
        let path = format!("{folder}/Cargo.toml");
        let text = tree.file(&path).map_or("", |file| &file.text);
        for entry in keys(text).filter(|entry| entry.section.ends_with("dependencies")) {
            let is_for_tests = entry.section.ends_with("dev-dependencies");
            let (name, is_workspaces) = entry.dependency();
            let problem = if entry.part("path").is_some()
                && !(is_for_tests && entry.part("version").is_none())
            {
                format!("a path; write `{name}.workspace = true`, which has the version too")
            } else if is_workspaces && !is_for_tests && ours.contains(&name) && !name.starts_with(PUBLISHED) {
                format!("`{name}` is not published, and users need it; move it to the tests or publish it")
            } else {
                continue;
            };
            findings.push(Finding::new(&path, entry.line, problem));
        }
    }
    findings
}

/// The licences, which a package has in its own folder or not at all.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Each published crate has the licences beside its manifest, as links to the workspace's: cargo packs what they lead to.
pub(crate) fn published_crates_have_the_licences(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in LICENCES {
        let whole = tree.file(name).map_or("", |file| &file.text);
        if whole.is_empty() {
            findings.push(Finding::new(name, 1, "missing or empty; each published crate links to it"));
        }
        for folder in published(tree) {
            let path = format!("{folder}/{name}");
            if tree.file(&path).is_none_or(|file| file.text != whole) {
                let problem = format!("missing or another; run `ln -sf ../{name} {path}`");
                findings.push(Finding::new(path, 1, problem));
            }
        }
    }
    findings
}

/// Each published crate tells in its package what has changed in it, and the workspace's changelog leads there.
pub(crate) fn published_crates_have_a_changelog(tree: &Tree) -> Vec<Finding> {
    let index = tree.file("CHANGELOG.md").map_or("", |file| &file.text);
    let mut findings = Vec::new();
    for folder in published(tree) {
        let path = format!("{folder}/CHANGELOG.md");
        let text = tree.file(&path).map_or("", |file| &file.text);
        if !text.lines().any(|line| line.starts_with("## ")) {
            findings.push(Finding::new(&path, 1, "missing or without a version; begin with `## Unreleased`"));
        }
        if !index.contains(&format!("({path})")) {
            findings.push(Finding::new("CHANGELOG.md", 1, format!("no link to {path}; write one")));
        }
    }
    findings
}

/// The folders of the crates that are published, in order.
fn published(tree: &Tree) -> impl Iterator<Item = &str> {
    tree.crates().filter(|folder| folder.starts_with(PUBLISHED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::shown;

    const ROOT: &str = "[workspace.package]\nversion = \"0.2.0\"\n[workspace.dependencies]\n\
                        lease-a = { path = \"lease-a\", version = \"0.2.0\" }\nservers = { path = \"servers\" }\nother = \"1\"\n";

    fn tree(root: &str, manifest: &str) -> Tree {
        Tree::planted(&[("Cargo.toml", root), ("lease-a/Cargo.toml", manifest), ("servers/Cargo.toml", "")])
    }

    #[test]
    fn a_crate_that_might_be_published_by_mistake_is_found_and_so_is_one_that_cannot_be() {
        let kept = "[package]\npublish = false\n";
        let found = Tree::planted(&[
            ("Cargo.toml", ROOT),
            ("lease-a/Cargo.toml", kept),
            ("lease-b/Cargo.toml", "[package]\n"),
            ("lease-b/tests/x/Cargo.toml", "[package]\n"),
            ("bench/Cargo.toml", "[package]\n[other]\npublish = false\n"),
            ("lab/Cargo.toml", kept),
            ("examples/lease-c/Cargo.toml", "[package]\n"),
            ("lease-b/examples/d/Cargo.toml", "[package]\n"),
        ]);
        let findings = shown(&nothing_else_is_published(&found));
        assert_eq!(findings.len(), 4, "{findings:?}");
        assert!(findings[0].starts_with("lease-a/Cargo.toml:1: says `publish = false`"));
        assert!(findings[1].starts_with("bench/Cargo.toml:1: would be published"));
        assert!(findings[2].starts_with("examples/lease-c/Cargo.toml:1: would be published"));
        assert!(findings[3].starts_with("lease-b/examples/d/Cargo.toml:1: would be published"));
    }

    #[test]
    fn a_version_of_its_own_is_found() {
        let manifest = "[package]\nversion = \"0.2.0\"\n";
        let findings = shown(&one_version_for_all(&tree(ROOT, manifest)));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("lease-a/Cargo.toml:1: has a version of its own"));
    }

    #[test]
    fn a_requirement_on_another_version_or_none_is_found() {
        let manifest = "[package]\nversion.workspace = true\n";
        for wrong in ["version = \"0.1.0\"", "features = []"] {
            let root = ROOT.replace("version = \"0.2.0\" }", &format!("{wrong} }}"));
            let findings = shown(&one_version_for_all(&tree(&root, manifest)));
            assert_eq!(
                findings,
                ["Cargo.toml:4: `lease-a` is published at 0.2.0; write `version = \"0.2.0\"`"]
            );
        }
        assert_eq!(one_version_for_all(&tree(ROOT, manifest)), []);
    }

    #[test]
    fn a_dependency_that_users_cannot_have_is_found() {
        let manifest = "[dependencies]\nother.workspace = true\nlease-b = { path = \"../lease-b\", version = \"0.2.0\" }\n\
                        [target.'cfg(unix)'.dependencies]\nservers = { workspace = true, features = [\"x\"] }\n\
                        [dev-dependencies]\nservers.workspace = true\nlease-b = { path = \"../lease-b\" }\n";
        let findings = shown(&published_crates_need_published_ones(&tree(ROOT, manifest)));
        assert_eq!(
            findings,
            [
                "lease-a/Cargo.toml:3: a path; write `lease-b.workspace = true`, which has the version too",
                "lease-a/Cargo.toml:5: `servers` is not published, and users need it; move it to the tests or publish it",
            ]
        );
    }

    #[test]
    fn a_path_with_a_version_of_its_own_is_found_in_tests_too() {
        let manifest = "[dev-dependencies]\nlease-b = { path = \"../lease-b\", version = \"0.2.0\" }\n";
        assert_eq!(published_crates_need_published_ones(&tree(ROOT, manifest)).len(), 1);
    }

    #[test]
    fn a_licence_that_is_missing_or_another_is_found() {
        let found = Tree::planted(&[
            ("LICENSE-APACHE", "a"),
            ("LICENSE-MIT", "m"),
            ("lease-a/Cargo.toml", ""),
            ("lease-a/LICENSE-APACHE", "../LICENSE-APACHE"),
            ("lab/Cargo.toml", ""),
        ]);
        assert_eq!(
            shown(&published_crates_have_the_licences(&found)),
            [
                "lease-a/LICENSE-APACHE:1: missing or another; run `ln -sf ../LICENSE-APACHE lease-a/LICENSE-APACHE`",
                "lease-a/LICENSE-MIT:1: missing or another; run `ln -sf ../LICENSE-MIT lease-a/LICENSE-MIT`",
            ]
        );
        assert!(
            shown(&published_crates_have_the_licences(&Tree::default()))[0]
                .starts_with("LICENSE-APACHE:1: missing")
        );
    }

    #[test]
    fn a_changelog_that_is_missing_or_that_nothing_leads_to_is_found() {
        let found = Tree::planted(&[
            ("CHANGELOG.md", "[a](lease-a/CHANGELOG.md)\n"),
            ("lease-a/Cargo.toml", ""),
            ("lease-a/CHANGELOG.md", "# a\n"),
            ("lease-b/Cargo.toml", ""),
            ("lease-b/CHANGELOG.md", "# b\n\n## Unreleased\n"),
        ]);
        assert_eq!(
            shown(&published_crates_have_a_changelog(&found)),
            [
                "lease-a/CHANGELOG.md:1: missing or without a version; begin with `## Unreleased`",
                "CHANGELOG.md:1: no link to lease-b/CHANGELOG.md; write one",
            ]
        );
    }
}
