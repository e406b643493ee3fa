//! A step, told to people.

use super::LeaseModel;
use super::actions::Action;
use super::world::{Answer, Life, Process, RELEASED, What, World};
use crate::run::Told;

const NAMES: [&str; 3] = ["A", "B", "C"];

impl Told for LeaseModel {
    fn words(&self, before: &World, action: &Action, after: &World) -> String {
        let told = told(before, *action, after);
        let row = match after.row.expires {
            RELEASED => "free".to_owned(),
            expires if expires <= 0 => "expired".to_owned(),
            expires => {
                let holder = after.all.iter().position(|process| process.owns != 0);
                let holder = holder.map_or("nobody", |index| NAMES[index]);
                format!("{holder}'s for {expires}")
            }
        };
        let believers: Vec<&str> = NAMES
            .iter()
            .zip(&after.all)
            .filter(|(_, process)| process.believes())
            .map(|(name, _)| *name)
            .collect();
        let believers = if believers.is_empty() { "nobody".to_owned() } else { believers.join(" and ") };
        format!("{told:<72} row: {row:<14} believes: {believers}")
    }
}

fn told(before: &World, action: Action, after: &World) -> String {
    let statement = |index: usize, place: usize| {
        let process: &Process = &before.all[index];
        process.flights[place].map_or("nothing", |flight| match flight.what {
            What::Claim => "claim",
            What::Take { .. } => "claim of the row as observed",
            What::Renew => "renewal",
            What::Release => "release",
            What::Look => "look",
        })
    };
    match action {
        Action::Time => "a unit of time passes".to_owned(),
        Action::TimeSlow(index) => format!("a unit of time passes, not on {}'s clock", NAMES[index]),
        Action::TimeFast(index) => format!("a unit of time passes, two on {}'s clock", NAMES[index]),
        Action::Back(units) => format!("the database's clock is stepped back by {units}"),
        Action::Forward(units) => format!("the database's clock is stepped forward by {units}"),
        Action::Claim(index) => format!("{} sends a claim", NAMES[index]),
        Action::Look(index) => format!("{} looks at the row", NAMES[index]),
        Action::GiveUp(index) => format!("{} gives its claim up", NAMES[index]),
        Action::Renew(index) => format!("{} sends a renewal", NAMES[index]),
        Action::GiveBack(index) => format!("{} gives its lease back", NAMES[index]),
        Action::Release(index) => format!("{} sends a release", NAMES[index]),
        Action::Execute(index, place) => {
            let outcome = if before.row == after.row { "nothing changes" } else { "it takes effect" };
            format!("the database executes {}'s {}: {outcome}", NAMES[index], statement(index, place))
        }
        Action::Arrive(index, place) => {
            let flight = before.all[index].flights[place];
            let answer = match flight.and_then(|flight| flight.answer) {
                Some(Answer::Yes) => "yes",
                Some(Answer::No) => "no",
                Some(Answer::Seen(_)) | None => "what it saw",
            };
            let next = match after.all[index].life {
                Life::Asking { .. } if before.all[index].life == Life::Idle => ", and it claims at once",
                _ => "",
            };
            format!("the answer to {}'s {} arrives: {answer}{next}", NAMES[index], statement(index, place))
        }
        Action::Lose(index, place) => format!("{}'s {} is lost", NAMES[index], statement(index, place)),
        Action::Crash(index) => format!("{} is killed, and started anew", NAMES[index]),
        Action::Suspend(index) => format!("{} is suspended, its clock with it", NAMES[index]),
        Action::Resume(index) => format!("{} goes on", NAMES[index]),
        Action::Heal => "all faults are over".to_owned(),
    }
}
