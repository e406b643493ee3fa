//! The backend crates mirror each other, so that who knows one finds everything in the next.

use std::collections::BTreeSet;

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

/// What sources begin with that the backend of one server has alone, and why.
const OF_ONE: &[(&str, &str)] =
    &[("src/notices", "only PostgreSQL tells other sessions that something has happened")];

/// Every backend has the files of [`FILES`] and an example, and those of servers have all their sources alike.
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
    let servers: Vec<&str> = backends.iter().copied().filter(|backend| has(backend, "src/url.rs")).collect();
    let of_all = |file: &&str| !OF_ONE.iter().any(|(begin, _)| file.starts_with(begin));
    for file in
        servers.iter().flat_map(|backend| sources(tree, backend)).filter(of_all).collect::<BTreeSet<_>>()
    {
        for backend in servers.iter().filter(|backend| !has(backend, file)) {
            let problem =
                "missing; the backends of servers, those with a src/url.rs, have all their sources alike";
            findings.push(Finding::new(format!("{backend}/{file}"), 1, problem));
        }
    }
    if backends.is_empty() {
        let problem = "no crate has src/sql.rs or src/schema.sql; if backends look otherwise now, tell \
                       xtask/src/tidy/backends.rs how";
        findings.push(Finding::new("Cargo.toml", 1, problem));
    }
    findings
}

/// The sources of a crate, from its folder on.
fn sources<'a>(tree: &'a Tree, backend: &str) -> Vec<&'a str> {
    let start = format!("{backend}/");
    tree.rust(&format!("{start}src/")).filter_map(|file| file.path.strip_prefix(&start)).collect()
}

const CONTRACT: &str = "lease-core/src/store.rs";

/// The methods of `LeaseStore` that a backend answers in a way of its own, without a statement of that name, and why.
const OTHER_WAYS: &[(&str, &str, &str)] = &[
    ("lease-mysql", "announce", "the server tells no session of what another does: who waits looks again"),
    ("lease-sqlite", "announce", "who waits watches the file itself"),
    ("lease-sqlite", "renew_many", "a file has one writer: single renewals in one transaction"),
];

/// The `sql.rs` of every backend has the statements of the others for the methods of `LeaseStore`,
/// and what two pages share, or a page and the contract, stands in the same order.
pub(crate) fn the_same_statements(tree: &Tree) -> Vec<Finding> {
    let methods = tree.file(CONTRACT).map(|file| names(&file.text, &["async"])).unwrap_or_default();
    if methods.is_empty() {
        let problem = "no method found; if the contract has moved, tell xtask/src/tidy/backends.rs where";
        return vec![Finding::new(CONTRACT, 1, problem)];
    }
    let pages: Vec<Page<'_>> = backends(tree)
        .into_iter()
        .filter_map(|backend| {
            let file = tree.file(&format!("{backend}/src/sql.rs"))?;
            Some(Page { backend, path: &file.path, statements: names(&file.text, &["pub"]) })
        })
        .collect();
    let mut findings = Vec::new();
    for page in &pages {
        findings.extend(page.unordered(CONTRACT, &methods));
        for (_, method) in &methods {
            let others = pages.iter().find(|other| other.has(method));
            let excused =
                OTHER_WAYS.iter().any(|(backend, name, _)| *backend == page.backend && name == method);
            if let Some(other) = others.filter(|_| !page.has(method) && !excused) {
                let problem = format!(
                    "no statement `{method}`, which {} has; give them the same names, or say why not in \
                     xtask/src/tidy/backends.rs",
                    other.path
                );
                findings.push(Finding::new(page.path, 1, problem));
            }
        }
        if !methods.iter().any(|(_, method)| page.has(method)) {
            let problem = "no statement has the name of a method of LeaseStore; name them so, and make them `pub(crate)`";
            findings.push(Finding::new(page.path, 1, problem));
        }
    }
    if let Some((model, pages)) = pages.split_first() {
        findings.extend(pages.iter().filter_map(|page| page.unordered(model.path, &model.statements)));
    }
    findings
}

/// The statements of one dialect.
struct Page<'a> {
    backend: &'a str,
    path: &'a str,
    statements: Vec<(usize, String)>,
}

impl Page<'_> {
    fn has(&self, name: &str) -> bool {
        self.statements.iter().any(|(_, found)| found == name)
    }

    /// The first statement that stands behind one that comes later in `order`.
    fn unordered(&self, model: &str, order: &[(usize, String)]) -> Option<Finding> {
        let place = |name: &str| order.iter().position(|(_, known)| known == name);
        let mut latest = 0;
        for (line, name) in &self.statements {
            let Some(place) = place(name) else { continue };
            if place < latest {
                let problem = format!("`{name}` behind `{}`; keep the order of {model}", order[latest].1);
                return Some(Finding::new(self.path, *line, problem));
            }
            latest = place;
        }
        None
    }
}

/// The crates that hold a dialect, in order.
fn backends(tree: &Tree) -> Vec<&str> {
    let has = |folder: &str, file: &str| tree.file(&format!("{folder}/{file}")).is_some();
    tree.crates().filter(|folder| has(folder, "src/sql.rs") || has(folder, "src/schema.sql")).collect()
}

