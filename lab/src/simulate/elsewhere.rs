//! Simulations by the copy of the library that `planted` makes, with nothing planted: it is optimised, which this program is not
//! when it is built for tests, and tokio is told there what to draw its random numbers from, without which a seed would not be
//! the same run twice.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::ScopedJoinHandle;

use super::cluster::{Outcome, Plan};
use crate::planted::build::DIES;

/// Runs the plan with each of these seeds, on this many processes, and hands out what comes of each.
pub(super) fn run(
    program: &Path,
    like: &Plan,
    seeds: &Range<u64>,
    processes: u64,
    take_in: &(dyn Fn(&Outcome) + Sync),
) -> Result<(), String> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..processes)
            .map(|which| {
                let seeds = (seeds.start + which, processes, seeds.end);
                scope.spawn(move || part(program, like, seeds, take_in))
            })
            .collect();
        let mut ended = running.into_iter().map(ScopedJoinHandle::join);
        ended.try_for_each(|part| part.unwrap_or_else(|_| Err("a thread panicked".to_owned())))
    })
}

/// The seeds from the first by this step to before the end.
fn part(
    program: &Path,
    like: &Plan,
    (first, step, end): (u64, u64, u64),
    take_in: &(dyn Fn(&Outcome) + Sync),
) -> Result<(), String> {
    let failed = |what: &str| format!("{}: {what}", program.display());
    let numbers = [first, step, end, like.span.as_secs() / 3_600, u64::from(like.holes)];
    let mut child = Command::new(program)
        .args(numbers.map(|number| number.to_string()))
        .env_remove("PLANTED")
        // It ends with us: planted/hunted.rs.
        .env(DIES, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&format!("cannot be run: {error}")))?;
    let mut outcome = empty(like);
    let mut at = first;
    // The counts have the same few names in every outcome.
    let mut names = BTreeSet::new();
    for said in child.stdout.take().into_iter().flat_map(|said| BufReader::new(said).lines()) {
        // What ends here ends it too.
        let said = said.map_err(|error| failed(&error.to_string()))?;
        let is_last = take_line(&mut outcome, &mut names, &said);
        if is_last.ok_or_else(|| failed(&format!("not a line of an outcome: {said}")))? {
            take_in(&outcome);
            outcome = empty(like);
            at += step;
        }
    }
    let status = child.wait().map_err(|error| failed(&error.to_string()))?;
    if status.success() && at >= end { Ok(()) } else { Err(failed(&format!("in seed {at}: {status}"))) }
}

/// Takes in a line; `true`: it was the last of its outcome.
fn take_line(outcome: &mut Outcome, names: &mut BTreeSet<&'static str>, line: &str) -> Option<bool> {
    let (kind, rest) = line.split_once(' ')?;
    match kind {
        "count" => {
            let (count, what) = rest.split_once(' ')?;
            let name = names.get(what).copied().unwrap_or_else(|| what.to_owned().leak());
            names.insert(name);
            outcome.counts.insert(name, count.parse().ok()?);
        }
        "violation" => outcome.violations.push(rest.to_owned()),
        "last" => outcome.last.push(rest.to_owned()),
        "setting" => rest.clone_into(&mut outcome.setting),
        "seed" => {
            let numbers: Option<Vec<u64>> = rest.split(' ').map(|number| number.parse().ok()).collect();
            let [seed, hash, events, slowest_return] = numbers?[..] else { return None };
            outcome.plan.seed = seed;
            (outcome.hash, outcome.events, outcome.slowest_return) = (hash, events, slowest_return);
            return Some(true);
        }
        _ => return None,
    }
    Some(false)
}

fn empty(plan: &Plan) -> Outcome {
    Outcome {
        plan: *plan,
        hash: 0,
        events: 0,
        counts: BTreeMap::new(),
        violations: Vec::new(),
        slowest_return: 0,
        last: Vec::new(),
        setting: String::new(),
    }
}
