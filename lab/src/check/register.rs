//! The statements on a name are those of a lease register: there is an order of them, each between its question and its answer, in which
//! every answer is the right one.
//!
//! A statement whose outcome nobody knows may have taken place at any moment after it was asked, or not at all. A row expires by itself,
//! from the earliest moment on at which it can, and at the latest when it must: both by when it was last written and by what the
//! database's clock was stepped. The search (after Wing and Gong, and Lowe's way of doing it at each answer) keeps every state that can be, and ends with the
//! first answer that none of them explains.

mod ops;
mod search;
mod state;

use super::facts::Facts;
use super::{Report, Rule};
use ops::{Kind, Op};
use search::{Verdict, search};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report) {
    for ((name, database), ops) in ops::of(facts) {
        // A file that replaced another and had rows begins nobody knows where.
        let first = ops.iter().filter_map(|op| match op.kind {
            Kind::Grant { term, .. } => term,
            _ => None,
        });
        let is_known = database == 0 || first.min() == Some(1);
        if facts.is_edited(name.as_str()) || !is_known {
            report.summary.names_judged.1 += 1;
            continue;
        }
        match search(facts, &ops) {
            Verdict::Explained(placed) => {
                report.summary.names_judged.0 += 1;
                report.summary.placed += placed;
            }
            Verdict::TooMany(placed) => {
                report.summary.names_judged.1 += 1;
                report.summary.placed += placed;
            }
            Verdict::Unexplained { op, last, placed } => {
                report.summary.names_judged.0 += 1;
                report.summary.placed += placed;
                let lines = [last, Some(op)].into_iter().flatten().flat_map(|op| lines(facts, &ops[op]));
                let what = format!("no order of the statements on {name} explains this answer");
                report.violation(Rule::Register, what, lines.collect::<Vec<_>>());
            }
        }
    }
}

fn lines<'a>(facts: &Facts<'a>, op: &Op) -> impl Iterator<Item = &'a crate::history::Entry> {
    let entries = facts.entries;
    [Some(op.asked), op.answered].into_iter().flatten().map(|place| &entries[place])
}
