//! `lab simulate`: many seeds, on all cores.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use super::cluster::{Outcome, Plan, simulate};
use super::report::{self, Report};

/// What is simulated.
#[derive(Debug, Clone, Args)]
pub struct Choice {
    /// How much: 1,000, 10,000 or 100,000 hours in all
    #[arg(long, value_enum, default_value_t = Tier::Commit)]
    tier: Tier,
    /// How many seeds, one after the other; default: what the tier takes
    #[arg(long)]
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
    let plan = |seed| Plan { holes: choice.holes, ..Plan::new(seed, Duration::from_secs(hours * 3_600)) };
    let since = Instant::now();
    let report = run_all(first..first + seeds, plan);
    report::print(&report, since.elapsed());
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

/// Runs plans on all cores, each on one.
fn run_all(seeds: std::ops::Range<u64>, plan: impl Fn(u64) -> Plan + Sync) -> Report {
    let (next, report) = (AtomicU64::new(seeds.start), Mutex::new(Report::default()));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let total = seeds.end - seeds.start;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = simulate(&plan(seed));
                    take_in(&report, &outcome, total);
                }
            });
        }
    });
    report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn take_in(report: &Mutex<Report>, outcome: &Outcome, total: u64) {
    let mut report = report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    report.add(outcome);
    if !outcome.violations.is_empty() {
        report::explain(outcome);
    }
    if report.seeds.is_multiple_of((total / 10).max(1)) {
        eprintln!("{} of {total} seeds, {} failed", report.seeds, report.failed.len());
    }
}
