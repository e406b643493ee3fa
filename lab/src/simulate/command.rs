//! `lab simulate`: many seeds, on all cores.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use super::cluster::{Outcome, Plan};
use super::elsewhere;
use super::report::{self, Report};
use crate::planted;

/// What is simulated.
#[derive(Debug, Clone, Args)]
pub struct Choice {
    /// How much: 1,000, 10,000 or 100,000 hours in all
    #[arg(long, value_enum, default_value_t = Tier::Commit)]
    tier: Tier,
    /// How many seeds, one after the other; default: what the tier takes
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// The first seed
    #[arg(long)]
    seed: Option<u64>,
    /// How many hours each seed simulates
    #[arg(long, default_value_t = 4)]
    hours: u64,
    /// Also what lies beyond the published limits; what that breaks is counted, not failed
    #[arg(long)]
    holes: bool,
    /// Writes the figures to this file too
    #[arg(long)]
    json: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tier {
    Commit,
    Nightly,
    Release,
}

impl Tier {
    fn hours(self) -> u64 {
        match self {
            Self::Commit => 1_000,
            Self::Nightly => 10_000,
            Self::Release => 100_000,
        }
    }
}

/// Simulates, and answers whether no invariant was broken and every floor was reached.
pub fn run(choice: &Choice) -> ExitCode {
    let hours = choice.hours.max(1);
    let seeds = choice.seeds.unwrap_or_else(|| choice.tier.hours().div_ceil(hours));
    let first = choice.seed.unwrap_or(1);
    let like = Plan { holes: choice.holes, ..Plan::new(first, Duration::from_secs(hours * 3_600)) };
    let since = Instant::now();
    let (report, ran) = run_all(&like, &(first..first + seeds));
    report::print(&report, since.elapsed());
    if let Err(error) = ran {
        eprintln!("{error}");
        return ExitCode::from(2);
    }
    if let Some(file) = &choice.json
        && let Err(error) = std::fs::write(file, report::json(&report, since.elapsed()))
    {
        eprintln!("cannot write {}: {error}", file.display());
        return ExitCode::FAILURE;
    }
    // A part of a tier reaches a part of what it must: only whole ones are held to it.
    let is_whole = report.hours >= Tier::Commit.hours();
    if report.failed.is_empty() && !(is_whole && report::below_floors(&report, choice.holes)) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs seeds on all cores, and says what came of them however that ended.
fn run_all(like: &Plan, seeds: &Range<u64>) -> (Report, Result<(), String>) {
    let report = Mutex::new(Report::default());
    let ran =
        planted::build::copy(&planted::workspace()).and_then(|copy| run_in(&copy, like, seeds, &report));
    (report.into_inner().unwrap_or_else(PoisonError::into_inner), ran)
}

/// Each seed must be another run, and the last, which its process has come to after others, the same again in a process of its
/// own: else no seed would replay what it has found.
fn run_in(copy: &Path, like: &Plan, seeds: &Range<u64>, report: &Mutex<Report>) -> Result<(), String> {
    let processes = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let (total, last) = (seeds.end - seeds.start, seeds.end - 1);
    let hashes = Mutex::new(BTreeMap::new());
    elsewhere::run(copy, like, seeds, processes, &|outcome| {
        take_in(report, outcome, total);
        unpoisoned(&hashes).insert(outcome.hash, outcome.plan.seed);
    })?;
    if unpoisoned(&hashes).len() as u64 != total {
        return Err("two seeds are the same run".to_owned());
    }
    elsewhere::run(copy, like, &(last..seeds.end), 1, &|outcome| {
        unpoisoned(&hashes).insert(outcome.hash, last);
    })?;
    if unpoisoned(&hashes).len() as u64 == total {
        Ok(())
    } else {
        Err(format!("seed {last} is not the same run twice"))
    }
}

fn take_in(report: &Mutex<Report>, outcome: &Outcome, total: u64) {
    let mut report = unpoisoned(report);
    report.add(outcome);
    if !outcome.violations.is_empty() {
        report::explain(outcome);
    }
    if report.seeds.is_multiple_of((total / 10).max(1)) {
        eprintln!("{} of {total} seeds, {} failed", report.seeds, report.failed.len());
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
