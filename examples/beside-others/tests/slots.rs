//! What the three libraries of time call an instant becomes a slot.

use std::error::Error;

use chrono::{DateTime, FixedOffset, Utc};
use jiff::Timestamp;
use lease_core::Slot;
use time::{OffsetDateTime, UtcDateTime};

const SECONDS: i64 = 1_700_000_000;

#[test]
fn instants_of_chrono_jiff_and_time_are_the_same_slot() -> Result<(), Box<dyn Error>> {
    let slot = Slot::from_millis(SECONDS * 1_000).ok_or("positive")?;

    let chrono: DateTime<Utc> = DateTime::from_timestamp(SECONDS, 0).ok_or("in range")?;
    let elsewhere: DateTime<FixedOffset> =
        chrono.with_timezone(&FixedOffset::east_opt(7_200).ok_or("in range")?);
    assert_eq!(Slot::new(chrono)?, slot);
    assert_eq!(Slot::new(elsewhere)?, slot);

    let jiff = Timestamp::from_second(SECONDS)?;
    assert_eq!(Slot::new(jiff)?, slot);

    assert_eq!(Slot::new(OffsetDateTime::from_unix_timestamp(SECONDS)?)?, slot);
    assert_eq!(Slot::new(UtcDateTime::from_unix_timestamp(SECONDS)?)?, slot);
    Ok(())
}
