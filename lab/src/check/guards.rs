//! No guarded write after a later claim, and every answer to a commit is true. `Unknown` is open.

use std::collections::{BTreeMap, HashMap, HashSet};

use lease_core::LeaseName;

use super::facts::{Facts, Tx, Who};
use super::{Report, Rule};
use crate::history::{Answer, Entry, Event, FaultKind, Finish, Guard, LeaseId, Ledger};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report) {
    let ledger: Vec<(&Ledger, &Entry)> = facts
        .entries
        .iter()
        .filter_map(|line| match &line.event {
            Event::Ledger(entry) => Some((entry, line)),
            _ => None,
        })
        .collect();
    order(facts, &ledger, report);
    let found: HashMap<(Who, u64), &Entry> =
        ledger.iter().map(|(entry, line)| (((entry.process, entry.incarnation), entry.tx), *line)).collect();
    for (id, line) in &found {
        if facts.guards.get(id).is_none_or(|tx| tx.began.is_none()) {
            report.violation(Rule::LedgerStrange, "nobody began its transaction", [*line]);
        }
    }
    let is_complete = facts.entries.iter().any(|line| line.event == Event::LedgerComplete);
    // What was committed to a file that was replaced is in that.
    let replaced = facts.faults(FaultKind::FileReplaced).map(|span| span.to).max().unwrap_or(0);
    for (id, tx) in &facts.guards {
        let Some(ended) = tx.ended.map(|place| &facts.entries[place]) else { continue };
        let Event::Guard { step: Guard::Ended(finish), .. } = ended.event else { continue };
        match (finish, found.get(id)) {
            (Finish::Committed, None) if is_complete && began(facts, tx) > replaced => {
                report.violation(Rule::CommitMissing, "committed, and not in the ledger", [ended]);
            }
            (Finish::Lost | Finish::Failed | Finish::Dropped, Some(line)) => {
                report.violation(Rule::CommitDenied, "not committed, and in the ledger", [ended, *line]);
            }
            _ => {}
        }
    }
    after_claims(facts, &found, report);
}

fn began(facts: &Facts<'_>, tx: &Tx) -> u64 {
    tx.began.map_or(0, |place| facts.entries[place].at)
}

/// In the order of the commits the term never falls.
fn order(facts: &Facts<'_>, ledger: &[(&Ledger, &Entry)], report: &mut Report) {
    let mut names: BTreeMap<(&LeaseName, u32), Vec<(&Ledger, &Entry)>> = BTreeMap::new();
    for (entry, line) in ledger.iter().filter(|(entry, _)| !facts.is_edited(entry.name.as_str())) {
        names.entry((&entry.name, entry.database)).or_default().push((entry, line));
    }
    for ((name, _), mut entries) in names {
        entries.sort_by_key(|(entry, _)| entry.place);
        for pair in entries.windows(2) {
            let [(before, first), (entry, second)] = pair else { continue };
            if entry.term < before.term {
                let what = format!("term {} of {name} commits behind term {}", entry.term, before.term);
                report.violation(Rule::LedgerOrder, what, [*first, *second]);
            }
        }
    }
}

/// A commit that was sent after a later claim was answered did not take place.
fn after_claims(facts: &Facts<'_>, found: &HashMap<(Who, u64), &Entry>, report: &mut Report) {
    // Of each name the earliest moment at which a term, or a later one, had been granted.
    let mut grants: BTreeMap<(&LeaseName, usize), BTreeMap<i64, &Entry>> = BTreeMap::new();
    for call in &facts.calls {
        let Some(answered) = call.answered.map(|place| &facts.entries[place]) else { continue };
        let Event::Answered { answer: Answer::Granted { term, .. }, .. } = answered.event else { continue };
        let Event::Asked { ask, .. } = &facts.entries[call.asked].event else { continue };
        let (Some(name), Some(database)) = (super::facts::name_of(ask), facts.database_at(answered.at))
        else {
            continue;
        };
        let first = grants.entry((name, database)).or_default().entry(term).or_insert(answered);
        if answered.at < first.at {
            *first = answered;
        }
    }
    let edited: HashSet<&LeaseName> =
        grants.keys().map(|(name, _)| *name).filter(|name| facts.is_edited(name.as_str())).collect();
    for (id, tx) in &facts.guards {
        let Some(commits) = tx.commits.map(|place| &facts.entries[place]) else { continue };
        let ended = tx.ended.map(|place| &facts.entries[place].event);
        let says = matches!(ended, Some(Event::Guard { step: Guard::Ended(Finish::Committed), .. }));
        let Event::Guard { lease, .. } = &commits.event else { continue };
        if !(says || found.contains_key(id)) || edited.contains(&lease.name) {
            continue;
        }
        let Some(database) = facts.database_at(commits.at) else { continue };
        let Some(later) = grants.get(&(&lease.name, database)).and_then(|grants| {
            let later = grants.range(lease.term + 1..).map(|(_, line)| *line);
            later.min_by_key(|line| line.at)
        }) else {
            continue;
        };
        // One of another file says nothing of this one.
        if later.at < commits.at && facts.database_at(began(facts, tx)) == Some(database) {
            let LeaseId { name, term, .. } = lease;
            let what = format!("term {term} of {name} sends its commit after a later claim was answered");
            report.violation(Rule::CommitAfterClaim, what, [later, commits]);
        }
    }
}
