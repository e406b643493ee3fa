//! Terms are issued once each, and later ones later.

use std::collections::{BTreeMap, HashMap};

use lease_core::{Holder, LeaseName};

use super::facts::{Facts, name_of};
use super::{Report, Rule};
use crate::history::{Answer, Ask, Entry, Event};

/// A term that an answer told.
struct Told<'a> {
    term: i64,
    /// Issued, or only read.
    is_grant: bool,
    asked: &'a Entry,
    answered: &'a Entry,
}

pub(super) fn check(facts: &Facts<'_>, report: &mut Report) {
    let mut names: BTreeMap<(&LeaseName, usize), Vec<Told<'_>>> = BTreeMap::new();
    for call in &facts.calls {
        let (asked, Some(answered)) = (&facts.entries[call.asked], call.answered) else { continue };
        let answered = &facts.entries[answered];
        let (Event::Asked { ask, .. }, Event::Answered { answer, .. }) = (&asked.event, &answered.event)
        else {
            continue;
        };
        let (term, is_grant) = match answer {
            Answer::Granted { term, .. } => (*term, true),
            Answer::HeldUnder(term) => (*term, false),
            Answer::Read { row: Some(row), .. } => (row.term, false),
            _ => continue,
        };
        let Some(name) = name_of(ask) else { continue };
        // One that was asked of one file and answered by another, or nobody knows, tells nothing.
        let (Some(before), Some(after)) = (facts.database_at(asked.at), facts.database_at(answered.at))
        else {
            continue;
        };
        if before == after && !facts.is_edited(name.as_str()) {
            names.entry((name, before)).or_default().push(Told { term, is_grant, asked, answered });
        }
    }
    let last_database = facts.database_at(facts.over);
    for ((name, database), mut told) in names {
        twice(name, &told, report);
        order(name, &mut told, report);
        let at_the_end = facts.entries.iter().filter(|_| Some(database) == last_database).find_map(|line| {
            match &line.event {
                Event::FinalRow(row) if row.name == *name => Some((row, line)),
                _ => None,
            }
        });
        if let Some((row, line)) = at_the_end
            && let Some(last) = told.iter().max_by_key(|told| told.term)
        {
            if last.term > row.term {
                let what = format!("the row of {name} ends at term {}, and {} was told", row.term, last.term);
                report.violation(Rule::TermOrder, what, [last.asked, last.answered, line]);
            }
            let grant = told.iter().find(|told| told.is_grant && told.term == row.term);
            if let Some(grant) = grant.filter(|grant| holder(grant.asked) != Some(row.holder)) {
                let what = format!("term {} of {name} was granted to another than has the row", row.term);
                report.violation(Rule::TermTwice, what, [grant.asked, grant.answered, line]);
            }
        }
    }
}

fn holder(asked: &Entry) -> Option<Holder> {
    match &asked.event {
        Event::Asked {
            ask:
                Ask::Claim { token, .. }
                | Ask::ClaimObserved { token, .. }
                | Ask::ClaimSlot { token, .. }
                | Ask::ClaimRerun { token, .. },
            ..
        } => Some(token.holder),
        _ => None,
    }
}

fn twice(name: &LeaseName, told: &[Told<'_>], report: &mut Report) {
    let mut granted: HashMap<i64, &Told<'_>> = HashMap::new();
    for told in told.iter().filter(|told| told.is_grant) {
        if let Some(first) = granted.insert(told.term, told) {
            let what = format!("term {} of {name} is granted twice", told.term);
            report.violation(Rule::TermTwice, what, [first.asked, first.answered, told.asked, told.answered]);
        }
    }
}

/// What was asked when another had been answered comes after it.
fn order<'a>(name: &LeaseName, told: &mut [Told<'a>], report: &mut Report) {
    let mut by_answer: Vec<(u64, i64, &'a Entry)> =
        told.iter().map(|told| (told.answered.at, told.term, told.answered)).collect();
    by_answer.sort_by_key(|(at, ..)| *at);
    told.sort_by_key(|told| told.asked.at);
    let mut before = by_answer.into_iter().peekable();
    let mut latest: Option<(i64, &Entry)> = None;
    for told in told {
        while let Some((_, term, line)) = before.next_if(|(at, ..)| *at < told.asked.at) {
            if latest.is_none_or(|(latest, _)| latest < term) {
                latest = Some((term, line));
            }
        }
        let Some((term, line)) = latest else { continue };
        if told.term < term || (told.is_grant && told.term == term) {
            let what = format!("term {} of {name} is told when term {term} had been told", told.term);
            report.violation(Rule::TermOrder, what, [line, told.asked, told.answered]);
        }
    }
}
