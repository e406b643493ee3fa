//! The model, run as `cargo xtask model`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use std::{fs, io};

use clap::Parser;
use model::holes::holes;
use model::parts::{Outcome, Part, Tier, parts};
use model::report;

/// Goes through all states of the protocol and of its guards, within bounds.
#[derive(Parser)]
struct Arguments {
    /// How far to go
    #[arg(long, value_enum, default_value = "commit")]
    tier: Tier,
    /// This part only; may be given more than once
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(names()))]
    part: Vec<String>,
    /// Only the known holes, each with its shortest trace
    #[arg(long)]
    holes: bool,
    /// Writes the figures to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// How many threads check
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn names() -> Vec<&'static str> {
    parts(Tier::Commit).iter().map(|part| part.name).collect()
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut good = true;
    if !arguments.holes {
        let outcomes = run(&arguments);
        print!("{}", report::table(&outcomes));
        if let Some(file) = &arguments.json {
            fs::write(file, report::json(&outcomes))?;
        }
        good = outcomes.iter().all(Outcome::is_good);
    }
    if arguments.holes || arguments.part.is_empty() {
        good &= tell_holes(arguments.threads);
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(arguments: &Arguments) -> Vec<Outcome> {
    let chosen =
        |part: &Part| arguments.part.is_empty() || arguments.part.iter().any(|name| name == part.name);
    let parts = parts(arguments.tier).into_iter().filter(chosen);
    let outcomes = parts.map(|part| {
        let since = Instant::now();
        eprintln!("{}: {}", part.name, part.bounds());
        let outcome = part.run(arguments.threads, |states| {
            eprintln!("{}: {states} states after {} s", part.name, since.elapsed().as_secs());
        });
        eprintln!("{}: {} states, {}", part.name, outcome.states, outcome.verdict());
        outcome
    });
    outcomes.collect()
}

/// Each hole is there with its fault, and not without.
fn tell_holes(threads: usize) -> bool {
    let mut good = true;
    for hole in holes() {
        println!("\nKnown hole: {}, when {}", hole.what, hole.fault);
        if let Some(steps) = hole.trace() {
            for (number, step) in steps.iter().enumerate() {
                println!("{:>4}. {step}", number + 1);
            }
        } else {
            println!("      NOT FOUND: is the fault still modelled?");
            good = false;
        }
        if !hole.is_closed_without(threads) {
            println!("      FOUND WITHOUT ITS FAULT, too");
            good = false;
        }
    }
    good
}
