//! Links from one tracked Markdown file to another lead somewhere.

use std::collections::HashMap;

use super::tree::{File, Finding, Tree};

/// Every relative link leads to a tracked file or folder, its anchor to a heading.
pub(crate) fn no_dead_links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.markdown() {
        for (line, text) in prose(&file.text) {
            for target in targets(&text).filter(|target| is_relative(target)) {
                if let Some(problem) = dead(tree, file, target) {
                    findings.push(Finding::new(
                        &file.path,
                        line,
                        format!("`{target}`: {problem}; mend the link"),
                    ));
                }
            }
        }
    }
    findings
}

/// What is wrong with a link of the file, if anything.
fn dead(tree: &Tree, file: &File, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { Some(file.path.clone()) } else { beside(&file.path, path) };
    let Some(path) = path else { return Some("leads out of the repository".to_owned()) };
    let Some(goal) = tree.file(&path) else {
        let is_folder = path.is_empty() || tree.files.iter().any(|f| f.path.starts_with(&format!("{path}/")));
        return (!is_folder).then(|| "no tracked file or folder is there".to_owned());
    };
    let has_anchor = anchor.is_empty() || !goal.is("md") || anchors(&goal.text).contains(&anchor.to_owned());
    (!has_anchor).then(|| format!("{path} has no heading for that anchor"))
}

/// The path of `target` as seen from the folder of `file`; `None` above the root.
fn beside(file: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The lines outside code blocks, numbered, with the code in them taken out.
fn prose(markdown: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut fence = None;
    for (index, line) in markdown.lines().enumerate() {
        let opens = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, opens) {
            (None, None) => lines.push((index + 1, without_code(line))),
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
        }
    }
    lines
}

/// The line without what stands between backticks. An odd backtick is a character like any other.
fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let paired = if parts.len() % 2 == 1 { parts.len() } else { parts.len() - 1 };
    let kept = parts.iter().enumerate().filter(|(index, _)| index % 2 == 0 || *index >= paired);
    kept.map(|(_, part)| *part).collect()
}

/// What the links of a line lead to: `[text](target "title")` and `[label]: target`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let defined = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let defined = defined.and_then(|(_, target)| target.split_whitespace().next());
    inline.chain(defined).map(|target| target.trim_matches(['<', '>']))
}

/// Addresses lead elsewhere, and `crate::Item` is rustdoc's to check.
fn is_relative(target: &str) -> bool {
    !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") && !target.contains("::")
}

/// The anchors of the headings: in small letters, without marks, `-` for a space, numbered when repeated.
fn anchors(markdown: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut in_code = false;
    let mut anchors = Vec::new();
    for line in markdown.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if in_code || level == 0 || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let repeated = seen.entry(anchor.clone()).or_default();
        anchors.push(if *repeated == 0 { anchor } else { format!("{anchor}-{repeated}") });
        *repeated += 1;
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::shown;

    #[test]
    fn a_link_to_nothing_is_found() {
        let readme = "# a\n[b](../CONTRIBUTING.md) [c](src/gone.rs)\n\n[d]: gone.md \"title\"\n[e](#nowhere)\n\
                      [f](../CONTRIBUTING.md#how-to-build) [g](../CONTRIBUTING.md#gone)\n[h](../../x)\n";
        let tree = Tree::planted(&[
            ("a/README.md", readme),
            ("a/src/lib.rs", ""),
            ("CONTRIBUTING.md", "# Contributing\n## How to `build`\n"),
        ]);
        assert_eq!(
            shown(&no_dead_links(&tree)),
            [
                "a/README.md:2: `src/gone.rs`: no tracked file or folder is there; mend the link",
                "a/README.md:4: `gone.md`: no tracked file or folder is there; mend the link",
                "a/README.md:5: `#nowhere`: a/README.md has no heading for that anchor; mend the link",
                "a/README.md:6: `../CONTRIBUTING.md#gone`: CONTRIBUTING.md has no heading for that anchor; mend the link",
                "a/README.md:7: `../../x`: leads out of the repository; mend the link",
            ]
        );
    }

    #[test]
    fn links_that_lead_somewhere_are_no_finding() {
        let readme = "# What's new, `b`?\n## Same\n## Same\n[a](a/src) [b](./a/src/lib.rs#L3) [c](#whats-new-b) \
                      [d](#same-1)\n[e](https://example.org/x) [f](mailto:g@example.org) [h](crate::I)\n";
        let tree = Tree::planted(&[("README.md", readme), ("a/src/lib.rs", "")]);
        assert_eq!(no_dead_links(&tree), []);
    }

    #[test]
    fn code_holds_no_links() {
        let readme = "`[a](gone)`\n```rust\nb[0](gone)\n# [c](gone)\n```\n~~~\n```\n[d](gone)\n~~~\n";
        assert_eq!(no_dead_links(&Tree::planted(&[("README.md", readme)])), []);
    }

    #[test]
    fn a_link_behind_an_odd_backtick_is_seen() {
        let tree = Tree::planted(&[("README.md", "a ` [b](gone)\n")]);
        assert_eq!(no_dead_links(&tree).len(), 1);
    }
}
