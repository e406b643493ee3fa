//! Instants of a schedule as people write them and read them.

use jiff::Timestamp;
use lease_core::{InvalidSlot, Slot};

use crate::text::rfc3339;

/// Reads `--slot`: RFC 3339, or `@` and seconds since 1970. What is below a millisecond is cut off.
pub(crate) fn parse(text: &str) -> Result<Slot, String> {
    let ms = match text.strip_prefix('@') {
        Some(seconds) => unix(seconds)?,
        None => parse_rfc3339(text)?,
    };
    // Beyond this no instant could be shown.
    if Timestamp::from_millisecond(ms).is_err() {
        return Err(TOO_LATE.to_owned());
    }
    Slot::from_millis(ms).ok_or_else(|| InvalidSlot::NotAfter1970.to_string())
}

const TOO_LATE: &str = "it is later than the year 9999";

const NO_ZONE: &str = "it has no time zone; end it with Z or with an offset such as +02:00";

const NO_TIME: &str = "write 2026-01-01T00:00:00Z, 2026-01-01T02:00:00.250+02:00 or @1767225600, for example";

fn unix(seconds: &str) -> Result<i64, String> {
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    if !is_number(whole) || !is_number(fraction) {
        return Err("write @ and the seconds since 1970 in digits: @1767225600 or @1767225600.250".to_owned());
    }
    let ms = format!("{fraction:0<3.3}");
    format!("{whole}{ms}").parse().map_err(|_| TOO_LATE.to_owned())
}

/// `jiff` reads more than RFC 3339 has, and takes a leap second for the second before it. So the shape is
/// looked at here, and the calendar there.
fn parse_rfc3339(text: &str) -> Result<i64, String> {
    let shape = "dddd-dd-ddTdd:dd:dd";
    let Some((time, rest)) = text.split_at_checked(shape.len()).filter(|(time, _)| has_shape(time, shape))
    else {
        let year = text.strip_prefix('+').unwrap_or(text).split_once('-').map_or("", |(year, _)| year);
        let message = if year.len() > 4 && is_number(year) { TOO_LATE } else { NO_TIME };
        return Err(message.to_owned());
    };
    let zone_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (fraction, zone) = rest.split_at(zone_at);
    let fraction = match fraction.strip_prefix('.') {
        Some(digits) if is_number(digits) => format!(".{digits:.3}"),
        None if fraction.is_empty() => String::new(),
        _ => return Err(NO_TIME.to_owned()),
    };
    if zone.is_empty() {
        return Err(NO_ZONE.to_owned());
    }
    if !(has_shape(zone, "Z") || has_shape(zone, "+dd:dd") || has_shape(zone, "-dd:dd")) {
        return Err(NO_TIME.to_owned());
    }
    if time.ends_with(":60") {
        return Err(
            "a leap second is no instant of its own; name the second before it or after it".to_owned()
        );
    }
    let time: Timestamp = format!("{time}{fraction}{zone}")
        .parse()
        .map_err(|_| "there is no such date, time or offset".to_owned())?;
    Ok(time.as_millisecond())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the text has digits at each `d` of the shape and its other characters as they are, `T` and `Z` in
/// either case, and `T` as a space too: all that RFC 3339 allows.
fn has_shape(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b't' | b' '),
            _ => byte.eq_ignore_ascii_case(&shape),
        })
}

