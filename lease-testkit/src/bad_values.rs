//! What holds of every input, good or bad: properties that a test of plain Rust and a fuzzer call alike. Each panics when
//! an input breaks it.

use std::error::Error;
use std::time::{Duration, SystemTime};

use lease_core::store::{
    DbTime, IDENTITY_MAX_BYTES, Identifier, IdentityText, NAME_MAX_BYTES, RawRow, StoreError, ttl_ms,
};
use lease_core::{
    ErrorKind, Holder, LeaseName, Moment, ProcessFacts, Slot, TTL_MAX, Term, TimingParts, Timings,
};

use crate::rounds::{Entry, Order};

/// A message is one line that cannot drive a terminal, of a length that can be read.
pub fn message(text: &str) {
    assert!(!text.is_empty() && !text.chars().any(char::is_control), "{text:?}");
}

/// An error of a store about an input: of this kind, changes nothing, and shows none of these secrets anywhere.
pub fn refused(error: &StoreError, kind: ErrorKind, secrets: &[&str]) {
    assert_eq!(error.kind(), kind, "{error:?}");
    message(&error.to_string());
    let mut shown = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(cause) = source {
        shown = format!("{shown} {cause} {cause:?}");
        source = cause.source();
    }
    tells_none_of(&shown, secrets);
}

/// A text shows none of these secrets.
pub fn tells_none_of(text: &str, secrets: &[&str]) {
    for secret in secrets {
        assert!(!text.contains(secret), "{secret:?} is told: {text}");
    }
}

/// A text as the name of a lease, a table, a holder, an instance and the facts of a process.
pub fn text(text: &str) {
    match text.parse::<LeaseName>() {
        Ok(name) => {
            assert_eq!(name.as_str(), text);
            assert_eq!((name.to_string(), text.len() <= NAME_MAX_BYTES), (text.to_owned(), true));
            message(text);
        }
        Err(error) => message(&error.to_string()),
    }
    match Identifier::new(text) {
        Ok(name) => assert!(name.as_str() == text && !text.contains(['"', '`', '\'', '\\', ' ', '.'])),
        Err(error) => refused(&error, ErrorKind::Invalid, &[]),
    }
    match text.parse::<Holder>() {
        Ok(holder) => assert_eq!(holder.to_string(), text),
        Err(error) => message(&error.to_string()),
    }
    let identity = IdentityText::new(text);
    assert!(
        identity.as_str().len() <= IDENTITY_MAX_BYTES && !identity.as_str().chars().any(char::is_control)
    );
    assert_eq!(IdentityText::new(identity.as_str()), identity);
    match text.parse::<ProcessFacts>() {
        Ok(facts) => assert_eq!((facts.to_string().as_str(), facts.pid > 0), (text, true)),
        Err(error) => message(&error.to_string()),
    }
}

/// A line of the log of a trial, and an order to a worker.
pub fn trial_text(text: &str) {
    if let Ok(entry) = text.parse::<Entry>() {
        assert_eq!(entry.to_string().parse(), Ok(entry));
    }
    if let Ok(order) = text.parse::<Order>() {
        assert_eq!(order.to_string().parse(), Ok(order));
    }
    for error in [text.parse::<Entry>().err(), text.parse::<Order>().err()].into_iter().flatten() {
        message(&error);
    }
}

/// Numbers as instants, times of a database, terms.
pub fn numbers(ms: i64, other: i64) {
    match Slot::from_millis(ms) {
        Some(slot) => {
            assert_eq!((slot.as_millis(), Slot::new(SystemTime::from(slot))), (ms, Ok(slot)));
            message(&slot.to_string());
        }
        None => assert!(ms <= 0),
    }
    assert_eq!(Term::new(ms).map(Term::get), (ms > 0).then_some(ms));
    let (time, earlier) = (DbTime::from_millis(ms), DbTime::from_millis(other));
    assert_eq!(time.as_millis(), ms);
    let between = u128::try_from(i128::from(ms) - i128::from(other)).unwrap_or(0);
    assert_eq!(time.since(earlier).as_millis(), between);
}

/// An instant of any clock as one of a schedule.
pub fn instant(instant: SystemTime) {
    match Slot::new(instant) {
        Ok(slot) => {
            let cut =
                instant.duration_since(SystemTime::from(slot)).expect("never later than what it is made of");
            assert!(cut < Duration::from_millis(1));
        }
        Err(error) => message(&error.to_string()),
    }
}

/// Durations as the parts of timings, and each as a ttl.
pub fn durations([ttl, renew, attempt, deadline, grace, margin]: [Duration; 6]) {
    match Timings::new(TimingParts { ttl, renew, attempt, deadline, grace, margin }) {
        Ok(timings) => keeps_the_rules(&timings),
        Err(error) => message(&error.to_string()),
    }
    for duration in [ttl, renew, attempt, deadline, grace, margin] {
        match Timings::from_ttl(duration) {
            Ok(timings) => {
                assert!(timings.ttl() <= duration);
                keeps_the_rules(&timings);
            }
            Err(error) => message(&error.to_string()),
        }
        match ttl_ms(duration) {
            Ok(ms) => assert_eq!(u128::try_from(ms), Ok(duration.as_millis())),
            Err(error) => refused(&error, ErrorKind::Invalid, &[]),
        }
        let moment = Moment::new(ttl);
        assert!(moment + duration >= moment && moment - duration <= moment);
        assert!(moment.floor_to(duration) <= moment || duration.is_zero());
    }
}

fn keeps_the_rules(timings: &Timings) {
    let TimingParts { ttl, renew, attempt, deadline, grace, margin } = timings.parts();
    assert!([ttl, renew, attempt, deadline, grace, margin].iter().all(|part| !part.is_zero()));
    assert!(renew < attempt && attempt <= deadline / 2 && ttl <= TTL_MAX);
    assert!(deadline + grace + margin <= ttl);
    assert!(ttl_ms(ttl).is_ok());
}

/// A row as a driver reads it: taken as it stands, or called damaged, with its place.
pub fn row(raw: &RawRow) {
    match raw.clone().parse() {
        Ok(row) => {
            let slot = |slot: Option<Slot>| slot.map_or(0, Slot::as_millis);
            let ttl = i64::try_from(row.ttl.as_millis()).expect("it came from a column");
            let again = RawRow {
                name: row.name.to_string(),
                holder: row.holder.to_string(),
                term: row.term.get(),
                claimed_at_ms: row.claimed_at.as_millis(),
                renewed_at_ms: row.renewed_at.as_millis(),
                expires_at_ms: row.expires_at.as_millis(),
                ttl_ms: ttl,
                resign_term: row.resign_term,
                slot_ms: slot(row.slot),
                unfinished_slot_ms: slot(row.unfinished_slot),
                rerun_slot_ms: slot(row.rerun_slot),
                instance: row.instance,
                process: row.process,
                address: row.address,
                version: row.version,
            };
            assert_eq!(again, *raw);
        }
        Err(error) => {
            refused(&error, ErrorKind::Damaged, &[]);
            assert!(error.to_string().contains("column"), "{error}");
        }
    }
}
