//! What is left behind by haste.

use super::rust::{Rust, words};
use super::tree::{Finding, Tree};

/// No Rust file has ignored tests, unfinished code, notes to come back, or lints silenced for good.
pub(crate) fn no_leftovers(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust("") {
        let rust = Rust::read(&file.text);
        let mut find = |line: usize, problem: &str| findings.push(Finding::new(&file.path, line, problem));
        for word in words(&rust.code) {
            if matches!(word.text, "todo" | "unimplemented" | "dbg") && word.after.starts_with('!') {
                find(word.line, &format!("`{}!`; finish it or take it out", word.text));
            }
        }
        for word in words(&rust.comments) {
            if matches!(word.text, "FIXME" | "XXX") {
                find(word.line, &format!("`{}`; mend it, or say in prose what is and why", word.text));
            }
        }
        for (index, line) in rust.code.lines().enumerate() {
            if is_attribute(line, "ignore") {
                find(index + 1, "an ignored test; make it run everywhere or take it out");
            }
            if is_attribute(line, "allow") {
                find(
                    index + 1,
                    "`allow` of a lint; use `#[expect(..., reason = \"...\")]`, which goes stale loudly",
                );
            }
        }
        for (index, line) in rust.comments.lines().enumerate() {
            if is_ignored_fence(line) {
                find(index + 1, "an ignored documentation test; make it run, `no_run` or `text`");
            }
        }
    }
    findings
}

/// Whether the line has this attribute, perhaps by way of `cfg_attr`.
fn is_attribute(line: &str, attribute: &str) -> bool {
    let attributes = ["#[", "#!["].iter().any(|start| line.contains(&format!("{start}{attribute}")));
    attributes || line.contains("cfg_attr") && words(line).any(|word| word.text == attribute)
}

fn is_ignored_fence(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!', '*']).trim_start();
    text.strip_prefix("```").is_some_and(|tags| tags.split(',').any(|tag| tag.trim().starts_with("ignore")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::shown;

    fn found(source: &str) -> Vec<String> {
        shown(&no_leftovers(&Tree::planted(&[("a/src/lib.rs", source)])))
    }

    #[test]
    fn each_leftover_is_found() {
        let leftovers = [
            ("#[test]\n#[ignore]\nfn a() {}", 2),
            ("#[ignore = \"slow\"]", 1),
            ("#[cfg_attr(miri, ignore)]", 1),
            ("fn a() {\n    todo!()\n}", 2),
            ("fn a() { unimplemented!(\"b\") }", 1),
            ("fn a() { dbg!(1); }", 1),
            ("// FIXME: later", 1),
            ("/* a\n XXX */", 2),
            ("#[allow(dead_code)]", 1),
            ("#![allow(unused)]", 1),
            ("#[cfg_attr(unix, allow(unused))]", 1),
            ("/// ```rust,ignore", 1),
            ("//! ```ignore", 1),
        ];
        for (source, line) in leftovers {
            let findings = found(source);
            assert_eq!(findings.len(), 1, "{source}: {findings:?}");
            assert!(findings[0].starts_with(&format!("a/src/lib.rs:{line}: ")), "{}", findings[0]);
        }
    }

    #[test]
    fn what_only_resembles_a_leftover_is_let_pass() {
        let fine = "#[expect(dead_code, reason = \"b\")]\n// the todo list\n// ```text\nfn ignore(todo: u8) { allow(\"FIXME dbg!\"); }\n";
        assert_eq!(found(fine), [""; 0]);
    }
}
