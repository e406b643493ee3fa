//! What the library logs stands in one table, which people alert by.

use std::collections::BTreeSet;

use super::rust::Rust;
use super::tree::{File, Finding, Tree};

const PAGE: &str = "docs/operations.md";
const LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];

/// Every event of the library crates is a row of the table in docs/operations.md, and every row is an event.
pub(crate) fn every_event_is_documented(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else {
        let problem = "missing; if the table of events has moved, tell xtask/src/tidy/logged.rs where";
        return vec![Finding::new(PAGE, 1, problem)];
    };
    let events: Vec<Event<'_>> =
        tree.rust("lease-").filter(|file| is_library(file)).flat_map(events).collect();
    let rows: Vec<Row> =
        page.text.lines().enumerate().filter_map(|(index, line)| Row::read(index + 1, line)).collect();
    let mut findings = Vec::new();
    for event in &events {
        if !rows.iter().any(|row| row.tells(event)) {
            let problem = format!(
                "no row of the table of events in {PAGE} has the level `{}`, the message `{}`, the target `{}` \
                 and the fields `{}`; write it, and a line of the changelog",
                event.level,
                event.message,
                event.target,
                joined(&event.fields)
            );
            findings.push(Finding::new(event.path, event.line, problem));
        }
    }
    for row in rows {
        let stale =
            |target: &&String| !events.iter().any(|event| event.target == **target && row.tells(event));
        if let Some(target) = row.targets.iter().find(stale) {
            let problem = format!(
                "`{target}` has no such event any more; mend the row, and write a line of the changelog"
            );
            findings.push(Finding::new(PAGE, row.line, problem));
        }
    }
    findings
}

/// The program is no library: what it says is documented with it.
fn is_library(file: &File) -> bool {
    file.path.split_once("/src/").is_some_and(|(folder, _)| folder != "lease-cli")
}

struct Event<'a> {
    path: &'a str,
    line: usize,
    level: &'static str,
    /// As written, with its placeholders.
    message: String,
    target: String,
    fields: BTreeSet<String>,
}

fn events(file: &File) -> Vec<Event<'_>> {
    let rust = Rust::read(&file.text);
    let code = rust.production();
    let mut events = Vec::new();
    for level in LEVELS {
        for (at, call) in code.match_indices(&format!("{level}!(")) {
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let line = 1 + code[..at].matches('\n').count();
            let arguments = arguments(&code[at + call.len()..]);
            let last = line + arguments.matches('\n').count();
            let mut literals = rust.strings.iter().filter(|literal| (line..=last).contains(&literal.line));
            let message = literals.next_back().map(|literal| literal.text.clone()).unwrap_or_default();
            let fields = parts(arguments).filter_map(field).collect();
            events.push(Event { path: &file.path, line, level, message, target: target(&file.path), fields });
        }
    }
    events
}

/// What stands between the parentheses of a call, behind the first.
fn arguments(code: &str) -> &str {
    let mut depth = 0;
    for (index, character) in code.char_indices() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => return &code[..index],
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    code
}

/// The arguments one by one; a comma within parentheses parts none.
fn parts(arguments: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    arguments.split(move |character| {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        depth == 0 && character == ','
    })
}

