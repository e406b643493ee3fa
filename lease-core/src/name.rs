//! Names, holders and terms: parsed once, then trusted.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::num::NonZeroI64;
use std::str::FromStr;
use std::sync::Arc;

/// The longest name, in bytes. MySQL's widest key that every row format can index is 767 bytes,
/// which holds 191 characters of four bytes; the limit is in bytes so that it is the same on every engine.
pub const NAME_MAX_BYTES: usize = 191;

/// The name of a lease: 1 to 191 bytes of UTF-8, without control characters and without white
/// space at either end.
///
/// Names are compared byte by byte on every engine: `a`, `A` and `ä` are three names. Cloning is cheap.
///
/// ```
/// use lease_core::LeaseName;
///
/// let name: LeaseName = "billing/nightly".parse()?;
/// assert_eq!(name.as_str(), "billing/nightly");
/// assert!("nightly ".parse::<LeaseName>().is_err());
/// # Ok::<(), lease_core::InvalidName>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseName(Arc<str>);

impl LeaseName {
    /// Parses a name.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] says which rule the text breaks. No statement has been sent.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let problem = if text.is_empty() {
            Some(NameProblem::Empty)
        } else if text.len() > NAME_MAX_BYTES {
            Some(NameProblem::TooLong(text.len()))
        } else if text.chars().any(char::is_control) {
            Some(NameProblem::ControlCharacter)
        } else if text.trim() != text {
            Some(NameProblem::WhiteSpaceAtAnEnd)
        } else {
            None
        };
        match problem {
            None => Ok(Self(text.into())),
            Some(problem) => Err(InvalidName { text: excerpt(text), problem }),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The start of a text that may be hostile, fit for a one-line message.
fn excerpt(text: &str) -> String {
    const CHARS: usize = 40;
    let mut short: String = text.chars().take(CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for LeaseName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::new(text)
    }
}

impl TryFrom<&str> for LeaseName {
    type Error = InvalidName;

    fn try_from(text: &str) -> Result<Self, InvalidName> {
        Self::new(text)
    }
}

impl TryFrom<String> for LeaseName {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::new(&text)
    }
}

impl From<&LeaseName> for LeaseName {
    fn from(name: &LeaseName) -> Self {
        name.clone()
    }
}

/// A text that cannot be the name of a lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} cannot name a lease: {problem}")]
pub struct InvalidName {
    text: String,
    problem: NameProblem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum NameProblem {
    #[error("it is empty; give 1 to {NAME_MAX_BYTES} bytes")]
    Empty,
    #[error("it has {0} bytes; give at most {NAME_MAX_BYTES}")]
    TooLong(usize),
    #[error("it has a control character (a line break, a tab or a NUL, say); leave it out")]
    ControlCharacter,
    #[error("it begins or ends with white space; trim it")]
    WhiteSpaceAtAnEnd,
}

impl From<Infallible> for InvalidName {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The token of one claim: 128 random bits, written as 32 hex digits, never used again.
///
/// "Is it still mine" asks the database for this and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder([u8; 16]);

impl Holder {
    /// Mints a token from the operating system's random source.
    ///
    /// # Errors
    ///
    /// The random source cannot be read; nothing can be claimed safely then.
    pub fn mint() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::from)?;
        Ok(Self(bytes))
    }

    /// A token of the given bytes, for tests and for stores that read one back.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 32 hex digits, in lower case, without allocating.
    pub fn hex(&self) -> HolderHex {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 32];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        HolderHex(text)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.hex().as_str())
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holder({self})")
    }
}

impl FromStr for Holder {
    type Err = InvalidHolder;

    fn from_str(text: &str) -> Result<Self, InvalidHolder> {
        let digits = text.as_bytes();
        if digits.len() != 32 {
            return Err(InvalidHolder);
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

fn hex_digit(digit: u8) -> Result<u8, InvalidHolder> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(InvalidHolder),
    }
}

/// A [`Holder`] as 32 hex digits on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderHex([u8; 32]);

impl HolderHex {
    /// The digits as text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// A text that is not 32 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a holder is 32 hex digits in lower case")]
pub struct InvalidHolder;

/// How often the name has changed hands: 1 for the first holder, one more for each later one, never back.
///
/// It is the fencing token for the outside world: a resource that remembers the highest term it has
/// seen can refuse a holder that was replaced (Kleppmann, "How to do distributed locking", 2016).
/// After a restored backup or an asynchronous failover that lost a claim, a term can come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(NonZeroI64);

impl Term {
    /// The first term of a name.
    pub const FIRST: Self = Self(NonZeroI64::new(1).expect("1 is not zero"));

    /// A term read from a store; `None` unless positive.
    pub fn new(term: i64) -> Option<Self> {
        NonZeroI64::new(term).filter(|term| term.is_positive()).map(Self)
    }

    /// The number, 1 or more.
    pub fn get(self) -> i64 {
        self.0.get()
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_191_bytes_is_taken_and_one_of_192_is_refused() {
        assert!(LeaseName::new(&"n".repeat(191)).is_ok());
        let refused = LeaseName::new(&"n".repeat(192)).unwrap_err();
        assert_eq!(refused.problem, NameProblem::TooLong(192));
        // Bytes count, not characters: 96 times two bytes.
        assert!(LeaseName::new(&"ä".repeat(96)).is_err());
        assert!(LeaseName::new(&"ä".repeat(95)).is_ok());
    }

    #[test]
    fn names_that_could_be_confused_or_break_a_line_are_refused() {
        for (text, problem) in [
            ("", NameProblem::Empty),
            ("a\0b", NameProblem::ControlCharacter),
            ("a\nb", NameProblem::ControlCharacter),
            ("a\u{85}b", NameProblem::ControlCharacter),
            ("a ", NameProblem::WhiteSpaceAtAnEnd),
            (" a", NameProblem::WhiteSpaceAtAnEnd),
            ("a\u{a0}", NameProblem::WhiteSpaceAtAnEnd),
        ] {
            assert_eq!(LeaseName::new(text).unwrap_err().problem, problem, "{text:?}");
        }
    }

    #[test]
    fn an_error_about_a_hostile_name_is_one_short_line() {
        let message = LeaseName::new(&"x\n".repeat(500)).unwrap_err().to_string();
        assert!(!message.contains('\n') && message.len() < 200, "{message}");
    }

    #[test]
    fn a_holder_reads_back_what_it_writes_and_nothing_else() {
        let holder = Holder::mint().unwrap();
        assert_eq!(holder.to_string().parse(), Ok(holder));
        for text in ["", "0", &"g".repeat(32), &"A".repeat(32), &"0".repeat(33)] {
            assert_eq!(text.parse::<Holder>(), Err(InvalidHolder), "{text:?}");
        }
    }

    #[test]
    fn two_minted_holders_differ() {
        assert_ne!(Holder::mint().unwrap(), Holder::mint().unwrap());
    }

    #[test]
    fn terms_are_positive() {
        assert_eq!(Term::new(0), None);
        assert_eq!(Term::new(-1), None);
        assert_eq!(Term::new(1), Some(Term::FIRST));
        assert_eq!(Term::new(i64::MAX).map(Term::get), Some(i64::MAX));
    }
}
