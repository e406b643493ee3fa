//! Claims that were granted and never began: each was open when its worker died, or has failed.

use std::collections::BTreeMap;

use lease_core::Term;
use lease_core::store::SlotRow;

use super::super::log::{Entry, Event};
use super::history::History;
use super::{Rule, Violation};

/// A claim that was sent can be granted so much later than its sender had heard of it, or was gone: longer than a
/// store may keep one waiting.
const LATE_MS: i64 = 2_000;

/// A claim that can have been granted without a line of it.
struct Excuse {
    /// When it was going to be sent.
    from: i64,
    /// When its worker was gone, or the claim had failed, and it can no longer be granted.
    to: i64,
}

pub(super) fn check(history: &History<'_>, row: Option<&SlotRow>, log: &[Entry]) -> Vec<Violation> {
    let mut excuses = excuses(history, log);
    let mut violations = Vec::new();
    // The term before, and the moment at which it was held.
    let (mut before, mut after) = (0, i64::MIN);
    let begun = history.rounds.iter().map(|(term, round)| (*term, round.held.first().copied()));
    let last =
        row.map_or(0, |row| row.term.get()).max(history.rounds.keys().next_back().copied().unwrap_or(0));
    for (term, entry) in begun.chain([(last + 1, None)]) {
        let until = entry.map_or(i64::MAX, |entry| entry.at);
        for missing in before + 1..term {
            // The windows go forward, so the excuse that can serve the fewest later ones is the best.
            let fits = |excuse: &Excuse| excuse.from <= until && excuse.to >= after;
            let best = excuses.iter().position(fits);
            if let Some(best) = best {
                excuses.remove(best);
            } else {
                let name = &history.name;
                let what = format!("nobody began term {missing} of {name}, and nothing says how it was lost");
                violations.push(Violation::new(Rule::Unclaimed, what, entry));
                // One is enough: a row gone wild may have any term.
                break;
            }
        }
        before = term;
        after = entry.map_or(after, |entry| entry.at);
    }
    violations
}

/// In the order in which they end.
fn excuses(history: &History<'_>, log: &[Entry]) -> Vec<Excuse> {
    let mut excuses = Vec::new();
    // The claims of each worker that are not answered.
    let mut open: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    let not_begun = |term: Term| history.rounds.get(&term.get()).is_some_and(|round| round.begin.is_none());
    for entry in log {
        let asks = open.entry(entry.worker).or_default();
        let place = |asked: i64| asks.iter().position(|ask| *ask == asked);
        let to = entry.at + LATE_MS;
        match &entry.event {
            Event::Ask(name) if *name == history.name => asks.push(entry.at),
            Event::Refused { name, asked } if *name == history.name => {
                place(*asked).map(|ask| asks.remove(ask));
            }
            Event::Unsure { name, asked } if *name == history.name => {
                excuses.extend(place(*asked).map(|ask| Excuse { from: asks.remove(ask), to }));
            }
            Event::Begin { round, asked, .. } if round.name == history.name => {
                place(*asked).map(|ask| asks.remove(ask));
            }
            // Any of them, for nothing says which.
            Event::Ended(round, _) if round.name == history.name && not_begun(round.term) => {
                asks.pop();
            }
            Event::Killed | Event::Died => {
                excuses.extend(asks.drain(..).map(|from| Excuse { from, to }));
            }
            _ => {}
        }
    }
    excuses.sort_by_key(|excuse| excuse.to);
    excuses
}
