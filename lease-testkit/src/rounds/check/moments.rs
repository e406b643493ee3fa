//! The rules of time: who says that the lease is held was right at that moment or later.

use std::iter;

use super::super::log::{Entry, Event};
use super::history::History;
use super::{Rule, Violation};

/// So much earlier than by the clock of the workers a moment may be by that of the database, which is one of the same
/// machine.
pub(super) const CLOCK_MS: i64 = 50;

/// So far from each other those clocks may be for an instant to have come.
const COME_MS: i64 = 500;

pub(super) fn check(history: &History<'_>) -> Vec<Violation> {
    let mut violations = held(history);
    violations.extend(early(history));
    violations.extend(expired(history));
    violations
}

/// Once a later term was held, no earlier one is. Between the moment of a line and the line itself a process
/// may stand still for any time, so it is the moments that count, not where the lines stand.
fn held(history: &History<'_>) -> Vec<Violation> {
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

/// No instant begins or is skipped before it has come.
fn early<'a>(history: &'a History<'_>) -> impl Iterator<Item = Violation> + 'a {
    history.rounds.values().flat_map(|round| {
        let begins = round.begin.map(|begin| (begin.entry, round.at));
        let claimed = begins.into_iter().chain(round.skips.zip(round.skip));
        let early = claimed.filter(|(entry, at)| entry.at + COME_MS < history.slots[*at].as_millis());
        early.map(|(entry, _)| Violation::new(Rule::Early, "it has not come".to_owned(), [entry]))
    })
}

/// Who is killed before the end of the work has sent nothing, so only time frees the name.
fn expired<'a>(history: &'a History<'_>) -> impl Iterator<Item = Violation> + 'a {
    let begun = || history.rounds.values().filter_map(|round| Some((round, round.begin?)));
    let pairs = iter::zip(begun(), begun().skip(1));
    pairs.filter_map(|((round, begin), (_, next))| {
        let given_back = round.gone.is_none() || round.end.is_some() || round.ended.is_some();
        let early = next.entry.at + CLOCK_MS < begin.asked + history.ttl_ms;
        let what = || "the next begins before the lease has expired".to_owned();
        (early && !given_back).then(|| Violation::new(Rule::Expired, what(), [begin.entry, next.entry]))
    })
}
