//! A step, told to people.

use super::{Action, GuardModel, Server, World};
use crate::run::Told;

const NAMES: [&str; 3] = ["A", "B", "C"];

impl Told for GuardModel {
    fn words(&self, before: &World, action: &Action, after: &World) -> String {
        let told = told(before, *action);
        let row = match (after.term, after.live) {
            (0, _) => "never claimed".to_owned(),
            (term, true) => format!("term {term}"),
            (term, false) => format!("term {term}, expired"),
        };
        format!("{told:<72} row: {row}")
    }
}

fn told(before: &World, action: Action) -> String {
    let of = |index: usize| {
        before.transactions[index].map_or_else(String::new, |transaction| {
            format!("{}'s transaction under term {}", NAMES[usize::from(transaction.owner)], transaction.term)
        })
    };
    match action {
        Action::Claim(index) => format!("{} sends a claim", NAMES[index]),
        Action::ExecuteClaim(index) => format!("the database executes {}'s claim", NAMES[index]),
        Action::LoseClaim(index) => format!("{}'s claim is lost", NAMES[index]),
        Action::Granted(index) => format!("{}'s grant arrives", NAMES[index]),
        Action::Expire => "the lease expires".to_owned(),
        Action::Lost(index) => format!("{} learns that its lease is lost", NAMES[index]),
        Action::Crash(index) => format!("{} is killed, and started anew", NAMES[index]),
        Action::Begin(index) => format!("{} begins a transaction", NAMES[index]),
        Action::Execute(index) => {
            let statement = match before.transactions[index].map(|transaction| transaction.server) {
                Some(Server::Nothing) => "begin and verify",
                Some(Server::Verified) => "begin",
                Some(Server::Open) => "business write",
                Some(Server::Written) => "end",
                _ => "commit behind its fence",
            };
            format!("the database executes the {statement} of {}", of(index))
        }
        Action::EndSession(index) => format!("the database ends the session of {}", of(index)),
        Action::SendCommit(index) => format!("the commit of {} is sent", of(index)),
        Action::Poison(index) => format!("{} is said to be lost", of(index)),
        Action::RollBack(index) => format!("{} is rolled back", of(index)),
        Action::Answer(index) => format!("the end of {} is answered", of(index)),
        Action::NoAnswer(index) => format!("the commit of {} is not answered", of(index)),
    }
}
