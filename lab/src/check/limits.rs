//! What a fault excuses: the published limits, each with its reason, and nothing else.
//!
//! | fault | what is not promised then | what is still checked |
//! |---|---|---|
//! | the database's clock is stepped forward by more than grace and margin (within a ttl) | that two do not believe at once: the row expires early, and the holder learns of it with its next renewal or by its deadline | that nobody believes past the deadline, terms, guards, the register (rows may expire earlier by the step) |
//! | the database's clock is stepped (either way) | that rows expire after a ttl of real time; that a name is free after one | names held again by the observe rule: a ttl and a margin after heal |
//! | the file is moved away, and a copy of all its rows put in its place (SQLite) | nothing: terms go on, holders lose it and their rows expire | all |
//! | the file is replaced by another one (SQLite) | that terms go on, that what was committed is in the new file, that two do not believe at once: the new file knows nothing of the holders in the old one | that holders in the old one lose by their deadline, each file by itself |
//! | rows are changed by hand | anything of those names' rows | belief past the deadline, the work's end |
//! | a process is stopped or stands still | that it says or ends anything meanwhile | what it says it believed |
//!
//! A server that loses what it acknowledged (asynchronous replication, a restored backup) is no fault of the lab.

use crate::history::FaultKind;

use super::facts::Facts;

/// How much the clocks of machine and database may differ in a ttl, and be cut to whole milliseconds.
pub(super) const CLOCKS: u64 = 50_000_000;

/// So much later than it should a process may say something without having stood still in a way that it noticed.
pub(super) const SLACK: u64 = 2_000_000_000;

/// So much longer than it should a machine may take to hand a name on beside the stalls that the history proves: those of servers are proven
/// by nobody. How long it took is in the figures.
pub(super) const BUSY: u64 = 3_000_000_000;

/// A healthy database answers sooner than this.
pub(super) const PROMPT: u64 = 500_000_000;

/// Whether a moment at which two believe is excused.
pub(super) fn two_may_believe(facts: &Facts<'_>, at: u64, room: u64) -> bool {
    let since = at.saturating_sub(facts.ttl());
    // Stepped twice it is the sum that counts; to be on the safe side those back do not.
    let (forward, _) = facts.clock.between(since, at);
    let replaced = facts
        .faults(FaultKind::FileReplaced)
        .any(|span| span.from <= at && span.to.saturating_add(facts.ttl()) >= at);
    replaced || forward > room
}