/// The constants and functions that begin with one of these words, in small letters, and their lines.
fn names(source: &str, first: &[&str]) -> Vec<(usize, String)> {
    let code = Rust::read(source).production();
    let mut names = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let is_keyword = |word: &&str| matches!(*word, "const" | "static" | "fn");
        let item: Vec<&str> = words(line).map(|word| word.text).collect();
        let named_by = item.iter().skip_while(|word| !is_keyword(word)).find(|word| !is_keyword(word));
        if let Some(name) = named_by
            && item.first().is_some_and(|word| first.contains(word))
        {
            names.push((index + 1, name.to_lowercase()));
        }
    }
    names
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
    fn a_source_that_one_backend_of_a_server_lacks_is_found() {
        let mut files = [backend("a", "", ""), backend("b", "", ""), backend("embedded", "", "")].concat();
        let of_a = ["a/src/url.rs", "a/src/pool.rs", "a/src/notices.rs", "a/src/notices/announcer.rs"];
        for file in of_a.into_iter().chain(["b/src/url.rs", "embedded/src/worker.rs"]) {
            files.push((file.to_owned(), ""));
        }
        let findings = shown(&the_same_files(&planted(&files)));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("b/src/pool.rs:1: missing"), "{}", findings[0]);
    }

    #[test]
    fn a_workspace_without_any_backend_is_found() {
        let tree = Tree::planted(&[("a/Cargo.toml", ""), ("a/src/lib.rs", "")]);
        assert!(shown(&the_same_files(&tree))[0].starts_with("Cargo.toml:1: no crate has src/sql.rs"));
    }

    const METHODS: &str = "trait LeaseStore {\n    fn describe();\n    async fn claim();\n    async fn renew();\n\
                           async fn verify();\n    async fn renew_many();\n}\n";

    fn statements(pages: &[&str]) -> Vec<String> {
        let mut files = vec![(CONTRACT.to_owned(), METHODS)];
        for (page, name) in pages.iter().zip(["a", "b", "lease-sqlite"]) {
            files.extend(backend(name, page, ""));
        }
        shown(&the_same_statements(&planted(&files)))
    }

    const WHOLE: &str = "pub(crate) const NOW: &str = \"\";\npub(crate) const fn claim() {}\npub(crate) const RENEW: &'static str = \"\";\n\
                         pub(crate) fn own() {}\npub(crate) fn verify() {}\n";

    #[test]
    fn pages_that_mirror_each_other_may_have_statements_of_their_own() {
        let other = WHOLE.replace("fn own()", "fn other()");
        assert_eq!(statements(&[WHOLE, &other]), [""; 0]);
    }

    #[test]
    fn a_statement_out_of_the_contracts_order_is_found() {
        let page = "pub(crate) const RENEW: &str = \"\";\npub(crate) const fn claim() {}\n";
        assert_eq!(
            statements(&[page]),
            ["a/src/sql.rs:2: `claim` behind `renew`; keep the order of lease-core/src/store.rs"]
        );
    }

    #[test]
    fn shared_statements_in_two_orders_are_found() {
        let page = WHOLE.replace("const NOW", "const NEW") + "pub(crate) const NOW: &str = \"\";\n";
        assert_eq!(
            statements(&[WHOLE, &page]),
            ["b/src/sql.rs:6: `now` behind `verify`; keep the order of a/src/sql.rs"]
        );
    }

    #[test]
    fn a_statement_that_another_backend_has_is_missed() {
        let page = WHOLE.replace("const RENEW", "const RENEWAL");
        let expected = [
            "b/src/sql.rs:1: no statement `renew`, which a/src/sql.rs has; give them the same names, or say \
                         why not in xtask/src/tidy/backends.rs",
        ];
        assert_eq!(statements(&[WHOLE, &page]), expected);
        // A method that no backend has a statement for is no finding.
        let neither = [&page, &page].map(String::as_str);
        assert_eq!(statements(&neither), [""; 0]);
    }

    #[test]
    fn a_method_answered_in_another_way_for_a_reason_is_not_missed() {
        let page = format!("{WHOLE}pub(crate) fn renew_many() {{}}\n");
        assert_eq!(statements(&[&page, &page, WHOLE]), [""; 0]);
        assert_eq!(statements(&[&page, WHOLE]).len(), 1);
    }

    #[test]
    fn a_page_or_a_contract_with_nothing_to_compare_is_found() {
        let hidden = "/*\npub fn claim() {}\n*/\nfn renew() {}\n#[cfg(test)]\nmod tests {\n    pub fn verify() {}\n}\n";
        let findings = statements(&[hidden]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("a/src/sql.rs:1: no statement has the name"), "{}", findings[0]);
        let tree = planted(&backend("a", WHOLE, ""));
        assert!(
            shown(&the_same_statements(&tree))[0].starts_with("lease-core/src/store.rs:1: no method found")
        );
    }
}
