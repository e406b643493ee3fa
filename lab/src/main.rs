//! The lab, run as `cargo xtask simulate` and `cargo xtask faults`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lab::check;

#[derive(Parser)]
#[command(about)]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::command::Command),
}

fn main() -> ExitCode {
    let outcome = match Lab::parse().command {
        Command::Check(command) => command.run(),
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
