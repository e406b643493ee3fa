//! The rules of slots, and whether a log keeps them.

mod account;
mod claims;
mod history;
mod moments;
mod stalls;
mod unclaimed;

use std::collections::BTreeMap;
use std::fmt;

use lease_core::LeaseName;
use lease_core::store::SlotRow;

pub use account::Account;
pub(crate) use account::in_the_middle;
use claims::Claims;

use super::log::Entry;
use super::plan::Plan;

/// What a log must not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An instant's first round begins twice.
    FirstTwice,
    /// An instant's second round begins twice.
    RerunTwice,
    /// A round that was recorded as finished is run again.
    RerunOfFinished,
    /// Both rounds of an instant ran to their end, though the first could have recorded it.
    EndedTwice,
    /// An instant begins, its first round or its second, after a later one has begun or was skipped.
    Older,
    /// Instants were passed over that nobody claimed and nobody skipped.
    PassedOver,
    /// The instant given up is not named as it was, or one is named that was not given up.
    Superseded,
    /// A term begins that is not later than those before.
    Terms,
    /// A round goes on, its lease held, when the next has begun.
    Overlap,
    /// An instant begins or is skipped before it has come.
    Early,
    /// The next term begins before the lease of a round has expired that its killed worker did not give back.
    Expired,
    /// A term that nobody began, though no claim was open when its worker died, and none failed.
    Unclaimed,
    /// A round begins whose worker lives on and says nothing of its end.
    Unanswered,
    /// A round was lost, cut short or not recorded whose worker lives on, and nothing stood still.
    Unexcused,
    /// A round is recorded as finished that has not come to its end.
    Unended,
    /// The row at the end is not what the rounds lead to, or is held still.
    Row,
    /// At the end an instant is left to be claimed or to be run again.
    Unsettled,
    /// A line that cannot be: an instant not in the plan, a round that is said twice, a word of a worker that is gone.
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
    pub lines: Vec<String>,
}

impl Violation {
    fn new<'a>(rule: Rule, what: String, lines: impl IntoIterator<Item = &'a Entry>) -> Self {
        Self { rule, what, lines: lines.into_iter().map(Entry::to_string).collect() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)?;
        self.lines.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// What the log amounts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The rules broken, by name.
    pub violations: Vec<Violation>,
    /// What became of the instants.
    pub account: Account,
}

/// Judges a whole log, of workers that have all ended, by the plan they worked off and the rows at the end.
///
/// Of the rounds it knows what the work has written; of claims that were granted without any work, because the
/// answer was lost with its worker or on the way, the terms between. What is lawful is every state of the row that these
/// claims can have led to.
///
/// A lease lost because the machine or the database stood still breaks no rule, whatever the rounds did then, so long as
/// their worker says so and no moment shows two of them held.
pub fn check(plan: &Plan, log: &[Entry], rows: &BTreeMap<LeaseName, SlotRow>) -> Checked {
    let mut violations = Vec::new();
    let mut account = Account::of_the_log(log);
    let (histories, strange) = history::of(plan, log);
    violations.extend(strange);
    for history in &histories {
        let row = rows.get(&history.name);
        violations.extend(moments::check(history));
        violations.extend(stalls::check(history, log));
        violations.extend(unclaimed::check(history, row, log));
        let mut claims = Claims::new(history);
        claims.walk();
        claims.end(row);
        violations.append(&mut claims.violations);
        account.add(history, row);
    }
    Checked { violations, account }
}
