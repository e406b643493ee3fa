//! The backend crates mirror each other, so that who knows one finds everything in the next.

use std::collections::BTreeMap;

use super::rust::{Rust, words};
use super::tree::{Finding, Tree};

const FILES: &[&str] = &[
    "README.md",
    "src/connection.rs",
    "src/error.rs",
    "src/lib.rs",
    "src/schema.sql",
    "src/sql.rs",
    "src/store.rs",
    "tests/conformance.rs",
    "tests/faults.rs",
];

/// Files that every backend has as soon as one has them.
const FILES_TO_COME: &[&str] = &["src/guard.rs"];

/// Every backend has the files of [`FILES`] and an example.
pub(crate) fn the_same_files(tree: &Tree) -> Vec<Finding> {
    let backends = backends(tree);
    let has = |backend: &str, file: &str| tree.file(&format!("{backend}/{file}")).is_some();
    let begun = |file: &&&str| backends.iter().any(|backend| has(backend, file));
    let files: Vec<&str> = FILES.iter().chain(FILES_TO_COME.iter().filter(begun)).copied().collect();
    let mut findings = Vec::new();
    for backend in &backends {
        for file in files.iter().filter(|file| !has(backend, file)) {
            let problem = "missing; the backend crates have the same files under the same names";
            findings.push(Finding::new(format!("{backend}/{file}"), 1, problem));
        }
        if tree.rust(&format!("{backend}/examples/")).next().is_none() {
            findings.push(Finding::new(format!("{backend}/examples"), 1, "no example; write one"));
        }
    }
    if backends.is_empty() {
        let problem = "no crate has src/sql.rs or src/schema.sql; if backends look otherwise now, tell \
                       xtask/src/tidy/backends.rs how";
        findings.push(Finding::new("Cargo.toml", 1, problem));
    }
    findings
}

/// `sql.rs` has the same statements in the same order in every backend.
pub(crate) fn the_same_statements(tree: &Tree) -> Vec<Finding> {
    let pages: BTreeMap<String, Vec<(usize, String)>> = backends(tree)
        .iter()
        .filter_map(|backend| tree.file(&format!("{backend}/src/sql.rs")))
        .map(|file| (file.path.clone(), statements(&file.text)))
        .collect();
    let mut findings = Vec::new();
    for (path, names) in &pages {
        if names.is_empty() {
            let problem = "no statement found; they are its `pub` constants, functions and fields";
            findings.push(Finding::new(path, 1, problem));
        }
    }
    let mut pages = pages.into_iter();
    let Some((model, expected)) = pages.next() else { return findings };
    for (path, names) in pages {
        let longest = expected.len().max(names.len());
        let name =
            |names: &[(usize, String)], at: usize| names.get(at).map_or("nothing", |n| &n.1).to_owned();
        let differs = (0..longest).find(|at| name(&expected, *at) != name(&names, *at));
        if let Some(at) = differs {
            let line = names.get(at).or(names.last()).map_or(1, |(line, _)| *line);
            let problem = format!(
                "{} where {model} has {}; give the statements the same names in the same order",
                name(&names, at),
                name(&expected, at)
            );
            findings.push(Finding::new(path, line, problem));
        }
    }
    findings
}

/// The crates that hold a dialect, in order.
fn backends(tree: &Tree) -> Vec<&str> {
    let has = |folder: &str, file: &str| tree.file(&format!("{folder}/{file}")).is_some();
    tree.crates().filter(|folder| has(folder, "src/sql.rs") || has(folder, "src/schema.sql")).collect()
}

