//! The lab, run as `cargo xtask simulate` and `cargo xtask faults`.

use std::process::ExitCode;

use clap::Parser;
use lab::{planted, simulate};

/// Attacks the lease library
#[derive(Parser)]
enum Command {
    /// Plants faults in a copy of the library, and sees each caught
    Planted(planted::Choice),
    /// Simulates clusters with faults
    Simulate(simulate::Choice),
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Planted(choice) => planted::run(&choice),
        Command::Simulate(choice) => simulate::run(&choice),
    }
}
