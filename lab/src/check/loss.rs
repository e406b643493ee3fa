//! Losses come in time: nobody believes past the deadline, the loss is told soon after it, and the work has ended, or its process is gone,
//! before the row can expire.
//!
//! The deadline is counted from the last renewal that succeeded, from when it was sent. It is later in the history than in the process
//! by what lies between the two readings of the clock, never earlier.

use std::collections::{HashMap, HashSet};

use super::facts::{Facts, Life, seconds};
use super::{Figures, Report, Rule, limits};
use crate::history::{Entry, Event, LeaseId, Loss, Setting};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report) {
    let mut late = Vec::new();
    let mut convicted: HashSet<&LeaseId> = HashSet::new();
    let mut begun: HashMap<&LeaseId, &Entry> = HashMap::new();
    let mut ended: HashMap<&LeaseId, &Entry> = HashMap::new();
    for line in facts.entries {
        let Some((life, setting)) = facts.life(line).and_then(|life| Some((life, life.setting?))) else {
            continue;
        };
        match &line.event {
            Event::Believed { lease, until, .. } => {
                let Some(renewed) = facts.renewed_before(lease, *until) else { continue };
                if *until > renewed + setting.deadline && convicted.insert(lease) {
                    let what = format!(
                        "term {} of {} is believed {} ms after its deadline",
                        lease.term,
                        lease.name,
                        (until - renewed - setting.deadline) / 1_000_000
                    );
                    report.violation(Rule::BeliefPastDeadline, what, [line]);
                }
            }
            Event::Lost { lease, reason: Loss::Deadline } => {
                late.extend(told(facts, report, line, lease, life, setting));
            }
            Event::WorkBegan(lease) => {
                begun.entry(lease).or_insert(line);
            }
            Event::WorkEnded(lease) => {
                ended.insert(lease, line);
            }
            _ => {}
        }
    }
    report.summary.loss_after_deadline = Figures::of(late);
    let mut left = Vec::new();
    let mut begun: Vec<_> = begun.into_iter().collect();
    begun.sort_by_key(|(_, line)| line.at);
    for (lease, began) in begun {
        left.extend(works_on(facts, report, lease, began, ended.get(lease).copied()));
    }
    report.summary.left_of_ttl = Figures::of(left);
}

/// How long after the deadline the loss was told, without what the process stood still.
fn told(
    facts: &Facts<'_>,
    report: &mut Report,
    line: &Entry,
    lease: &LeaseId,
    of: &Life,
    setting: Setting,
) -> Option<i64> {
    // The answer to a renewal that comes after the deadline revives nothing.
    let sent = facts.renewals.get(lease)?;
    let deadline =
        sent.iter().map(|sent| sent + setting.deadline).filter(|deadline| *deadline <= line.at).max()?;
    let late = line.at - deadline;
    let late = late - of.stood_within(deadline, line.at).min(late);
    if late > setting.grace + limits::SLACK {
        let what = format!(
            "the loss of term {} of {} is told {} ms after the deadline",
            lease.term,
            lease.name,
            late / 1_000_000
        );
        report.violation(Rule::LossLate, what, [line]);
    }
    i64::try_from(late).ok()
}

/// How much of the ttl is left when the work has ended, of a lease that was lost or whose process is gone.
fn works_on(
    facts: &Facts<'_>,
    report: &mut Report,
    lease: &LeaseId,
    began: &Entry,
    ended: Option<&Entry>,
) -> Option<i64> {
    let life = facts.life(began)?;
    let setting = life.setting?;
    let gone = life.ended.unwrap_or(facts.over);
    let end = ended.map_or(gone, |ended| ended.at.min(gone));
    let renewed = facts.renewed_before(lease, end)?;
    let expires = renewed + setting.ttl;
    let deadline = renewed + setting.deadline;
    let stood = life.stood_within(deadline, end);
    // Still at work at the end of the history.
    let is_open = ended.is_none() && life.ended.is_none();
    if end.saturating_sub(stood) > expires + limits::SLACK {
        let what = format!(
            "work under term {} of {} goes on at {}, {} ms after its row may have expired",
            lease.term,
            lease.name,
            seconds(facts, end),
            (end - stood - expires) / 1_000_000
        );
        report.violation(Rule::WorkPastTtl, what, [began].into_iter().chain(ended));
    }
    let was_lost = end > deadline;
    (was_lost && !is_open).then(|| i64::try_from(expires).ok()?.checked_sub_unsigned(end - stood))?
}