/// The names, with their lines, that a page of statements offers: `pub` constants, functions and fields.
fn statements(page: &str) -> Vec<(usize, String)> {
    let mut statements = Vec::new();
    for (index, line) in Rust::read(page).production().lines().enumerate() {
        let Some(item) = line.trim_start().strip_prefix("pub") else { continue };
        let item = item.trim_start_matches("(crate)").trim_start_matches("(super)");
        let mut words = words(item).skip_while(|word| matches!(word.text, "const" | "static" | "fn"));
        let first = words.next();
        let keyword = item.split_whitespace().next().unwrap_or_default();
        let is_field = first.as_ref().is_some_and(|word| word.after.starts_with(": "));
        if let Some(name) = first
            && (is_field || matches!(keyword, "const" | "static" | "fn"))
        {
            statements.push((index + 1, name.text.to_owned()));
        }
    }
    statements
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::shown;

    fn backend<'a>(name: &str, sql: &'a str, without: &str) -> Vec<(String, &'a str)> {
        let files = FILES.iter().chain(&["Cargo.toml", "examples/nightly.rs"]);
        let files = files.filter(|file| **file != without).map(|file| {
            let text = if *file == "src/sql.rs" { sql } else { "" };
            (format!("{name}/{file}"), text)
        });
        files.collect()
    }

    fn planted(files: &[(String, &str)]) -> Tree {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        Tree::planted(&files)
    }

    #[test]
    fn a_backend_that_lacks_any_file_is_found() {
        for missing in FILES {
            let findings = shown(&the_same_files(&planted(&backend("a", "", missing))));
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(findings[0].starts_with(&format!("a/{missing}:1: missing")), "{}", findings[0]);
        }
        let findings = shown(&the_same_files(&planted(&backend("a", "", "examples/nightly.rs"))));
        assert_eq!(findings, ["a/examples:1: no example; write one"]);
        assert_eq!(the_same_files(&planted(&backend("a", "", ""))), []);
    }

    #[test]
    fn a_file_to_come_is_due_in_all_backends_once_one_has_it() {
        let mut files = [backend("a", "", ""), backend("b", "", "")].concat();
        files.push(("a/src/guard.rs".to_owned(), ""));
        let findings = shown(&the_same_files(&planted(&files)));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("b/src/guard.rs:1: missing"));
    }

    #[test]
    fn a_workspace_without_any_backend_is_found() {
        let tree = Tree::planted(&[("a/Cargo.toml", ""), ("a/src/lib.rs", "")]);
        assert!(shown(&the_same_files(&tree))[0].starts_with("Cargo.toml:1: no crate has src/sql.rs"));
    }

    #[test]
    fn statements_of_another_name_or_order_are_found() {
        let model = "pub const CLAIM: &str = \"\";\npub(crate) fn renew() {}\nfn own() {}\n";
        let cases = [
            (
                "pub(crate) fn renew() {}\npub const CLAIM: &str = \"\";\n",
                "renew where a/src/sql.rs has CLAIM",
            ),
            ("pub const CLAIM: &str = \"\";\n", "nothing where a/src/sql.rs has renew"),
            (
                "pub const CLAIM: &str = \"\";\npub fn renew() {}\npub fn more() {}\n",
                "more where a/src/sql.rs has nothing",
            ),
        ];
        for (other, expected) in cases {
            let tree = planted(&[backend("a", model, ""), backend("b", other, "")].concat());
            let findings = shown(&the_same_statements(&tree));
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(findings[0].contains(expected), "{}", findings[0]);
        }
        let tree = planted(&[backend("a", model, ""), backend("b", model, "")].concat());
        assert_eq!(the_same_statements(&tree), []);
    }

    #[test]
    fn a_page_without_statements_is_found() {
        let tree = planted(&backend("a", "fn own() {}\n", ""));
        assert!(shown(&the_same_statements(&tree))[0].starts_with("a/src/sql.rs:1: no statement found"));
    }

    #[test]
    fn statements_are_public_constants_functions_and_fields() {
        let page = "/*\npub fn in_a_comment() {}\n*/\npub(crate) struct Statements {\n    pub(crate) claim: String,\n    \
                    own: String,\n}\nimpl Statements {\n    pub(super) const fn renew() {}\n}\n\
                    pub static ALL: () = ();\npub(crate) use other::verify;\n\
                    #[cfg(test)]\nmod tests {\n    pub fn test() {}\n}\n";
        let names: Vec<_> = statements(page);
        let names: Vec<_> = names.iter().map(|(line, name)| (*line, name.as_str())).collect();
        assert_eq!(names, [(5, "claim"), (9, "renew"), (11, "ALL")]);
    }
}
