//! Who a process says it is.

use std::fmt;
use std::sync::OnceLock;

use crate::ProcessFacts;

/// The longest of each identity text, in bytes.
pub const IDENTITY_MAX_BYTES: usize = 191;

/// A text of at most [`IDENTITY_MAX_BYTES`] bytes without control characters: longer ones are cut
/// at a character, control characters become `?`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct IdentityText(String);

impl IdentityText {
    /// Takes any text and makes it fit.
    pub fn new(text: &str) -> Self {
        let mut fit = String::with_capacity(text.len().min(IDENTITY_MAX_BYTES));
        for character in text.chars() {
            let character = if character.is_control() { '?' } else { character };
            if fit.len() + character.len_utf8() > IDENTITY_MAX_BYTES {
                break;
            }
            fit.push(character);
        }
        Self(fit)
    }

    /// The text as it is kept.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdentityText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What a process records beside each claim: texts for people, and the facts by which others on its host can tell
/// that it is dead ([`Probe`](crate::Probe)).
///
/// ```
/// use lease_core::Instance;
///
/// let instance = Instance::current().label("blue").address("10.0.0.7:8080").version("1.4.2");
/// assert!(instance.name().as_str().ends_with(" blue"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instance {
    name: IdentityText,
    process: IdentityText,
    address: IdentityText,
    version: IdentityText,
}

impl Instance {
    /// `host:pid` of this process, and what there is to know of it. Not to be kept over a `fork`.
    pub fn current() -> Self {
        Self::named(&format!("{}:{}", host(), std::process::id())).process(ProcessFacts::current().as_ref())
    }

    /// An instance of the given name.
    pub fn named(name: &str) -> Self {
        Self { name: IdentityText::new(name), ..Self::default() }
    }

    /// Appends a label to the name.
    pub fn label(mut self, label: &str) -> Self {
        self.name = IdentityText::new(&format!("{} {label}", self.name));
        self
    }

    /// The facts for the probe of others; `None`: nothing is to be concluded from a look at the process.
    pub fn process(mut self, facts: Option<&ProcessFacts>) -> Self {
        self.process = facts.map(|facts| IdentityText::new(&facts.to_string())).unwrap_or_default();
        self
    }

    /// Where the process can be reached, shown in refusals.
    pub fn address(mut self, address: &str) -> Self {
        self.address = IdentityText::new(address);
        self
    }

    /// The program's version, shown in refusals.
    pub fn version(mut self, version: &str) -> Self {
        self.version = IdentityText::new(version);
        self
    }

    /// The `instance` column.
    pub fn name(&self) -> &IdentityText {
        &self.name
    }

    /// The `process` column: facts by which a process on the same host can tell whether this one
    /// still lives; empty when unknown.
    pub fn process_facts(&self) -> &IdentityText {
        &self.process
    }

    /// The `address` column; empty when not given.
    pub fn address_text(&self) -> &IdentityText {
        &self.address
    }

    /// The `version` column; empty when not given.
    pub fn version_text(&self) -> &IdentityText {
        &self.version
    }
}

fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        #[cfg(unix)]
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        #[cfg(not(unix))]
        let host = std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".to_owned());
        host
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_a_character_and_keep_no_control_characters() {
        // 190 bytes, then a character of two bytes that does not fit.
        let text = IdentityText::new(&format!("{}ä", "x".repeat(190)));
        assert_eq!(text.as_str(), "x".repeat(190));
        assert_eq!(IdentityText::new("a\nb\0c").as_str(), "a?b?c");
    }

    #[test]
    fn the_current_instance_names_host_and_process() {
        let name = Instance::current().name().to_string();
        assert!(name.ends_with(&format!(":{}", std::process::id())), "{name}");
        assert!(!name.starts_with(':'), "{name}");
    }
}
