//! The name of a table or a schema, checked once and safe in any statement.

use std::fmt;

use crate::ErrorKind;
use crate::store::StoreError;

/// PostgreSQL's longest identifier, so that one configuration serves every engine.
const MAX_BYTES: usize = 63;

/// A plain identifier: 1 to 63 letters, digits and `_` of ASCII, with no digit in front.
///
/// No quote of any dialect can be inside, so a statement may quote it without looking. It is
/// displayed bare; a statement quotes it always, for `order` and `Leases` are plain identifiers too.
///
/// ```
/// use lease_core::store::Identifier;
///
/// assert_eq!(Identifier::new("jobs_leases")?.as_str(), "jobs_leases");
/// assert!(Identifier::new("x; DROP TABLE y").is_err());
/// # Ok::<(), lease_core::store::StoreError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identifier(String);

impl Identifier {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid), saying which rule the name breaks.
    pub fn new(name: &str) -> Result<Self, StoreError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let problem = if name.is_empty() || name.len() > MAX_BYTES {
            format!("1 to {MAX_BYTES} characters")
        } else if !name.bytes().all(plain) || name.as_bytes()[0].is_ascii_digit() {
            "letters, digits and _ of ASCII, with no digit in front".to_owned()
        } else {
            return Ok(Self(name.to_owned()));
        };
        let shown: String = name.chars().take(MAX_BYTES).collect();
        let message = format!("{shown:?} cannot name a table or schema of leases: give it {problem}");
        Err(StoreError::new(ErrorKind::Invalid, message).without_effect())
    }

    /// The bare name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `leases`, the table's name unless another is chosen.
impl Default for Identifier {
    fn default() -> Self {
        Self("leases".to_owned())
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_identifiers_name_a_table() {
        for name in ["leases", "_x", "A9", &"t".repeat(63), "order"] {
            assert!(Identifier::new(name).is_ok(), "{name}");
        }
        for name in ["", "9a", "a b", "a\"b", "a`b", "a;b", "ä", "a\n", "a.b", "a$b", "a-b", &"t".repeat(64)]
        {
            let error = Identifier::new(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
