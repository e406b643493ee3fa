//! After heal, a name that somebody wants is held again within a ttl and a poll interval; if the database's clock was stepped, by the
//! observe rule: a ttl, a margin and a poll interval.

use std::collections::BTreeMap;

use lease_core::LeaseName;

use super::facts::{Facts, Who, name_of, seconds};
use super::{Figures, Report, Rule, limits};
use crate::history::{Answer, Ask, Entry, Event};

/// Who injects the faults.
const ORCHESTRATOR: Who = (0, 0);

/// During which a process wants a name.
struct Wants<'a> {
    from: u64,
    to: u64,
    who: Who,
    line: &'a Entry,
}

pub(super) fn check(facts: &Facts<'_>, report: &mut Report) {
    let wants = wants(facts);
    let held = held(facts);
    let mut took = Vec::new();
    for heal in &facts.healed {
        let next = facts.faults.iter().map(|fault| fault.from).filter(|from| from > heal).min();
        let quiet_to = next.unwrap_or(facts.over);
        for (name, wants) in &wants {
            let candidates: Vec<&Wants<'_>> =
                wants.iter().filter(|wants| wants.from <= *heal && wants.to > *heal).collect();
            let Some(bound) = candidates.iter().filter_map(|wants| bound(facts, wants)).max() else {
                continue;
            };
            let nothing = Vec::new();
            let held = held.get(name).unwrap_or(&nothing);
            let again = held.get(held.partition_point(|at| at < heal)).copied();
            // Proven stalls: of a process that wants the name, the answers that it waits for included, for servers on a busy machine prove
            // nothing themselves; and of the orchestrator, in which the proxies are. What keeps both waiting keeps them one after the
            // other, for a question passes through both.
            let stood = |to| {
                let life = |who: &Who| facts.lives.get(who);
                let candidates = candidates.iter().filter_map(|wants| life(&wants.who));
                let candidates = candidates.map(|life| life.held_up_within(*heal, to)).max().unwrap_or(0);
                candidates + life(&ORCHESTRATOR).map_or(0, |life| life.stood_within(*heal, to))
            };
            let wanted_to = candidates.iter().map(|wants| wants.to).max().unwrap_or(0).min(quiet_to);
            let until = again.unwrap_or(wanted_to).min(wanted_to);
            let waited = (until - heal).saturating_sub(stood(until));
            if again.is_some_and(|again| again <= wanted_to) && waited <= bound {
                report.summary.recoveries.0 += 1;
                took.extend(i64::try_from(waited));
            } else if waited > bound && !facts.is_edited(name.as_str()) {
                let what = format!(
                    "{name} is not held again {} ms after heal at {}, {} ms are allowed",
                    waited / 1_000_000,
                    seconds(facts, *heal),
                    bound / 1_000_000
                );
                report.violation(Rule::NotHeldAgain, what, candidates.iter().map(|wants| wants.line));
            } else {
                report.summary.recoveries.1 += 1;
            }
        }
    }
    report.summary.held_again = Figures::of(took);
}

/// How long it may take. A statement under way at heal may have to end first, and who took it stands aside for others for two intervals.
fn bound(facts: &Facts<'_>, wants: &Wants<'_>) -> Option<u64> {
    let setting = facts.lives.get(&wants.who)?.setting?;
    let stepped = facts.faults(crate::history::FaultKind::ClockStepped).next().is_some();
    let margin = if stepped { setting.margin } else { 0 };
    Some(setting.ttl + margin + 2 * setting.poll() + setting.attempt + limits::BUSY)
}

fn wants<'a>(facts: &Facts<'a>) -> BTreeMap<&'a LeaseName, Vec<Wants<'a>>> {
    let mut wants: BTreeMap<&LeaseName, Vec<Wants<'_>>> = BTreeMap::new();
    for line in facts.entries {
        let who = (line.process, line.incarnation);
        match &line.event {
            Event::Wants(name) => {
                let to = facts.lives.get(&who).and_then(|life| life.ended).unwrap_or(u64::MAX);
                wants.entry(&name.0).or_default().push(Wants { from: line.at, to, who, line });
            }
            Event::WantsNoMore(name) => {
                let open = wants.get_mut(&name.0).and_then(|all| all.iter_mut().rev().find(|w| w.who == who));
                if let Some(wants) = open {
                    wants.to = line.at;
                }
            }
            _ => {}
        }
    }
    wants
}

/// The moments of answers that say that the name is held by who asked, or was given out properly, in order.
fn held<'a>(facts: &Facts<'a>) -> BTreeMap<&'a LeaseName, Vec<u64>> {
    let mut held: BTreeMap<&LeaseName, Vec<u64>> = BTreeMap::new();
    for call in &facts.calls {
        let Some(answered) = call.answered.map(|place| &facts.entries[place]) else { continue };
        let (Event::Asked { ask, .. }, Event::Answered { answer, .. }) =
            (&facts.entries[call.asked].event, &answered.event)
        else {
            continue;
        };
        match answer {
            Answer::Granted { .. } | Answer::Renewed { .. } | Answer::HeldUnder(_) => {
                if let Some(name) = name_of(ask) {
                    held.entry(name).or_default().push(answered.at);
                }
            }
            Answer::Many(renewed) => {
                let Ask::RenewMany { tokens, .. } = ask else { continue };
                for (token, _) in tokens.iter().zip(renewed).filter(|(_, renewed)| **renewed) {
                    held.entry(&token.name).or_default().push(answered.at);
                }
            }
            _ => {}
        }
    }
    for held in held.values_mut() {
        held.sort_unstable();
    }
    held
}
