//! What a fault excuses: the published limits, each with its reason, and nothing else.
//!
//! | fault | what is not promised then | what is still checked |
//! |---|---|---|
//! | the database's clock is stepped forward by more than grace and margin (within a ttl) | that two do not believe at once: the row expires early, and the holder learns of it with its next renewal or by its deadline | that nobody believes past the deadline, terms, guards, the register (rows may expire earlier by the step) |
//! | the database's clock is stepped (either way) | that rows expire after a ttl of real time; that a name is free after one | names held again by the observe rule: a ttl and a margin after heal |
//! | the file is replaced (SQLite) | that terms go on, that what was committed is in the new file, that two do not believe at once: the new file knows nothing of the holders in the old one | that holders in the old one lose by their deadline, each file by itself |
//! | rows are changed by hand | anything of those names' rows | belief past the deadline, the work's end |
//! | a process is stopped or stands still | that it says or ends anything meanwhile | what it says it believed |
//!
//! A server that loses what it acknowledged (asynchronous replication, a restored backup) is no fault of the lab.

use crate::history::FaultKind;

use super::facts::{Facts, nanos};

/// How much the clocks of machine and database may differ in a ttl, and be cut to whole milliseconds.
pub(super) const CLOCKS: u64 = 50_000_000;

/// So much later than it should a process may say something without having stood still in a way that it noticed.
pub(super) const SLACK: u64 = 2_000_000_000;

/// Whether a moment at which two believe is excused.
pub(super) fn two_may_believe(facts: &Facts<'_>, at: u64, room_ms: u64) -> bool {
    let since = at.saturating_sub(facts.ttl());
    // Stepped twice it is the sum that counts; to be on the safe side those back do not.
    let forward: i64 = facts
        .faults(FaultKind::ClockStepped)
        .filter(|step| step.ms > 0 && step.from <= at && step.to >= since)
        .map(|step| step.ms)
        .sum();
    let replaced = facts
        .faults(FaultKind::FileReplaced)
        .any(|span| span.from <= at && span.to.saturating_add(facts.ttl()) >= at);
    replaced || forward.unsigned_abs() > room_ms
}

/// Whether nothing is promised of the rows of a name.
pub(super) fn is_edited(facts: &Facts<'_>, name: &str) -> bool {
    facts.faults(FaultKind::RowsEdited).any(|span| {
        let edited = span.at.split_once(' ').map_or("", |(_, at)| at);
        edited.is_empty() || edited == name
    })
}

/// By how much the database's clock may have gone forward, and back, between two moments.
pub(super) fn steps(facts: &Facts<'_>, from: u64, to: u64) -> (u64, u64) {
    let (mut forward, mut back) = (0, 0);
    for step in facts.faults(FaultKind::ClockStepped).filter(|step| step.from <= to && step.to >= from) {
        let by = nanos(step.ms.unsigned_abs());
        if step.ms > 0 { forward += by } else { back += by }
    }
    (forward, back)
}
