//! The rules of slots, by what the work says: an instant's first round runs at most once and its second at most once, in the order of the
//! instants, and what is on record as finished never runs again. What claims of instants are answered is judged by the register.

use std::collections::BTreeMap;

use lease_core::LeaseName;

use super::facts::{Call, Facts};
use super::{Report, Rule};
use crate::history::{Answer, Ask, End, Entry, Event, RoundId, Row};

#[derive(Default)]
struct Round<'a> {
    slot: i64,
    rerun: bool,
    /// When its claim was sent.
    asked: Option<u64>,
    began: Option<&'a Entry>,
    ended: Option<&'a Entry>,
    settled: Option<(&'a Entry, End)>,
}

impl<'a> Round<'a> {
    fn lines(&self) -> impl Iterator<Item = &'a Entry> {
        let settled = self.settled.map(|(line, _)| line);
        self.began.into_iter().chain(self.ended).chain(settled)
    }

    /// Recorded while it had the name, or without it before the claim of another was sent.
    fn is_recorded_before(&self, other: &Self) -> bool {
        match self.settled {
            Some((_, End::Finished)) => true,
            Some((line, End::LostRecorded)) => other.asked.is_none_or(|asked| line.at < asked),
            _ => false,
        }
    }

    fn is_recorded(&self) -> bool {
        matches!(self.settled, Some((_, End::Finished | End::LostRecorded)))
    }
}

/// The rounds of a name in one database, by term.
type Rounds<'a> = BTreeMap<i64, Round<'a>>;

pub(super) fn check(facts: &Facts<'_>, report: &mut Report) {
    let mut names: BTreeMap<(&LeaseName, usize), Rounds<'_>> = BTreeMap::new();
    // A round is of the database in which it began.
    let mut databases: BTreeMap<(u32, u32, &RoundId), usize> = BTreeMap::new();
    let claims = claims(facts);
    for line in facts.entries {
        let (Event::RoundBegan { round, .. } | Event::RoundEnded(round) | Event::RoundSettled { round, .. }) =
            &line.event
        else {
            continue;
        };
        let key = (line.process, line.incarnation, round);
        let database = match &line.event {
            Event::RoundBegan { .. } => facts.database_at(line.at),
            _ => databases.get(&key).copied(),
        };
        // One that began while the file was replaced, or was lost before its work began.
        let Some(database) = database else { continue };
        databases.insert(key, database);
        let rounds = names.entry((&round.name, database)).or_default();
        let known = rounds.entry(round.term).or_default();
        match &line.event {
            Event::RoundBegan { rerun, .. } => {
                if known.began.is_some() {
                    let what = format!("term {} of {} begins twice", round.term, round.name);
                    report.violation(Rule::Strange, what, known.lines().chain([line]));
                }
                (known.slot, known.rerun, known.began) = (round.slot, *rerun, Some(line));
                known.asked = claims.get(&(line.process, line.incarnation, &round.name, round.term)).copied();
            }
            Event::RoundEnded(_) => known.ended = Some(line),
            Event::RoundSettled { end, .. } => known.settled = Some((line, *end)),
            _ => {}
        }
    }
    let last_database = facts.database_at(facts.over);
    for ((name, database), rounds) in &names {
        if facts.is_edited(name.as_str()) {
            continue;
        }
        judge(name, rounds, report);
        if Some(*database) == last_database {
            at_the_end(facts, name, rounds, report);
        }
    }
}

/// When the claims of instants were sent that were granted, by who sent them, name and term.
fn claims<'a>(facts: &Facts<'a>) -> BTreeMap<(u32, u32, &'a LeaseName, i64), u64> {
    let of = |call: &Call| {
        let (asked, answered) = (&facts.entries[call.asked], &facts.entries[call.answered?]);
        let (Event::Asked { ask, .. }, Event::Answered { answer, .. }) = (&asked.event, &answered.event)
        else {
            return None;
        };
        match (ask, answer) {
            (Ask::ClaimSlot { token, .. } | Ask::ClaimRerun { token, .. }, Answer::Granted { term, .. }) => {
                Some(((asked.process, asked.incarnation, &token.name, *term), asked.at))
            }
            _ => None,
        }
    };
    facts.calls.iter().filter_map(of).collect()
}

fn judge<'a>(name: &LeaseName, rounds: &Rounds<'a>, report: &mut Report) {
    let mut before: Vec<&Round<'a>> = Vec::new();
    for round in rounds.values() {
        let slot = round.slot;
        let shows = |other: &Round<'a>| other.lines().chain(round.lines()).collect::<Vec<_>>();
        for earlier in before.iter().filter(|earlier| earlier.slot == slot) {
            let rule = match (earlier.rerun, round.rerun) {
                _ if earlier.is_recorded_before(round) => Rule::RerunOfFinished,
                // The round lost its name, and its end was recorded after somebody had begun it again.
                (false, true) if earlier.is_recorded() => continue,
                (_, false) => Rule::FirstTwice,
                (true, true) => Rule::RerunTwice,
                // It had come to its end and gave the name back as if it had not.
                (false, true)
                    if earlier.ended.is_some() && matches!(earlier.settled, Some((_, End::CutShort))) =>
                {
                    Rule::EndedTwice
                }
                (false, true) => continue,
            };
            report.violation(rule, format!("instant {slot} of {name} runs again"), shows(earlier));
        }
        if let Some(later) = before.iter().find(|earlier| earlier.slot > slot) {
            let what = format!("instant {slot} of {name} begins after instant {}", later.slot);
            report.violation(Rule::InstantOrder, what, shows(later));
        }
        if matches!(round.settled, Some((_, End::Finished | End::LostRecorded))) && round.ended.is_none() {
            let what = format!("instant {slot} of {name} is recorded, and its work has not ended");
            report.violation(Rule::Unended, what, round.lines());
        }
        before.push(round);
    }
}

fn at_the_end(facts: &Facts<'_>, name: &LeaseName, rounds: &Rounds<'_>, report: &mut Report) {
    let row = facts.entries.iter().find_map(|line| match &line.event {
        Event::FinalRow(row) if row.name == *name => Some((row, line)),
        _ => None,
    });
    let Some((Row { slot, unfinished, .. }, line)) = row else { return };
    if let Some(later) = rounds.values().find(|round| round.slot > *slot) {
        let what = format!("the last instant of {name} on record is {slot}, and {} has begun", later.slot);
        report.violation(Rule::SlotRow, what, later.lines().chain([line]));
    }
    if let Some(round) = rounds.values().find(|round| round.slot == *unfinished && round.is_recorded()) {
        let what =
            format!("instant {unfinished} of {name} is recorded as finished, and unfinished in the row");
        report.violation(Rule::SlotRow, what, round.lines().chain([line]));
    }
}
