//! The lab, run as `cargo xtask simulate` and `cargo xtask faults`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lab::{check, faults};

#[derive(Parser)]
#[command(about)]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::command::Command),
    /// Attack real servers and judge the histories
    Faults(faults::Choice),
    /// What `faults` starts
    #[command(hide = true)]
    Worker {
        /// What it is told
        order: String,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Lab::parse().command {
        Command::Check(command) => command.run().map_err(Into::into),
        Command::Faults(choice) => faults::run(choice).await,
        Command::Worker { order } => faults::worker(&order).await.map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
