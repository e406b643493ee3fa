//! Which texts cannot have committed anything, whatever has become of them.

/// How statements begin that commit nothing: not by themselves, nor by functions and triggers, in which the server refuses all
/// that commits. (A procedure can, so `CALL` is none of them; nor is `SET`, for the sake of `autocommit`.)
const HARMLESS: [&str; 13] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "REPLACE",
    "WITH",
    "VALUES",
    "TABLE",
    "DO",
    "SHOW",
    "EXPLAIN",
    "SAVEPOINT",
    "RELEASE",
];

/// Whether a text can commit, as far as is known: one that has a second statement, or begins with a comment, can.
pub(super) fn can_commit(text: &[u8]) -> bool {
    let end = text.iter().rposition(|byte| !byte.is_ascii_whitespace() && *byte != b';');
    let text = &text[..end.map_or(0, |last| last + 1)];
    text.contains(&b';') || begins_otherwise(text)
}

fn begins_otherwise(text: &[u8]) -> bool {
    let begin = text.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b'(');
    let text = &text[begin.unwrap_or(text.len())..];
    let end = text.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
    let rest = rest.trim_ascii_start();
    let back_to = is("ROLLBACK") && rest.len() > 3 && rest[..3].eq_ignore_ascii_case(b"TO ");
    !back_to && !HARMLESS.into_iter().any(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_commit_nothing_is_taken_for_it() {
        for text in [
            "SELECT 1",
            " (select 1) union (select 2);\n ",
            "insert INTO t VALUES (1)",
            "\n\tUPDATE t SET a = 1",
            "WITH a AS (SELECT 1) DELETE FROM t",
            "ROLLBACK TO SAVEPOINT mine",
            "RELEASE SAVEPOINT mine",
        ] {
            assert!(!can_commit(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            ";",
            "COMMIT",
            "ROLLBACK",
            "ROLLBACK AND CHAIN",
            "CALL p()",
            "SET autocommit = 1",
            "SELECT 1; COMMIT",
            "UPDATED",
            "SELECTED FROM t",
            "/* note */ SELECT 1",
            "/*! COMMIT */",
            "CREATE TABLE t (a INT)",
            "BEGIN NOT ATOMIC COMMIT; END",
            "XA START 'a'",
        ] {
            assert!(can_commit(text.as_bytes()), "{text}");
        }
    }
}
