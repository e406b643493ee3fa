//! The shape of text files.

use super::tree::{Finding, Tree};

const LONGEST: usize = 600;

/// A source file past 600 lines holds more than one idea.
pub(crate) fn no_long_sources(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust("") {
        let lines = file.text.lines().count();
        if lines > LONGEST {
            let problem = format!("{lines} lines; past {LONGEST} a file holds more than one idea: part them");
            findings.push(Finding::new(&file.path, LONGEST, problem));
        }
    }
    findings
}

/// No line ends in white space, and the last one ends.
pub(crate) fn no_ragged_lines(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    // What a fuzzer is given is as it is.
    for file in tree.files.iter().filter(|file| !file.path.starts_with("fuzz/corpus/")) {
        for (index, line) in file.text.split('\n').enumerate() {
            if line.ends_with(char::is_whitespace) {
                findings.push(Finding::new(&file.path, index + 1, "white space at the end; take it off"));
            }
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            let last = file.text.lines().count();
            findings.push(Finding::new(&file.path, last, "no newline at the end of the file; add one"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::shown;

    #[test]
    fn a_source_of_more_than_600_lines_is_found() {
        let long = "\n".repeat(601);
        let tree = Tree::planted(&[("a.rs", &long), ("b.rs", &long[1..]), ("c.md", &long)]);
        let findings = shown(&no_long_sources(&tree));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("a.rs:600: 601 lines"), "{}", findings[0]);
    }

    #[test]
    fn trailing_white_space_and_a_missing_last_newline_are_found() {
        let tree = Tree::planted(&[
            ("a.md", "a  \nb\t\nc\r\n"),
            ("b.toml", "a\nb"),
            ("c.rs", "a\n\nb\n"),
            ("d.png", ""),
        ]);
        let findings = shown(&no_ragged_lines(&tree));
        let places: Vec<&str> = findings.iter().filter_map(|line| line.split(": ").next()).collect();
        assert_eq!(places, ["a.md:1", "a.md:2", "a.md:3", "b.toml:2"]);
    }
}
