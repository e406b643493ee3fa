//! What `--db` may be given.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::exit::Failure;
use crate::text::password;

/// A database, by its kind. A server's URL may hold a password.
pub(crate) enum Url {
    Sqlite(PathBuf),
    Postgres(String),
    /// MySQL or MariaDB.
    Mysql(String),
}

/// Reads what `--db` was given. What comes after the scheme of a server's URL is for its store to read.
pub(crate) fn parse(url: &OsStr) -> Result<Url, Failure> {
    let text = url.to_string_lossy();
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
        _ => return sqlite_path(url),
    };
    if url.to_str().is_none() {
        return Err(Failure::usage(format!(
            "what follows {scheme}: is no UTF-8; write it percent-encoded, or ./{scheme}:... for a path"
        )));
    }
    match scheme.as_str() {
        "postgres" | "postgresql" => Ok(Url::Postgres(format!("{scheme}:{rest}"))),
        "mysql" | "mariadb" => Ok(Url::Mysql(format!("{scheme}:{rest}"))),
        "sqlite" if rest.contains(['?', '#', '%']) => Err(Failure::usage(
            "parameters and percent escapes in a sqlite: URL are not supported; give a plain path",
        )),
        "sqlite" => sqlite_path(OsStr::new(rest.strip_prefix("//").unwrap_or(rest))),
        _ if password(&text).is_some() => Err(no_database()),
        _ => Err(Failure::usage(format!(
            "{text:?} names a kind of database that this program does not know; supported: postgres://..., mysql://..., mariadb://..., sqlite:PATH, or a plain path (./{scheme}:... if it is one)",
        ))),
    }
}

fn sqlite_path(path: &OsStr) -> Result<Url, Failure> {
    match path.to_str() {
        Some("") => Err(Failure::usage("--db is empty; give the URL of a server, sqlite:PATH or a path")),
        Some(":memory:") => {
            Err(Failure::usage("a database in memory is shared with nobody; give a file to --db"))
        }
        Some(path) if password(path).is_some() && !begins_with_a_folder(path) => Err(no_database()),
        _ => Ok(Url::Sqlite(path.into())),
    }
}

/// What was given has a password and is no URL. It is not quoted, for it would be shown wherever a path is.
fn no_database() -> Failure {
    Failure::usage(
        "what names the database reads like a URL with a password, but is none that is supported: \
         postgres://..., mysql://..., mariadb://...; if it is a path, begin it with / or ./",
    )
}

fn begins_with_a_folder(path: &str) -> bool {
    ["/", "./", "../"].iter().any(|start| path.starts_with(start)) && !path.starts_with("//")
}

/// Whether this can be the scheme of a URL rather than part of a file's name.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::exit::USAGE;

    fn parsed(url: &str) -> String {
        match parse(OsStr::new(url)) {
            Ok(Url::Sqlite(path)) => format!("file {}", path.display()),
            Ok(Url::Postgres(url)) => format!("PostgreSQL {url}"),
            Ok(Url::Mysql(url)) => format!("MySQL {url}"),
            Err(failure) => {
                assert_eq!(failure.code, USAGE);
                failure.message
            }
        }
    }

    #[test]
    fn a_url_or_a_plain_path_names_a_file() {
        for (url, path) in [
            ("sqlite:///var/lib/l.db", "/var/lib/l.db"),
            ("sqlite:/var/lib/l.db", "/var/lib/l.db"),
            ("sqlite:l.db", "l.db"),
            ("sqlite://sub/l.db", "sub/l.db"),
            ("SQLite:l.db", "l.db"),
            ("/var/lib/l.db", "/var/lib/l.db"),
            ("l.db", "l.db"),
            ("sub/a:b.db", "sub/a:b.db"),
            ("./a:b.db", "./a:b.db"),
            ("./a:b@c.db", "./a:b@c.db"),
            ("/l/a:b@c.db", "/l/a:b@c.db"),
            ("a@b:c.db", "a@b:c.db"),
            ("/a?b#c%20d", "/a?b#c%20d"),
        ] {
            assert_eq!(parsed(url), format!("file {path}"), "{url}");
        }
        let path = OsStr::from_bytes(b"/a\xff");
        assert!(matches!(parse(path), Ok(Url::Sqlite(parsed)) if parsed == path));
    }

    #[test]
    fn the_scheme_names_the_kind_of_server_however_it_is_written() {
        assert_eq!(parsed("postgres://u:p@h/db?a=b"), "PostgreSQL postgres://u:p@h/db?a=b");
        assert_eq!(parsed("PostgreSQL://h/db"), "PostgreSQL postgresql://h/db");
        assert_eq!(parsed("MySQL://h/db"), "MySQL mysql://h/db");
        assert_eq!(parsed("mariadb://h/db"), "MySQL mariadb://h/db");
    }

    #[test]
    fn what_names_no_database_is_refused_with_what_would() {
        for url in ["file:l.db", "a:b.db", "redis://h/0"] {
            let message = parsed(url);
            assert!(message.contains("sqlite:PATH") && message.contains("postgres://"), "{message}");
        }
        for url in ["", "sqlite:", "sqlite://"] {
            assert!(parsed(url).contains("empty"), "{url}");
        }
        assert!(parsed(":memory:").contains("memory"));
        assert!(parsed("sqlite::memory:").contains("memory"));
        assert!(parsed("sqlite:l.db?mode=ro").contains("parameters"));
        for url in [
            "u:secret@h/db",
            "postgresql//u:secret@h",
            "postgres;//u:secret@h",
            "//u:secret@h",
            "sqlite:u:secret@h",
        ] {
            let message = parsed(url);
            assert!(message.contains("postgres://") && !message.contains("secret"), "{message}");
        }
        // Not a path: it would be shown, with the password in it.
        let not_utf_8 = parse(OsStr::from_bytes(b"postgres://u:secret\xff@h/db"));
        let message = not_utf_8.err().map(|failure| failure.message).unwrap_or_default();
        assert!(message.contains("UTF-8") && !message.contains("secret"), "{message}");
    }
}
