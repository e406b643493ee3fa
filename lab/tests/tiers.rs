//! What every commit has to stand: the tiers of the simulation and of the planted mistakes.

use std::process::Command;

/// Holds a command of the lab to its success.
fn stands(arguments: &[&str]) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_lab")).args(arguments).output().expect("the lab can be run");
    let [said, warned] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    println!("{said}");
    assert!(output.status.success(), "{}\n{warned}", output.status);
}

#[test]
fn a_thousand_simulated_hours_break_nothing_and_reach_every_floor() {
    stands(&["simulate", "--tier", "commit"]);
}

#[test]
fn every_planted_mistake_is_found_and_nothing_without() {
    stands(&["planted"]);
}
