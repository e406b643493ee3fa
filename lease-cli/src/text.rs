//! Texts for people: nothing that comes from elsewhere can drive the terminal or break a line.

use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use lease_core::store::DbTime;

/// The text with each control character written as an escape.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// The text in one line: line breaks and the white space around them become one space, other
/// control characters escapes.
pub(crate) fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    visible(&lines.join(" "))
}

/// Where the password is in a text that reads like a URL with one, mistyped or not: between the first colon
/// after a `://`, or of all, and the last `@`.
pub(crate) fn password(text: &str) -> Option<Range<usize>> {
    let at = text.rfind('@')?;
    let user = text[..at].find("://").map_or(0, |scheme| scheme + "://".len());
    let colon = user + text[user..at].find(':')?;
    Some(colon + 1..at)
}

/// The text without the password of what was given, if that has one and is quoted in it.
pub(crate) fn without_password_of(given: &str, text: &str) -> String {
    let Some(password) = password(given) else { return text.to_owned() };
    // With what stands around it, for a short one may stand anywhere.
    let around = &given[password.start - 1..=password.end];
    let quoted = format!("{around:?}");
    text.replace(around, ":***@").replace(quoted.trim_matches('"'), ":***@")
}

/// The text with what a store advises a program said as one advises its user.
pub(crate) fn for_users(text: &str) -> String {
    text.replace("migrate()", "`lease migrate`").replace("with table()", "with --table")
}

/// The text without the passwords of the URLs in it.
///
/// Rather too much is hidden than too little: everything from the end of a user's name to the last
/// `@`, white space or not, and the value of every `password` parameter.
pub(crate) fn without_passwords(text: &str) -> String {
    let mut out = text.to_owned();
    let lower = out.to_ascii_lowercase();
    let begins = ["://", "postgres:", "postgresql:", "mysql:", "mariadb:"];
    let ends = begins.iter().filter_map(|begin| Some(lower.find(begin)? + begin.len()));
    if let Some(authority) = ends.min()
        && let Some(at) = out.rfind('@').filter(|at| *at > authority)
        && let Some(colon) = out[authority..at].find(':')
    {
        out.replace_range(authority + colon + 1..at, "***");
    }
    for parameter in ["password=", "passwd=", "pwd=", "sslpassword="] {
        let mut from = 0;
        while let Some(found) = out[from..].to_ascii_lowercase().find(parameter) {
            let start = from + found + parameter.len();
            let value = &out[start..];
            let end = match value.chars().next() {
                Some(quote @ ('\'' | '"')) => value[1..].find(quote).map(|end| end + 2),
                _ => {
                    value.find(|c: char| c.is_whitespace() || matches!(c, '&' | '\'' | '"' | '`' | '<' | '>'))
                }
            };
            out.replace_range(start..start + end.unwrap_or(value.len()), "***");
            from = start + 3;
        }
    }
    out
}

/// A time span, short: `350 ms`, `13.8 s`, `5m 12s`, `3months 8days`.
pub(crate) fn span(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else if duration < Duration::from_secs(100) {
        let tenths = duration.as_millis() / 100;
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        let whole = humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string();
        whole.split(' ').take(2).collect::<Vec<_>>().join(" ")
    }
}

/// A time of the database's clock, to the second. A damaged row can hold a number that is no time.
pub(crate) fn second(time: DbTime) -> String {
    match Timestamp::from_second(time.as_millis().div_euclid(1_000)) {
        Ok(time) => time.to_string(),
        Err(_) => format!("{} ms after 1970", time.as_millis()),
    }
}

