//! `lease-core` knows no SQL and no database.

use super::rust::{Literal, Rust};
use super::tree::{Finding, Tree};

/// No string of `lease-core` is SQL, its tests included.
pub(crate) fn no_sql_in_core(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust("lease-core/src/") {
        for Literal { line, text } in Rust::read(&file.text).strings.iter().filter(|s| is_sql(&s.text)) {
            let start: String = text.trim_start().chars().take(20).collect();
            let problem = format!("`{start}` looks like SQL; statements stand in the sql.rs of a backend");
            findings.push(Finding::new(&file.path, *line, problem));
        }
    }
    findings
}

fn is_sql(text: &str) -> bool {
    let words: Vec<String> = text.split_whitespace().map(str::to_ascii_uppercase).collect();
    let text = words.join(" ");
    let starts = |statement: &str, part: &str| text.starts_with(statement) && text.contains(part);
    // Two words apart from each other only count from the start: "select a name from" is also English.
    ["INSERT INTO ", "INSERT OR ", "DELETE FROM ", "CREATE TABLE ", "ALTER TABLE ", "ON CONFLICT "]
        .iter()
        .any(|statement| text.contains(statement))
        || starts("SELECT ", " FROM ")
        || starts("UPDATE ", " SET ")
        || starts("BEGIN ", "IMMEDIATE")
}

/// Parts of the names of what speaks to databases.
const DRIVERS: &[&str] = &[
    "sql", "postgres", "mariadb", "libpq", "pq-sys", "diesel", "sea-orm", "deadpool", "bb8", "r2d2", "odbc",
    "tiberius", "mongodb", "redis",
];

/// No crate below `lease-core` drives a database; a backend is one, too.
pub(crate) fn no_driver_below_core(tree: &Tree) -> Vec<Finding> {
    let names = tree.core_dependencies.lines().filter_map(|line| line.split_whitespace().next());
    let mut drivers: Vec<&str> =
        names.filter(|name| DRIVERS.iter().any(|driver| name.contains(driver))).collect();
    drivers.sort_unstable();
    drivers.dedup();
    let finding = |driver| {
        let problem = format!(
            "lease-core is built from {driver}, which drives a database; a backend crate is the place \
             (`cargo tree -p lease-core -i {driver}` shows the way to it)"
        );
        Finding::new("lease-core/Cargo.toml", 1, problem)
    };
    drivers.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::shown;

    #[test]
    fn a_statement_in_a_string_of_core_is_found() {
        let source = "fn a() {\n    b(\"SELECT term FROM leases\");\n    b(\"update leases\n set term = 1\");\n\
                      b(r#\"  insert into leases values (1)\"#);\n b(\"BEGIN IMMEDIATE\");\n}\n";
        let tree =
            Tree::planted(&[("lease-core/src/driver.rs", source), ("lease-sqlite/src/sql.rs", source)]);
        let findings = shown(&no_sql_in_core(&tree));
        let places: Vec<&str> = findings.iter().filter_map(|line| line.split(": ").next()).collect();
        let core = |line: u32| format!("lease-core/src/driver.rs:{line}");
        assert_eq!(places, [core(2), core(3), core(5), core(6)]);
        assert!(findings[0].contains("`SELECT term FROM lea` looks like SQL"), "{}", findings[0]);
    }

    #[test]
    fn english_is_no_sql() {
        let source = "// SELECT term FROM leases\nfn a() {\n b(\"select\");\n \
                      b(\"update the server's settings\");\n b(\"cannot select a name from none\");\n}\n";
        let tree = Tree::planted(&[("lease-core/src/error.rs", source)]);
        assert_eq!(no_sql_in_core(&tree), []);
    }

    #[test]
    fn a_database_driver_below_core_is_found_once() {
        let mut tree = Tree::planted(&[]);
        "lease-core v0.1.0\ntokio v1.0.0\nlibsqlite3-sys v0.35.0\ntokio-postgres v0.7.0\nlibsqlite3-sys v0.35.0 (*)\n"
            .clone_into(&mut tree.core_dependencies);
        let findings = shown(&no_driver_below_core(&tree));
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(
            findings[0].contains("libsqlite3-sys, which") && findings[1].contains("tokio-postgres, which")
        );
        "lease-core v0.1.0\ntokio v1.0.0\n".clone_into(&mut tree.core_dependencies);
        assert_eq!(no_driver_below_core(&tree), []);
    }
}
