//! What the checks read of a `Cargo.toml`: keys that stand on lines of their own.

/// The value of a key in `[section]`, without quotes.
pub(super) fn value<'a>(manifest: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let mut found = keys(manifest).filter(|entry| entry.section == section && entry.key == key);
    found.next().map(|entry| entry.value.trim_matches('"'))
}

/// A line `key = value`.
pub(super) struct Entry<'a> {
    /// From 1.
    pub(super) line: usize,
    /// What the section's brackets hold.
    pub(super) section: &'a str,
    pub(super) key: &'a str,
    pub(super) value: &'a str,
}

impl<'a> Entry<'a> {
    /// The value of a key of the inline table that the value is, without quotes.
    pub(super) fn part(&self, key: &str) -> Option<&'a str> {
        let table = self.value.strip_prefix('{')?.trim_end().strip_suffix('}')?;
        table
            .split(',')
            .filter_map(|part| part.split_once('='))
            .find_map(|(found, value)| (found.trim() == key).then(|| value.trim().trim_matches('"')))
    }

    /// The dependency of this line and whether it is the workspace's: `a.workspace = true`, `a = { workspace = true }`.
    pub(super) fn dependency(&self) -> (&'a str, bool) {
        match self.key.split_once('.') {
            Some((name, "workspace")) => (name, self.value == "true"),
            _ => (self.key, self.part("workspace") == Some("true")),
        }
    }
}

/// All keys, in order.
pub(super) fn keys(manifest: &str) -> impl Iterator<Item = Entry<'_>> {
    let mut section = "";
    manifest.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = header;
            return None;
        }
        let (key, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        Some(Entry { line: index + 1, section, key: key.trim(), value: value.trim() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_its_own_section_alone() {
        let manifest = "[a]\nx = \"1\"\n# y = 2\n[b.c]\n x = \"3\"\n";
        assert_eq!(value(manifest, "a", "x"), Some("1"));
        assert_eq!(value(manifest, "b.c", "x"), Some("3"));
        assert_eq!(value(manifest, "a", "y"), None);
    }

    #[test]
    fn a_dependency_is_read_in_each_way_to_write_it() {
        let manifest = "a.workspace = true\nb = { workspace = true, features = [\"x\"] }\nc = { path = \"../c\", version = \"1\" }\nd = \"1\"\n";
        let read: Vec<_> = keys(manifest).map(|entry| (entry.dependency(), entry.part("path"))).collect();
        assert_eq!(
            read,
            [(("a", true), None), (("b", true), None), (("c", false), Some("../c")), (("d", false), None)]
        );
    }
}
