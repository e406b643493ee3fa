//! Instants of a schedule, as the database keeps them.

use std::fmt;
use std::num::NonZeroI64;
use std::time::{Duration, SystemTime};

/// An instant of a schedule: whole milliseconds since 1970 UTC, later than 1970 itself.
///
/// Anything that becomes a [`SystemTime`] becomes a slot: the instants of chrono, jiff and time too. A part below a millisecond is cut off, so
/// two instants within one millisecond are one slot.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use lease_core::Slot;
///
/// let slot = Slot::new(SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_900))?;
/// assert_eq!(slot.as_millis(), 1_700_000_000_000);
/// assert!(Slot::new(SystemTime::UNIX_EPOCH).is_err());
/// # Ok::<(), lease_core::InvalidSlot>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(NonZeroI64);

impl Slot {
    /// The slot of an instant.
    ///
    /// # Errors
    ///
    /// An instant before 1970, within its first millisecond, beyond a 64-bit count of milliseconds, or one that does not
    /// become a [`SystemTime`].
    pub fn new(instant: impl TryInto<SystemTime>) -> Result<Self, InvalidSlot> {
        let instant = instant.try_into().map_err(|_| InvalidSlot::NoSystemTime)?;
        let since_1970 =
            instant.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| InvalidSlot::NotAfter1970)?;
        let ms = i64::try_from(since_1970.as_millis()).map_err(|_| InvalidSlot::TooLate)?;
        Self::from_millis(ms).ok_or(InvalidSlot::NotAfter1970)
    }

    /// The slot of a count of milliseconds since 1970 UTC; `None` unless positive (a column that is 0 holds no slot).
    pub fn from_millis(ms: i64) -> Option<Self> {
        NonZeroI64::new(ms).filter(|ms| ms.is_positive()).map(Self)
    }

    /// Milliseconds since 1970 UTC.
    pub fn as_millis(self) -> i64 {
        self.0.get()
    }
}

impl From<Slot> for SystemTime {
    fn from(slot: Slot) -> Self {
        Self::UNIX_EPOCH + Duration::from_millis(slot.as_millis().unsigned_abs())
    }
}

/// Seconds since 1970 UTC: `@1700000000`, or `@1700000000.250` with a part below a second.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ms) = (self.as_millis() / 1_000, self.as_millis() % 1_000);
        if ms == 0 { write!(f, "@{seconds}") } else { write!(f, "@{seconds}.{ms:03}") }
    }
}

/// An instant that cannot be a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSlot {
    /// Before 1970 UTC, or within its first millisecond.
    #[error("a slot must be at least one millisecond after 1970-01-01T00:00:00Z")]
    NotAfter1970,
    /// More milliseconds since 1970 than a signed 64-bit column holds.
    #[error("a slot must be at most {} milliseconds after 1970-01-01T00:00:00Z", i64::MAX)]
    TooLate,
    /// It does not become a [`SystemTime`], whose range depends on the system.
    #[error("a slot must be an instant that the system's clock can show")]
    NoSystemTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_outside_the_column_are_refused() {
        let epoch = SystemTime::UNIX_EPOCH;
        for early in [epoch, epoch - Duration::from_secs(1), epoch + Duration::from_micros(999)] {
            assert_eq!(Slot::new(early), Err(InvalidSlot::NotAfter1970));
        }
        let beyond = epoch + Duration::from_millis(i64::MAX.unsigned_abs()) + Duration::from_millis(1);
        assert_eq!(Slot::new(beyond), Err(InvalidSlot::TooLate));
        assert_eq!(Slot::new(beyond - Duration::from_millis(1)).unwrap().as_millis(), i64::MAX);
    }

    #[test]
    fn an_instant_that_becomes_no_time_of_the_system_is_refused() {
        struct Elsewhen;
        impl TryFrom<Elsewhen> for SystemTime {
            type Error = ();
            fn try_from(_: Elsewhen) -> Result<Self, ()> {
                Err(())
            }
        }
        assert_eq!(Slot::new(Elsewhen), Err(InvalidSlot::NoSystemTime));
    }

    #[test]
    fn a_slot_is_shown_as_seconds_since_1970() {
        for (ms, shown) in [
            (1, "@0.001"),
            (1_000, "@1"),
            (1_700_000_000_000, "@1700000000"),
            (1_700_000_000_050, "@1700000000.050"),
            (i64::MAX, "@9223372036854775.807"),
        ] {
            assert_eq!(Slot::from_millis(ms).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn a_slot_reads_back_as_its_instant_cut_to_the_millisecond() {
        let instant = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_999_999);
        let slot = Slot::new(instant).unwrap();
        let cut = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_000_000);
        assert_eq!(SystemTime::from(slot), cut);
    }
}
