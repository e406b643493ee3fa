//! Nothing tracked knows the machine it was written on.

use super::rust::Rust;
use super::tree::{Finding, Tree};

/// The folder that a test may name: not what a user meets, and every Unix has it.
const TEMPORARY: &str = "tmp";

/// No file names a folder that only some machines have, save a test the temporary one.
pub(crate) fn no_path_of_a_machine(tree: &Tree) -> Vec<Finding> {
    // In parts, so that this file passes.
    let folders = ["home", "root", "work", TEMPORARY].map(|folder| format!("/{folder}/"));
    let mut findings = Vec::new();
    for file in &tree.files {
        let whole_file = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
        let test_lines = if file.is("rs") { Rust::read(&file.text).test_lines() } else { Vec::new() };
        for (index, line) in file.text.lines().enumerate() {
            for folder in &folders {
                let in_test = whole_file || test_lines.iter().any(|lines| lines.contains(&(index + 1)));
                let excused = in_test && folder.contains(TEMPORARY);
                if !excused && is_path(line, folder) {
                    let problem = format!(
                        "`{folder}` is a place on one machine; use a relative path, a temporary folder asked \
                         for, or a name that stands for any"
                    );
                    findings.push(Finding::new(&file.path, index + 1, problem));
                }
            }
        }
    }
    findings
}

/// Whether the line has a path that begins with the folder: `$HOME/work/` and `target/tmp/` do not.
fn is_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~)}>]*".contains(c))
    })
}

/// No file names the host of a package registry: whoever builds reaches theirs by their own settings.
pub(crate) fn no_registry_host(tree: &Tree) -> Vec<Finding> {
    // In parts, so that this file passes.
    let hosts = [
        ["crates", "io"],
        ["npmjs", "org"],
        ["pypi", "org"],
        ["pythonhosted", "org"],
        ["deb.debian", "org"],
        ["security.debian", "org"],
        ["ftp.debian", "org"],
        ["archive.ubuntu", "com"],
        ["proxy.golang", "org"],
    ]
    .map(|parts| parts.join("."));
    // What cargo writes for the default registry, whichever mirror it was read from.
    let default = format!("source = \"registry+https://github.com/rust-lang/{}-index\"", hosts[0]);
    let mut findings = Vec::new();
    for file in &tree.files {
        let is_lock = file.path.ends_with("Cargo.lock");
        for (index, line) in file.text.lines().enumerate() {
            if is_lock {
                if line.starts_with("source = ") && line != default {
                    let problem = "not from the default registry; take it from there, under its own name";
                    findings.push(Finding::new(&file.path, index + 1, problem));
                }
                continue;
            }
            if let Some(host) = hosts.iter().find(|host| line.contains(*host)) {
                let problem = format!("names the registry host {host}; name the package alone");
                findings.push(Finding::new(&file.path, index + 1, problem));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::shown;

    fn folder(name: &str) -> String {
        format!("/{name}/")
    }

    #[test]
    fn a_path_of_a_machine_is_found_in_any_file() {
        for name in ["home", "root", "work", "tmp"] {
            let text = format!("a\nsee {}me/x\n", folder(name));
            for path in ["README.md", ".ci/run", "a/src/lib.rs", "a/Cargo.toml"] {
                let findings = shown(&no_path_of_a_machine(&Tree::planted(&[(path, &text)])));
                assert_eq!(findings.len(), 1, "{path}: {findings:?}");
                assert!(findings[0].starts_with(&format!("{path}:2: `{}`", folder(name))), "{}", findings[0]);
            }
        }
    }

    #[test]
    fn a_test_may_name_the_temporary_folder_and_no_other() {
        for (name, findings) in [("tmp", 0), ("home", 1)] {
            let module = format!(
                "fn a() {{}}\n#[cfg(test)]\nmod tests {{\n    fn b() {{\n c(\n\"{}x\"\n) }}\n}}\n",
                folder(name)
            );
            let whole = format!("fn b() {{ c(\"{}x\") }}\n", folder(name));
            for (path, text) in
                [("a/src/b.rs", &module), ("a/tests/b.rs", &whole), ("a/src/b/tests.rs", &whole)]
            {
                let found = no_path_of_a_machine(&Tree::planted(&[(path, text)]));
                assert_eq!(found.len(), findings, "{path}: {found:?}");
            }
        }
    }

    #[test]
    fn a_longer_path_that_holds_the_folder_is_no_finding() {
        let text = format!("$HOME{0}x target{1}x ~{0}x {{x}}{1}x\n", folder("work"), folder("tmp"));
        assert_eq!(no_path_of_a_machine(&Tree::planted(&[("README.md", &text)])), []);
    }

    #[test]
    fn a_registry_host_is_found() {
        for host in [["static.crates", "io"], ["deb.debian", "org"], ["registry.npmjs", "org"]] {
            let text = format!("see https://{}/x\n", host.join("."));
            let findings = no_registry_host(&Tree::planted(&[("README.md", &text)]));
            assert_eq!(findings.len(), 1, "{findings:?}");
        }
    }

    #[test]
    fn a_lock_file_may_name_the_default_registry_only() {
        let default = format!(
            "source = \"registry+https://github.com/rust-lang/{}-index\"\n",
            ["crates", "io"].join(".")
        );
        assert_eq!(no_registry_host(&Tree::planted(&[("Cargo.lock", &default)])), []);
        let mirror = "name = \"a\"\nsource = \"sparse+https://mirror.example/index/\"\n";
        let findings = shown(&no_registry_host(&Tree::planted(&[("Cargo.lock", mirror)])));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("Cargo.lock:2: not from the default registry"));
    }
}
