//! Judges [histories](crate::history): did what real servers and processes did keep what the library promises?
//!
//! Each checker is a file and has its [`Rule`]s. [`limits`] is the one place that says what a fault excuses. A checker goes by moments, all of
//! one clock, and concludes nothing that the history does not show: what is open stays open, and what could not be judged is counted.

mod believers;
pub mod command;
mod facts;
mod figures;
mod growth;
mod guards;
pub mod limits;
mod loss;
mod recovery;
mod register;
mod report;
mod slots;
mod terms;

pub use figures::Figures;
pub use report::{Report, Rule, Summary, Violation};

use crate::history::History;
use facts::Facts;

/// Judges a history by all the rules.
pub fn check(history: &History) -> Report {
    let facts = Facts::of(history);
    let mut report = Report::new(&facts);
    believers::check(&facts, &mut report);
    terms::check(&facts, &mut report);
    guards::check(&facts, &mut report);
    register::check(&facts, &mut report);
    loss::check(&facts, &mut report);
    recovery::check(&facts, &mut report);
    slots::check(&facts, &mut report);
    growth::check(&facts, &mut report);
    report
}
