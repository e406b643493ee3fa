//! What libraries offer, item by item, as text and back.

use std::collections::{BTreeMap, BTreeSet};

/// The items of each library.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing(BTreeMap<String, BTreeSet<String>>);

const HEAD: &str = "\
What the published libraries offer, with all features, one item a line. Implementations that every type has are left out.
`cargo xtask api` compares this with the code, and `cargo xtask api --write` writes it anew.
";

impl Listing {
    pub(crate) fn add(&mut self, library: &str, items: impl Iterator<Item = String>) {
        self.0.entry(library.to_owned()).or_default().extend(items);
    }

    pub(crate) fn libraries(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.0.iter().map(|(library, items)| (library.as_str(), items))
    }

    /// The text that is kept.
    pub(crate) fn text(&self) -> String {
        let sections = self.0.iter().map(|(library, items)| {
            let items: Vec<&str> = items.iter().map(String::as_str).collect();
            format!("\n# {library}\n\n{}\n", items.join("\n"))
        });
        [HEAD.to_owned()].into_iter().chain(sections).collect()
    }

    /// Of a text that was kept. What it is not sure of is an item that nobody offers, and so a change.
    pub(crate) fn parse(text: &str) -> Self {
        let mut listing = Self::default();
        let mut library = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("# ") {
                library = Some(name);
                listing.add(name, std::iter::empty());
            } else if let Some(library) = library.filter(|_| !line.is_empty()) {
                listing.add(library, std::iter::once(line.to_owned()));
            }
        }
        listing
    }

    /// What has gone and what has come since, a line each.
    pub(crate) fn changes(&self, now: &Self) -> Vec<String> {
        let libraries: BTreeSet<&String> = self.0.keys().chain(now.0.keys()).collect();
        let none = BTreeSet::new();
        let mut changes = Vec::new();
        for library in libraries {
            let kept = self.0.get(library).unwrap_or(&none);
            let found = now.0.get(library).unwrap_or(&none);
            changes.extend(kept.difference(found).map(|item| format!("{library}: - {item}")));
            changes.extend(found.difference(kept).map(|item| format!("{library}: + {item}")));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(libraries: &[(&str, &[&str])]) -> Listing {
        let mut listing = Listing::default();
        for (library, items) in libraries {
            listing.add(library, items.iter().map(ToString::to_string));
        }
        listing
    }

    #[test]
    fn a_listing_is_read_as_it_was_written() {
        let written =
            listing(&[("lease-core", &["pub mod b", "pub fn a"]), ("lease-testkit", &["pub mod c"])]);
        assert_eq!(Listing::parse(&written.text()), written);
        assert!(
            written
                .text()
                .ends_with("\n# lease-core\n\npub fn a\npub mod b\n\n# lease-testkit\n\npub mod c\n")
        );
    }

    #[test]
    fn what_has_gone_and_what_has_come_is_told_of_each_library() {
        let kept = listing(&[("a", &["one", "two"]), ("gone", &["it"])]);
        let now = listing(&[("a", &["two", "three"]), ("new", &["that"])]);
        assert_eq!(kept.changes(&now), ["a: - one", "a: + three", "gone: - it", "new: + that"]);
        assert_eq!(now.changes(&now), [""; 0]);
    }
}
