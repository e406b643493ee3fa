//! Which server it is: others speak PostgreSQL's protocol, too.

use lease_core::ErrorKind;
use lease_core::store::StoreError;

/// The oldest major version that is tested.
pub(crate) const OLDEST: u32 = 14;

/// The number before the first dot, of a `server_version` or of what follows the product in `version()`.
pub(crate) fn major(version: &str) -> Option<u32> {
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().ok()
}

/// Judges what a server says of itself in `version()`.
pub(crate) fn is_supported(version: &str) -> Result<(), StoreError> {
    let shown: String = version.chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect();
    // ClickHouse says no more than its number, which has four parts.
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    let found = if version.split('.').count() == 4 && version.split('.').all(is_number) {
        format!("it is ClickHouse {shown}")
    } else if let Some(number) = version.strip_prefix("PostgreSQL ") {
        let (is_another, is_old) =
            (number.contains("-YB-"), major(number).is_none_or(|major| major < OLDEST));
        if !is_another && !is_old {
            return Ok(());
        }
        format!("it is {shown}")
    } else if major(version).is_some() {
        // The parameter of the connection, of a server that does not answer `version()`.
        format!("it says version {shown}")
    } else {
        format!("it is {shown}")
    };
    let advice = format!("use PostgreSQL {OLDEST} or later");
    let message = format!("the server cannot carry leases: {found}");
    Err(StoreError::new(ErrorKind::Unsupported, message).with_advice(advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postgres_from_14_on_is_supported_whoever_built_it() {
        for version in [
            "PostgreSQL 14.0 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit",
            "PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu",
            "PostgreSQL 16.3 on aarch64-unknown-linux-gnu, compiled by aarch64-unknown-linux-gnu-gcc",
            "PostgreSQL 18beta1 on x86_64",
        ] {
            assert!(is_supported(version).is_ok(), "{version}");
        }
    }

    #[test]
    fn others_are_refused_by_their_name_and_version() {
        for (version, says) in [
            ("PostgreSQL 13.23 on x86_64-pc-linux-gnu", "PostgreSQL 13.23"),
            ("24.8.2.3", "ClickHouse 24.8.2.3"),
            ("CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)", "CockroachDB CCL v24.1.0"),
            ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.66954", "Redshift"),
            ("PostgreSQL 15.2-YB-2024.2.0.0-b0 on x86_64", "15.2-YB-2024.2"),
            ("CrateDB 5.7.1 (built 1234/NA, Linux)", "CrateDB 5.7.1"),
            ("13.0.0", "version 13.0.0"),
            ("two\nlines", "two lines"),
        ] {
            let error = is_supported(version).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{version}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
