//! A step, told to people.

use super::{Action, Process, SlotModel, World};
use crate::run::Told;

const NAMES: [&str; 3] = ["A", "B", "C"];

impl Told for SlotModel {
    fn words(&self, before: &World, action: &Action, after: &World) -> String {
        let told = told(before, *action);
        let row = after.row;
        let held = if row.live { "held" } else { "free" };
        format!(
            "{told:<72} clock {}, row: term {}, {held}, last {}, unfinished {}, rerun {}",
            after.now, row.term, row.last, row.unfinished, row.rerun
        )
    }
}

/// Processes are not told apart, so their letters change from line to line.
fn told(before: &World, action: Action) -> String {
    let round = |index: usize| match before.processes[index] {
        Process::Judged { slot, .. } => format!("instant {slot}"),
        Process::Rerunning { slot, .. } => format!("the rerun of instant {slot}"),
        Process::Running { slot, term } => format!("the round of instant {slot} under term {term}"),
        Process::Ending { end, .. } => {
            format!("the end of the round of instant {} under term {}", end.slot, end.term)
        }
        Process::Absent | Process::Idle => "nothing".to_owned(),
    };
    match action {
        Action::Time => "the next instant comes".to_owned(),
        Action::Back => "the database's clock is stepped back by one instant".to_owned(),
        Action::Expire => "the lease expires, or is released".to_owned(),
        Action::Judge(index, slot) => format!("{} may claim instant {slot}, by what it reads", NAMES[index]),
        Action::Claim(index) => format!("{} claims {}", NAMES[index], round(index)),
        Action::ClaimUnanswered(index) => {
            format!("{} claims {}, and is not answered", NAMES[index], round(index))
        }
        Action::SeeUnfinished(index) => format!("{} finds a round that was cut short", NAMES[index]),
        Action::WorkEnds(index, 0) => format!("{} has run {} to its end", NAMES[index], round(index)),
        Action::WorkEnds(index, passed) => {
            format!("{} has run {} to its end, past instant {passed}", NAMES[index], round(index))
        }
        Action::WorkEndsLost(index) => {
            format!("{} has run {} to its end, and lost the lease", NAMES[index], round(index))
        }
        Action::Record(index) => format!("the database records {}", round(index)),
        Action::RecordUnanswered(index) => {
            format!("the database records {}, without an answer", round(index))
        }
        Action::GiveEndUp(index) => format!("{} gives {} up", NAMES[index], round(index)),
        Action::Ghost(_) => "an end that was given up comes after all".to_owned(),
        Action::Stop(index) => format!("{} dies, or cuts {} short", NAMES[index], round(index)),
    }
}
