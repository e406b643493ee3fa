//! Whose types can be reached from what is published: each is part of our own promise, and binds users to its version.

use std::collections::BTreeSet;

use super::listing::Listing;

/// The crates that the public items of each library may name, beside the standard library and itself, and why.
const REACHABLE: &[(&str, &[&str])] = &[
    // A store on a server runs its work on a runtime of its own, and waits for it as for any task of tokio's.
    ("lease-core", &["tokio"]),
    // Users hand their own connection or pool to a guard.
    ("lease-mysql", &["lease_core", "mysql_async", "mysql_common"]),
    ("lease-postgres", &["lease_core", "tokio_postgres", "deadpool_postgres"]),
    ("lease-sqlite", &["lease_core", "rusqlite"]),
    ("lease-testkit", &["lease_core"]),
];

/// Every item that names another crate's, and which.
pub(crate) fn leaks(listing: &Listing) -> Vec<String> {
    let mut leaks = Vec::new();
    for (library, items) in listing.libraries() {
        let own = library.replace('-', "_");
        let allowed =
            REACHABLE.iter().find(|(name, _)| *name == library).map_or(&[][..], |(_, crates)| crates);
        let is_fine =
            |named: &str| ["core", "alloc", "std", own.as_str()].contains(&named) || allowed.contains(&named);
        for item in items {
            for named in crates(item).into_iter().filter(|named| !is_fine(named)) {
                leaks.push(format!("{library}: {named} in {item}"));
            }
        }
    }
    leaks
}

/// The crates in the paths of an item: what stands before the first `::` of each, unless that is a type's own name. Of what is another
/// crate's and handed on whole, the listing says the name alone.
fn crates(item: &str) -> BTreeSet<&str> {
    let of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let named = item
        .split(|c: char| !of_path(c))
        .filter_map(|path| path.trim_start_matches(':').split_once("::"))
        .map(|(first, _)| first)
        .filter(|first| first.starts_with(|c: char| c.is_lowercase() || c == '_'));
    let handed_on = ["pub use ", "pub extern crate "].iter().find_map(|start| item.split_once(start));
    let handed_on =
        handed_on.and_then(|(_, path)| path.rsplit("::").next()).filter(|name| !name.starts_with('*'));
    named.chain(handed_on).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaks_of(library: &str, item: &str) -> Vec<String> {
        let mut listing = Listing::default();
        listing.add(library, std::iter::once(item.to_owned()));
        leaks(&listing)
    }

    #[test]
    fn a_driver_below_core_is_found_wherever_it_stands_in_an_item() {
        for driver in ["tokio_postgres", "deadpool_postgres", "mysql_async", "rusqlite", "sqlx", "metrics"] {
            for item in [
                format!("pub fn lease_core::Leases::x(&self) -> core::result::Result<(), {driver}::Error>"),
                format!("pub fn lease_core::Leases::x(&'a {driver}::Client)"),
                format!("impl core::convert::From<{driver}::error::Error> for lease_core::Error"),
                format!("pub fn lease_core::x() -> <{driver}::A as core::ops::Deref>::Target"),
            ] {
                assert_eq!(leaks_of("lease-core", &item), [format!("lease-core: {driver} in {item}")]);
            }
        }
    }

    #[test]
    fn what_is_handed_on_whole_is_found_by_its_name() {
        for (item, named) in [
            ("pub use lease_core::tokio_postgres", "tokio_postgres"),
            ("pub use lease_core::store::Client", "Client"),
            ("pub use lease_core::<<rusqlite::types::*>>", "rusqlite"),
            ("pub extern crate lease_core::sqlx", "sqlx"),
        ] {
            assert_eq!(leaks_of("lease-core", item), [format!("lease-core: {named} in {item}")]);
        }
        assert_eq!(leaks_of("lease-mysql", "pub use lease_mysql::mysql_async"), [""; 0]);
        assert_eq!(leaks_of("lease-postgres", "pub use lease_postgres::mysql_async").len(), 1);
    }

    #[test]
    fn a_backend_names_its_own_driver_and_no_other() {
        let item = "pub fn lease_sqlite::SqliteStore::guard(rusqlite::Connection, lease_core::Tenure)";
        assert_eq!(leaks_of("lease-sqlite", item), [""; 0]);
        assert_eq!(leaks_of("lease-mysql", item).len(), 2);
    }

    #[test]
    fn types_of_parameters_and_associated_ones_are_no_crates() {
        let item = "pub fn lease_core::Leases::claim<N>(&self, N) where lease_core::Error: From<N::Error>, \
                    <Self as alloc::borrow::ToOwned>::Owned, T::Output: 'static";
        assert_eq!(leaks_of("lease-core", item), [""; 0]);
    }

    #[test]
    fn every_published_library_has_its_row() {
        let rows: Vec<&str> = REACHABLE.iter().map(|(library, _)| *library).collect();
        assert_eq!(rows, super::super::LIBRARIES);
    }
}
