//! What the checkers found.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::Figures;
use super::facts::Facts;
use crate::history::{Answer, Entry, Event, FaultKind, Finish, Loss};

/// What a history must not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Two leases of a name are believed at one moment.
    Believers,
    /// A term is issued twice.
    TermTwice,
    /// A term is issued, read or left in the row that is not later than those before.
    TermOrder,
    /// In the order of the commits the term of a name falls.
    LedgerOrder,
    /// A transaction said to be committed is not in the ledger.
    CommitMissing,
    /// A transaction said not to be committed is in the ledger.
    CommitDenied,
    /// A commit was sent after a later claim was answered, and took place.
    CommitAfterClaim,
    /// The ledger has an entry of no transaction that began.
    LedgerStrange,
    /// No order of the statements on a name explains the answers.
    Register,
    /// A lease is believed past its deadline.
    BeliefPastDeadline,
    /// A loss by the deadline is told late.
    LossLate,
    /// Work goes on when the row may have expired.
    WorkPastTtl,
    /// After heal a name is not held again in time.
    NotHeldAgain,
    /// An instant's first round begins twice.
    FirstTwice,
    /// An instant's second round begins twice.
    RerunTwice,
    /// A round runs again that was recorded as finished.
    RerunOfFinished,
    /// A round runs again that had run to its end and said that it was cut short.
    EndedTwice,
    /// An instant begins after a later one.
    InstantOrder,
    /// A round is recorded as finished whose work had not come to its end.
    Unended,
    /// The row at the end is not what the rounds lead to.
    SlotRow,
    /// A process, or the server, uses more and more.
    Growth,
    /// A line that cannot be.
    Strange,
}

/// A rule broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// How it was broken.
    pub what: String,
    /// The lines that show it.
    pub lines: Vec<Entry>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)?;
        self.lines
            .iter()
            .try_for_each(|line| write!(f, "\n    {}", serde_json::to_string(line).map_err(|_| fmt::Error)?))
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The rules broken.
    pub violations: Vec<Violation>,
    /// What there was, in numbers.
    pub summary: Summary,
}

/// What there was, in numbers.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Summary {
    /// Lines.
    pub entries: usize,
    /// From the first to the last, in seconds.
    pub seconds: u64,
    /// Incarnations of processes, without the orchestrator.
    pub incarnations: usize,
    /// Faults, by kind.
    pub faults: BTreeMap<FaultKind, usize>,
    /// Statements that were answered, by the answer.
    pub answers: BTreeMap<&'static str, usize>,
    /// Statements whose outcome is unknown.
    pub unknown: usize,
    /// Grants of names and instants.
    pub grants: usize,
    /// Losses told, by their reason.
    pub losses: BTreeMap<Loss, usize>,
    /// Guarded transactions, by how they ended.
    pub guards: BTreeMap<Finish, usize>,
    /// Rounds begun, first and second.
    pub rounds: (usize, usize),
    /// Pairs of believers that a published limit excuses.
    pub excused_believers: usize,
    /// Names of which the statements were judged to the end, and those of which not.
    pub names_judged: (usize, usize),
    /// Statements that the register's search has placed.
    pub placed: usize,
    /// Names at heal that were held again in time, and those that could not be judged.
    pub recoveries: (usize, usize),
    /// From the deadline to the word of the loss.
    pub loss_after_deadline: Figures,
    /// From the end of lost work, or its process, to the earliest moment at which the row can expire.
    pub left_of_ttl: Figures,
    /// From heal to the first answer that says that the name is held.
    pub held_again: Figures,
    /// Incarnations and metrics of which the growth was judged.
    pub growths_judged: usize,
    /// How much more was used at the end than at the begin, at most, by metric; in percent.
    pub growth_percent: BTreeMap<&'static str, i64>,
}

impl Report {
    pub(super) fn new(facts: &Facts<'_>) -> Self {
        let mut summary = Summary { entries: facts.entries.len(), ..Summary::default() };
        if let (Some(first), Some(last)) = (facts.entries.first(), facts.entries.last()) {
            summary.seconds = (last.at - first.at) / 1_000_000_000;
        }
        summary.incarnations = facts.lives.keys().filter(|(process, _)| *process > 0).count();
        for entry in facts.entries {
            summary.count(&entry.event);
        }
        Self { violations: Vec::new(), summary }
    }

    pub(super) fn violation<'a>(
        &mut self,
        rule: Rule,
        what: impl Into<String>,
        lines: impl IntoIterator<Item = &'a Entry>,
    ) {
        let lines = lines.into_iter().cloned().collect();
        self.violations.push(Violation { rule, what: what.into(), lines });
    }

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

impl Summary {
    fn count(&mut self, event: &Event) {
        match event {
            Event::FaultBegan(fault) => *self.faults.entry(fault.kind).or_default() += 1,
            Event::Answered { answer, .. } => {
                *self.answers.entry(word(answer)).or_default() += 1;
                match answer {
                    Answer::Granted { .. } => self.grants += 1,
                    Answer::Failed { no_effect: false, .. } => self.unknown += 1,
                    _ => {}
                }
            }
            Event::Dropped { .. } => self.unknown += 1,
            Event::Lost { reason, .. } => *self.losses.entry(*reason).or_default() += 1,
            Event::Guard { step: crate::history::Guard::Ended(finish), .. } => {
                *self.guards.entry(*finish).or_default() += 1;
            }
            Event::RoundBegan { rerun: false, .. } => self.rounds.0 += 1,
            Event::RoundBegan { rerun: true, .. } => self.rounds.1 += 1,
            _ => {}
        }
    }
}

fn word(answer: &Answer) -> &'static str {
    match answer {
        Answer::Granted { .. } => "granted",
        Answer::Held => "held",
        Answer::Moved => "moved",
        Answer::Passed => "passed",
        Answer::NotYet { .. } => "not yet",
        Answer::Renewed { .. } | Answer::Many(_) => "renewed",
        Answer::Lost => "lost",
        Answer::HeldUnder(_) => "verified",
        Answer::Released | Answer::Gone | Answer::Cleared => "given back",
        Answer::Finished | Answer::FinishLost { .. } => "finished",
        Answer::Read { .. } | Answer::Last(_) => "read",
        Answer::Asked | Answer::Done => "others",
        Answer::Failed { .. } => "failed",
    }
}