/// The name of a field: of `lease = %name` it is `lease`, of `%error` `error`. The message, blank here, has none.
fn field(part: &str) -> Option<String> {
    let name = part.split('=').next()?.trim().trim_start_matches(['%', '?']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// The path of the module, which is what an event has for its target.
fn target(path: &str) -> String {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod").trim_end_matches("/lib");
    path.replacen("/src", "", 1).replace('-', "_").replace('/', "::")
}

/// A row of the table: level, messages, targets, fields, and what is said of them.
struct Row {
    line: usize,
    level: String,
    messages: Vec<String>,
    targets: Vec<String>,
    fields: BTreeSet<String>,
}

impl Row {
    /// `None` of a line that is no row of this table.
    fn read(line: usize, text: &str) -> Option<Self> {
        let mut cells = text.strip_prefix('|')?.split('|');
        let level = cells.next()?.trim().to_owned();
        let (messages, targets, fields) = (cells.next()?, cells.next()?, cells.next()?);
        LEVELS.contains(&&*level).then(|| Self {
            line,
            level,
            messages: quoted(messages).collect(),
            targets: quoted(targets).collect(),
            fields: quoted(fields).collect(),
        })
    }

    fn tells(&self, event: &Event<'_>) -> bool {
        // What is put in at run time is whatever the table calls it.
        let fixed = event.message.split('{').next().unwrap_or_default();
        self.level == event.level
            && self.messages.iter().any(|message| message.starts_with(fixed))
            && self.targets.contains(&event.target)
            && self.fields == event.fields
    }
}

/// What stands in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(ToOwned::to_owned)
}

fn joined(fields: &BTreeSet<String>) -> String {
    fields.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::shown;

    const SOURCE: &str = "fn a() {\n    tracing::warn!(lease = %name, slot = slot.map(|(a, b)| a), ?answer, \"failed\");\n\
                          // tracing::info!(\"no event\")\n    tracing::debug!(\n        %error,\n        \"again in {pause:?}\"\n    );\n}\n\
                          #[cfg(test)]\nmod tests { fn b() { tracing::error!(\"of a test\"); } }\n";
    const TABLE: &str = "| level | message |\n|---|---|\n\
                         | warn | `failed` | `lease_core::a::b`, `lease_sqlite` | `lease`, `slot`, `answer` | x |\n\
                         | debug | `again in ...` | `lease_core::a::b`, `lease_sqlite` | `error` | y |\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        shown(&every_event_is_documented(&Tree::planted(files)))
    }

    #[test]
    fn events_that_are_rows_and_rows_that_are_events_are_no_finding() {
        let files = [
            ("lease-core/src/a/b.rs", SOURCE),
            ("lease-sqlite/src/lib.rs", SOURCE),
            ("lease-cli/src/main.rs", "fn a() { tracing::info!(\"the program's own\"); }\n"),
            ("lease-core/tests/a.rs", "fn a() { tracing::info!(\"a test's\"); }\n"),
            (PAGE, TABLE),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn an_event_with_another_level_message_target_or_field_is_found() {
        let changes: [(&str, &str); 4] = [
            ("warn!", "info!"),
            ("\"failed\"", "\"has failed\""),
            ("?answer, ", ""),
            ("lease = ", "name = "),
        ];
        for (was, is) in changes {
            let source = SOURCE.replace(was, is);
            let files =
                [("lease-core/src/a/b.rs", &*source), ("lease-sqlite/src/lib.rs", SOURCE), (PAGE, TABLE)];
            let found = found(&files);
            assert_eq!(found.len(), 2, "{is}: {found:?}");
            assert!(found[0].starts_with("lease-core/src/a/b.rs:2: no row of the table"), "{found:?}");
            assert!(
                found[1].starts_with("docs/operations.md:3: `lease_core::a::b` has no such event"),
                "{found:?}"
            );
        }
        let moved = [("lease-core/src/b.rs", SOURCE), ("lease-sqlite/src/lib.rs", SOURCE), (PAGE, TABLE)];
        assert!(found(&moved)[0].contains("the target `lease_core::b`"), "{:?}", found(&moved));
    }

    #[test]
    fn a_message_put_together_at_run_time_is_told_by_its_place() {
        let source = "fn a() { tracing::warn!(%error, \"{failed}\"); }\n";
        let row = "| warn | `release failed`, `finish failed` | `lease_core::a` | `error` |\n";
        assert_eq!(found(&[("lease-core/src/a.rs", source), (PAGE, row)]), [""; 0]);
        assert_eq!(found(&[("lease-core/src/a.rs", source), (PAGE, "")]).len(), 1);
    }

    #[test]
    fn a_table_that_has_moved_away_is_missed() {
        assert_eq!(found(&[("lease-core/src/a.rs", SOURCE)]).len(), 1);
    }
}
