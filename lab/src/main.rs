//! The lab, run as `cargo xtask simulate`, `planted`, `faults` and `timelines`.

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lab::{check, faults, planted, simulate, timelines};
use tokio::runtime::Runtime;

#[derive(Parser)]
#[command(about)]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::command::Command),
    /// Attacks real servers and judges the histories
    Faults(faults::Choice),
    /// Plants faults in a copy of the library, and sees each caught
    Planted(planted::Choice),
    /// Simulates clusters with faults
    Simulate(simulate::Choice),
    /// Draws what a lease goes through
    Timelines(timelines::Choice),
    /// What `faults` starts
    #[command(hide = true)]
    Worker {
        /// What it is told
        order: String,
    },
}

fn main() -> ExitCode {
    match perform(Lab::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn perform(command: Command) -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let well = match command {
        Command::Planted(choice) => return Ok(planted::run(&choice)),
        Command::Simulate(choice) => return Ok(simulate::run(&choice)),
        Command::Timelines(choice) => {
            timelines::run(&choice)?;
            true
        }
        Command::Check(command) => command.run()?,
        Command::Faults(choice) => Runtime::new()?.block_on(faults::run(choice))?,
        Command::Worker { order } => {
            Runtime::new()?.block_on(faults::worker(&order))?;
            true
        }
    };
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
