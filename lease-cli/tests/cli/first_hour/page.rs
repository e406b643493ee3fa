//! The page of errors: what was run and what was said, with what varies replaced.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use crate::bench::Outcome;

/// In every URL that the page is made with.
pub(crate) const PASSWORD: &str = "s3cret-w0rd";

/// Set to 1, it has the page written instead of compared.
const WRITE: &str = "LEASE_WRITE_ERRORS";

const HEAD: &str = "\
# The errors of the first hour

What `lease` and the library say, word for word, when something is wrong from the start. A test
(`lease-cli/tests/cli/first_hour.rs`) runs each command below for real and compares; `LEASE_WRITE_ERRORS=1` has it write
this page anew. What differs from machine to machine stands as a word in angle brackets: `<folder>`, `<port>`,
`<host>`, `<pid>`, `<time>`, `<span>`, and `<reason>` for the words of a system or a server. What no machine of the tests has, an
SQLite that is too old and a network file system, is said by the checks of `lease-sqlite` alone; its tests compare the words.
";

pub(crate) struct Page {
    text: String,
}

impl Page {
    pub(crate) fn new() -> Self {
        Self { text: HEAD.to_owned() }
    }

    pub(crate) fn situation(&mut self, heading: &str) {
        write!(self.text, "\n## {heading}\n").unwrap();
    }

    /// A command, and what it said; `varies` has what to replace, and by what.
    pub(crate) fn said(&mut self, command: &str, outcome: &Outcome, varies: &[(&str, &str)]) {
        let shown = format!("{command}{}", outcome.err);
        assert!(!shown.contains(PASSWORD) && !shown.contains("s3cret"), "a password is shown: {shown}");
        let are_ours = !outcome.err.is_empty() && outcome.err.lines().all(|line| line.starts_with("lease: "));
        assert!(are_ours, "{command}: {outcome:?}");
        let code = outcome.code.map_or("a signal".to_owned(), |code| code.to_string());
        let body = replaced(&format!("$ {command}\n{}", outcome.err), varies);
        write!(self.text, "\n```console\n{}\n```\n\nExit code {code}.\n", body.trim_end()).unwrap();
    }

    /// Code of a program that uses the library, and the error it got.
    pub(crate) fn answered(&mut self, code: &str, error: &str) {
        write!(self.text, "\n```rust\n{code}\n```\n\n```text\n{error}\n```\n").unwrap();
    }

    /// Compares with the page in the repository, or writes it.
    pub(crate) fn finish(self) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md");
        if env::var_os(WRITE).is_some_and(|value| value == "1") {
            fs::write(&file, &self.text).unwrap();
            return;
        }
        let kept = fs::read_to_string(&file).unwrap_or_default();
        if kept == self.text {
            return;
        }
        let (kept, said): (Vec<_>, Vec<_>) = (kept.lines().collect(), self.text.lines().collect());
        let first = kept.iter().zip(&said).take_while(|(kept, said)| kept == said).count();
        let part =
            |lines: &[&str]| lines.iter().skip(first).take(3).copied().collect::<Vec<_>>().join("\n  ");
        panic!(
            "docs/errors.md is not what is said now, from line {} on.\nit has:\n  {}\nnow said:\n  {}\n\
             If the new words say what to do, write the page anew: {WRITE}=1 cargo test -p lease-cli --test cli first_hour",
            first + 1,
            part(&kept),
            part(&said)
        );
    }
}

fn replaced(text: &str, varies: &[(&str, &str)]) -> String {
    varies.iter().fold(text.to_owned(), |text, (from, to)| match from.split_once('*') {
        Some((before, after)) => between(&text, before, after, to),
        None => text.replace(from, to),
    })
}

/// Replaces what stands between two texts, wherever they follow each other on a line.
fn between(text: &str, before: &str, after: &str, to: &str) -> String {
    let line = |line: &str| {
        let (mut done, mut rest) = (String::new(), line);
        while let Some((head, tail)) = rest.split_once(before)
            && let Some(end) = tail.find(after)
        {
            write!(done, "{head}{before}{to}{after}").unwrap();
            rest = &tail[end + after.len()..];
        }
        done + rest
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_stands_between_two_texts_is_replaced_wherever_they_are() {
    let text = "a since 1, b since 2, c\nno\nsince 3";
    let varies = [("since *,", "<t>"), (" c", " d")];
    assert_eq!(replaced(text, &varies), "a since <t>, b since <t>, d\nno\nsince 3");
}
