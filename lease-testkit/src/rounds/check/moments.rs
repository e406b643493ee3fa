//! The rules of time: who says that the lease is held was right at that moment or later.

use super::super::log::{Entry, Event};
use super::history::History;
use super::{Rule, Violation};

/// Once a later term was held, no earlier one is. Between the moment of a line and the line itself a process
/// may stand still for any time, so it is the moments that count, not where the lines stand.
pub(super) fn check(history: &History<'_>) -> Vec<Violation> {
    let mut held: Vec<(i64, &Entry)> = Vec::new();
    for (term, round) in &history.rounds {
        held.extend(round.held.iter().map(|entry| (*term, *entry)));
    }
    // At the same moment the earlier term comes first: nobody can tell.
    held.sort_by_key(|(_, entry)| entry.at);
    let mut violations = Vec::new();
    let mut latest: Option<(i64, &Entry)> = None;
    for (term, entry) in held {
        match latest {
            Some((later, since)) if term < later => {
                let begins = matches!(entry.event, Event::Begin { .. });
                let rule = if begins { Rule::Terms } else { Rule::Overlap };
                let what = format!("term {term} is held when term {later} has begun");
                violations.push(Violation::new(rule, what, [since, entry]));
            }
            Some((same, _)) if same == term => {}
            _ => latest = Some((term, entry)),
        }
    }
    violations
}
