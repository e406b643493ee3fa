//! How many instructions the library takes over the bare driver, counted by valgrind's callgrind: the same for the same binary, whatever
//! else the machine does.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum;

use crate::engine::{Engine, Place};
use crate::party::{Job, Who};
use crate::report::{Figure, Goal};
use crate::{Outcome, Trial};

/// How this program is called to do a job and nothing else.
pub(crate) const SUBCOMMAND: &str = "party-of-the-benchmark";

/// The job, and how many statements of the floor it is.
const JOBS: [(&str, Job, f64); 3] =
    [("renew", Job::Renew, 1.0), ("verify", Job::Verify, 1.0), ("claim and release", Job::Pair, 2.0)];

/// What all runs have in common (to start, to connect, to prepare) goes out by the difference of two.
const FEW: u32 = 200;

/// So many instructions a statement may cost over the driver.
const MOST: f64 = 1_500.0;

pub(crate) fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let many = FEW + if trial.quick { 200 } else { 1_000 };
    let mut figures = Vec::new();
    let count = JOBS.len();
    for (n, (what, _, statements)) in JOBS.into_iter().enumerate() {
        let mut per_statement = [0.0; 2];
        for (each, who) in per_statement.iter_mut().zip(["floor", "store"]) {
            let few = count_instructions(trial.place, who, what, FEW)?;
            let all = count_instructions(trial.place, who, what, many)?;
            *each = (all - few) / f64::from(many - FEW) / statements;
        }
        let [floor, store] = per_statement;
        let over =
            Figure::new(format!("{what}: over the driver, per statement"), store - floor, "instructions");
        figures.push(over.goal(Goal::AtMost(MOST)).note(format!("{store:.0} - {floor:.0}")));
        trial.progress.step("jobs", n + 1, count);
    }
    Ok(figures)
}

/// Of a whole run of this program, all its threads.
fn count_instructions(place: &Place, who: &str, what: &str, times: u32) -> Outcome<f64> {
    let folder = tempfile::tempdir()?;
    let counted = folder.path().join("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", counted.display()))
        .arg(std::env::current_exe()?)
        .args([SUBCOMMAND, place.engine.name(), &place.at, &place.table, who, what, &times.to_string()])
        .stdin(Stdio::null());
    let output =
        valgrind.output().map_err(|error| format!("valgrind: {error} (Debian: apt-get install valgrind)"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("under valgrind: {}: {}", output.status, said.trim()).into());
    }
    total(&counted)
}

fn total(counted: &Path) -> Outcome<f64> {
    let text = std::fs::read_to_string(counted)?;
    // Each part ends with what it has counted; the last line tells of all.
    let totals = text
        .lines()
        .filter_map(|line| line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:")));
    let numbers = totals.filter_map(|number| number.trim().parse::<f64>().ok());
    numbers.reduce(f64::max).ok_or_else(|| "callgrind has counted nothing".into())
}

/// The life of a party that does one job so many times.
pub(crate) fn serve(words: &[String]) -> Outcome<()> {
    let [engine, at, table, who, what, times] = words else {
        return Err("a party wants engine, place, table, who, what and how often".into());
    };
    let place = Place { engine: Engine::from_str(engine, false)?, at: at.clone(), table: table.clone() };
    let who = if who == "floor" { Who::Floor } else { Who::Store };
    let job = JOBS.iter().find(|job| job.0 == what).ok_or("no such job")?.1;
    let times: u32 = times.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut party = who.join(&place).await?;
        party.prepare(job).await?;
        for _ in 0..times {
            party.perform(job).await?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_that_of_the_whole_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out");
        std::fs::write(&file, "events: Ir\nfn=(1) main\n0 12\n\ntotals: 4711\n").unwrap();
        assert_eq!(total(&file).unwrap().to_string(), "4711");
        std::fs::write(&file, "events: Ir\n").unwrap();
        assert!(total(&file).is_err());
    }
}