/// A time of the database's clock in RFC 3339, to the millisecond; `None` when it is none.
pub(crate) fn rfc3339(ms: i64) -> Option<String> {
    let time = Timestamp::from_millisecond(ms).ok()?;
    let mut text = String::new();
    write!(text, "{time:.3}").ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(visible("a\u{1b}[31mb\u{9b}c\td"), r"a\u{1b}[31mb\u{9b}c\td");
        assert_eq!(visible("größe"), "größe");
    }

    #[test]
    fn a_message_of_many_lines_becomes_one() {
        assert_eq!(one_line("a:\n  b\r\n\n  c\u{1b}\n"), r"a: b c\u{1b}");
    }

    #[test]
    fn passwords_of_urls_are_hidden_wherever_they_stand() {
        for (text, expected) in [
            ("postgres://u:secret@h/db", "postgres://u:***@h/db"),
            ("unexpected 'mysql://u:p@ss:w@h:3306/db' found", "unexpected 'mysql://u:***@h:3306/db' found"),
            ("postgres://u:p/w?d@h/db x", "postgres://u:***@h/db x"),
            ("postgres://h/db?user=u&PassWord=secret&x=1", "postgres://h/db?user=u&PassWord=***&x=1"),
            ("host=h password=secret dbname=d", "host=h password=*** dbname=d"),
            ("host=h password='se cret' dbname=d", "host=h password=*** dbname=d"),
            ("x?password=secret&password=secret", "x?password=***&password=***"),
            ("'postgres://u:se\"c r'et@h/db' found", "'postgres://u:***@h/db' found"),
            ("postgres://u@h/db", "postgres://u@h/db"),
            ("sqlite:///a@b", "sqlite:///a@b"),
            ("PostgreSQL:u:secret@h/db", "PostgreSQL:u:***@h/db"),
            ("no url", "no url"),
        ] {
            assert_eq!(without_passwords(text), expected);
        }
    }

    #[test]
    fn what_was_given_is_quoted_without_its_password_whether_it_is_a_url_or_not() {
        for (given, text, expected) in [
            ("me:secret@h/db", "no file me:secret@h/db", "no file me:***@h/db"),
            ("--db=postgres;//me:secret@h", "x postgres;//me:secret@h", "x postgres;//me:***@h"),
            ("postgres://me:p@ss:w@h", "'postgres://me:p@ss:w@h'", "'postgres://me:***@h'"),
            ("me:a\"b\n@h", r#"cannot use "me:a\"b\n@h""#, r#"cannot use "me:***@h""#),
            ("postgres://me@h:5432/db", "postgres://me@h:5432/db", "postgres://me@h:5432/db"),
            ("@a:b", "@a:b", "@a:b"),
            ("a:b", "a:b@c", "a:b@c"),
            ("ä:ß@é", "ä:ß@é b", "ä:***@é b"),
        ] {
            assert_eq!(without_password_of(given, text), expected);
        }
        for none in ["", "@", ":", "a@b:c", "x://@", "host:1"] {
            assert_eq!(password(none), None, "{none}");
        }
        assert_eq!(password("x://:@"), Some(5..5), "an empty one");
    }

    #[test]
    fn spans_are_short() {
        assert_eq!(span(Duration::ZERO), "0 ms");
        assert_eq!(span(Duration::from_millis(999)), "999 ms");
        assert_eq!(span(Duration::from_millis(13_849)), "13.8 s");
        assert_eq!(span(Duration::from_secs(312)), "5m 12s");
        assert_eq!(span(Duration::from_secs(8_633_132)), "3months 8days");
        assert!(!span(Duration::MAX).is_empty());
    }

    #[test]
    fn times_are_utc_and_numbers_that_are_no_time_do_not_panic() {
        assert_eq!(second(DbTime::from_millis(1_767_225_600_999)), "2026-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_767_225_600_999).as_deref(), Some("2026-01-01T00:00:00.999Z"));
        assert_eq!(rfc3339(1_767_225_600_000).as_deref(), Some("2026-01-01T00:00:00.000Z"));
        for ms in [i64::MIN, i64::MAX] {
            assert!(second(DbTime::from_millis(ms)).ends_with("ms after 1970"));
            assert_eq!(rfc3339(ms), None);
        }
    }
}