/// RFC 3339 in UTC, with milliseconds only if there are any. A damaged row can hold a number that is no time.
pub(crate) fn text(slot: Slot) -> String {
    match rfc3339(slot.as_millis()) {
        Some(text) => text.replace(".000Z", "Z"),
        None => format!("{} ms after 1970", slot.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_reads_as_people_write_it() {
        let seconds = 1_767_225_600_000;
        for (text, ms) in [
            ("2026-01-01T00:00:00Z", seconds),
            ("2026-01-01t00:00:00z", seconds),
            ("2026-01-01 00:00:00+00:00", seconds),
            ("2026-01-01T00:00:00-00:00", seconds),
            ("2026-01-01T02:00:00+02:00", seconds),
            ("2025-12-31T18:30:00-05:30", seconds),
            ("2026-01-01T00:00:00.25Z", seconds + 250),
            ("2026-01-01T00:00:00.0009+00:00", seconds),
            ("2026-01-01T00:00:00.123999999999999999Z", seconds + 123),
            ("1970-01-01T00:00:00.001Z", 1),
            ("2024-02-29T23:59:59Z", 1_709_251_199_000),
            ("9999-12-30T22:00:00Z", 253_402_207_200_000),
            ("@1767225600", seconds),
            ("@1767225600.5", seconds + 500),
            ("@1767225600.000000000", seconds),
            ("@1767225600.123999", seconds + 123),
            ("@0000000001", 1_000),
            ("@0.001", 1),
        ] {
            assert_eq!(parse(text).map(Slot::as_millis), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_instant_is_refused_with_the_reason() {
        for (texts, reason) in [
            (
                &[
                    "@0",
                    "@0.0009",
                    "@00.000",
                    "1970-01-01T00:00:00Z",
                    "1970-01-01T00:00:00.0009Z",
                    "1969-12-31T23:59:59.9999Z",
                    "1970-01-01T01:00:00+02:00",
                    "0000-01-01T00:00:00Z",
                ][..],
                "after 1970",
            ),
            (
                &[
                    "@253402300800",
                    "@9223372036854775",
                    "@9223372036854776",
                    "@9223372036854775807",
                    "@99999999999999999999999999",
                    "10000-01-01T00:00:00Z",
                    "+10000-01-01T00:00:00Z",
                    "+012026-01-01T00:00:00Z",
                ],
                "year 9999",
            ),
            (&["2026-01-01T00:00:00", "2026-01-01T00:00:00.5", "2026-01-01 00:00:00"], "time zone"),
            (&["2016-12-31T23:59:60Z", "2016-12-31T23:59:60.5Z", "2016-06-30T12:00:60Z"], "leap second"),
            (
                &[
                    "2026-02-29T00:00:00Z",
                    "2026-13-01T00:00:00Z",
                    "2026-01-01T24:00:00Z",
                    "2026-01-01T00:60:00Z",
                    "2026-01-01T00:00:61Z",
                    "2026-01-01T00:00:00+99:00",
                ],
                "no such date",
            ),
            (
                &[
                    "@", "@-1", "@+1", "@1e9", "@ 1", "@1 ", "@.5", "@1.", "@1.-5", "@1.2.3", "@0x10", "@१",
                    "@now",
                ],
                "in digits",
            ),
            (
                &[
                    "",
                    " ",
                    "now",
                    "1767225600",
                    "-1",
                    "2026-01-01",
                    "2026-01-01T00:00Z",
                    "20260101T000000Z",
                    "2026-01-01T00:00:00.Z",
                    "2026-01-01T00:00:00,5Z",
                    "2026-01-01T00:00:00+02",
                    "2026-01-01T00:00:00+0200",
                    "2026-01-01T00:00:00 Z",
                    "2026-01-01T00:00:00Z ",
                    " 2026-01-01T00:00:00Z",
                    "2026-01-01T00:00:00ZZ",
                    "2026-01-01T00:00:00Z[UTC]",
                    "2026-01-01T00:00:00[UTC]",
                    "2026-01-01T00:00:00+02:00[Europe/Berlin]",
                    "2026-01-01_00:00:00Z",
                    "2026-W01-1T00:00:00Z",
                    "-002026-01-01T00:00:00Z",
                    "2026-01-01T00:00:0éZ",
                    "2026-01-01T00:00:00é",
                    "\u{1b}[2J",
                    "٢٠٢٦-01-01T00:00:00Z",
                ],
                "for example",
            ),
        ] {
            for text in texts {
                let error = parse(text).unwrap_err();
                assert!(error.contains(reason), "{text:?}: {error}");
            }
        }
    }

    #[test]
    fn an_instant_is_shown_with_milliseconds_only_if_it_has_any_and_reads_back() {
        for (ms, shown) in [
            (1, "1970-01-01T00:00:00.001Z"),
            (1_767_225_600_000, "2026-01-01T00:00:00Z"),
            (1_767_225_600_500, "2026-01-01T00:00:00.500Z"),
            (253_402_207_200_000, "9999-12-30T22:00:00Z"),
        ] {
            let slot = Slot::from_millis(ms).unwrap();
            assert_eq!(text(slot), shown);
            assert_eq!(parse(shown), Ok(slot));
        }
        let absurd = Slot::from_millis(i64::MAX).unwrap();
        assert_eq!(text(absurd), format!("{} ms after 1970", i64::MAX));
    }
}
