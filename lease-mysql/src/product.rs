//! Who is at the other end, and whether it can carry leases.

use lease_core::ErrorKind;
use lease_core::store::StoreError;

/// The two servers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    MySql,
    MariaDb,
}

impl Product {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MySql => "MySQL",
            Self::MariaDb => "MariaDB",
        }
    }

    /// The first version with all that is needed (MariaDB: SKIP LOCKED), or that is tested (MySQL).
    fn oldest(self) -> (u32, u32) {
        match self {
            Self::MySql => (8, 4),
            Self::MariaDb => (10, 6),
        }
    }
}

/// Databases that speak the protocol and are no MySQL: row locks, SKIP LOCKED, isolation or durable commits are missing
/// or mean something else. Each says its name in its version or the comment beside it.
const OTHERS: &[(&str, &str)] = &[
    ("clickhouse", "ClickHouse"),
    ("tidb", "TiDB"),
    ("vitess", "Vitess"),
    ("planetscale", "PlanetScale"),
    ("oceanbase", "OceanBase"),
    ("singlestore", "SingleStore"),
    ("memsql", "SingleStore"),
    ("starrocks", "StarRocks"),
    ("doris", "Doris"),
    ("databend", "Databend"),
    ("greptime", "GreptimeDB"),
    ("manticore", "Manticore Search"),
    ("dolt", "Dolt"),
    ("sphinx", "Sphinx"),
];

/// Tells by `VERSION()` and `@@version_comment`, or refuses.
pub(crate) fn recognize(version: &str, comment: &str) -> Result<Product, StoreError> {
    let all = format!("{version} {comment}").to_ascii_lowercase();
    let shown: String = version.chars().filter(|c| !c.is_control()).take(60).collect();
    if let Some((_, name)) = OTHERS.iter().find(|(sign, _)| all.contains(sign)) {
        return Err(unsupported(&format!("{name} ({shown})"), "use MySQL or MariaDB".to_owned()));
    }
    let product = if all.contains("mariadb") { Product::MariaDb } else { Product::MySql };
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let oldest = product.oldest();
    if found < oldest {
        let (name, (major, minor)) = (product.name(), oldest);
        return Err(unsupported(&format!("{name} {shown}"), format!("use {name} {major}.{minor} or later")));
    }
    Ok(product)
}

/// Whether a server of this version, if it is MariaDB, has `innodb_snapshot_isolation`, which came to the series of the time at once.
pub(crate) fn has_snapshot_isolation(version: (u16, u16, u16)) -> bool {
    match version {
        (10, 6, patch) => patch >= 18,
        (10, 11, patch) => patch >= 8,
        (11, 0, patch) => patch >= 6,
        (11, 1, patch) => patch >= 5,
        (11, 2, patch) => patch >= 4,
        (11, 4, patch) => patch >= 2,
        (11, minor, _) => minor >= 5,
        (major, ..) => major >= 12,
    }
}

fn unsupported(what: &str, advice: String) -> StoreError {
    let message = format!("the server cannot carry leases: it is {what}");
    StoreError::new(ErrorKind::Unsupported, message).with_advice(advice).without_effect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_that_are_tested_are_recognized() {
        for (version, comment, product) in [
            ("10.11.19-MariaDB-0+deb12u1", "Debian 12", Product::MariaDb),
            ("11.8.2-MariaDB-ubu2404-log", "mariadb.org binary distribution", Product::MariaDb),
            ("9.7.4-2", "(Debian)", Product::MySql),
            ("8.4.0", "MySQL Community Server - GPL", Product::MySql),
            ("8.4.5-5", "Percona Server (GPL), Release 5", Product::MySql),
            ("10.6.0-MariaDB", "", Product::MariaDb),
        ] {
            assert_eq!(recognize(version, comment).unwrap(), product, "{version}");
        }
    }

    #[test]
    fn the_setting_is_used_only_where_it_is_known() {
        for (version, has) in [
            ((8, 4, 9), false),
            ((9, 7, 4), false),
            ((10, 6, 17), false),
            ((10, 6, 18), true),
            ((10, 11, 7), false),
            ((10, 11, 19), true),
            ((11, 0, 5), false),
            ((11, 2, 3), false),
            ((11, 3, 2), false),
            ((11, 4, 1), false),
            ((11, 4, 2), true),
            ((11, 8, 0), true),
            ((12, 0, 1), true),
        ] {
            assert_eq!(has_snapshot_isolation(version), has, "{version:?}");
        }
    }

    #[test]
    fn others_and_old_ones_are_refused_by_name() {
        for (version, comment, says) in [
            ("8.0.32-clickhouse", "", "it is ClickHouse (8.0.32-clickhouse); use MySQL"),
            ("24.8.4.13", "ClickHouse 24.8.4.13", "ClickHouse"),
            ("8.0.11-TiDB-v7.5.0", "TiDB Server (Apache License 2.0)", "TiDB"),
            ("8.0.30-Vitess", "", "Vitess"),
            ("5.7.44-log", "MySQL Community Server", "MySQL 5.7.44-log; use MySQL 8.4 or later"),
            ("8.0.41", "MySQL Community Server - GPL", "use MySQL 8.4"),
            ("10.5.29-MariaDB-log", "", "MariaDB 10.5.29-MariaDB-log; use MariaDB 10.6 or later"),
            ("5.7.99", "StarRocks version 3", "StarRocks"),
            ("", "", "MySQL ; use MySQL 8.4"),
            ("99999999999999999999.1", "", "use MySQL 8.4"),
            ("two\nlines", "", "MySQL twolines"),
        ] {
            let error = recognize(version, comment).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(says), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
