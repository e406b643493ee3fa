//! Claims that were granted and never began: each must have a worker that died on it, or a claim that failed.

use lease_core::store::SlotRow;

use super::super::log::{Entry, Event};
use super::history::History;
use super::{Rule, Violation};

/// A claim that was sent can be granted so much later than its sender had heard of it, or was gone: longer than a
/// store may keep one waiting.
const LATE_MS: i64 = 2_000;

/// What can have been granted without a line of it.
struct Excuse {
    /// When its worker began.
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
    let started = |worker| {
        let start = |entry: &&Entry| entry.worker == worker && matches!(entry.event, Event::Started { .. });
        log.iter().find(start).map_or(i64::MIN, |entry| entry.at)
    };
    let excuse = |entry: &Entry| {
        let known = match &entry.event {
            Event::Killed | Event::Died => true,
            Event::Unsure(name) => *name == history.name,
            _ => false,
        };
        known.then(|| Excuse { from: started(entry.worker), to: entry.at + LATE_MS })
    };
    let mut excuses: Vec<Excuse> = log.iter().filter_map(excuse).collect();
    excuses.sort_by_key(|excuse| excuse.to);
    excuses
}
