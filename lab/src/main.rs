//! The lab, run as `cargo xtask simulate` and `cargo xtask faults`.

use std::process::ExitCode;

use clap::Parser;
use lab::simulate;

/// Attacks the lease library
#[derive(Parser)]
enum Command {
    /// Simulates clusters with faults
    Simulate(simulate::Choice),
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Simulate(choice) => simulate::run(&choice),
    }
}
