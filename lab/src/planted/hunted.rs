//! Simulates seeds until one of them breaks an invariant, and says which; or all of them, and says what came of them. The fault
//! at work is named by `PLANTED`.

mod cluster;

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{Outcome, Plan, simulate};

/// What happens in every run of some length.
const USUAL: [&str; 6] =
    ["losses", "takeovers", "step-downs", "told: given back", "grace failures", "rounds finished"];

#[cfg(not(tokio_unstable))]
compile_error!("a seed is the same run twice only with `--cfg tokio_unstable`");

fn main() {
    if std::env::var_os("DIES_WITH_ITS_INPUT").is_some() {
        // Who started this holds the other end, and says nothing.
        std::thread::spawn(|| {
            drop(std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
            std::process::exit(1);
        });
    }
    let numbers: Vec<u64> =
        std::env::args().skip(1).map(|text| text.parse().expect("arguments are numbers")).collect();
    match numbers[..] {
        [seeds, hours] => hunt(seeds, hours),
        [first, step, end, hours, holes] => {
            for seed in (first..end).step_by(usize::try_from(step).expect("a small step")) {
                tell(&simulate(&Plan { holes: holes > 0, ..plan(seed, hours) }));
            }
        }
        _ => panic!("seeds and hours, or the first, the step, the end, hours, and holes"),
    }
}

fn plan(seed: u64, hours: u64) -> Plan {
    Plan::new(seed, Duration::from_secs(hours * 3_600))
}

fn hunt(seeds: u64, hours: u64) {
    let mut counts = BTreeMap::new();
    for seed in 1..=seeds {
        let outcome = simulate(&plan(seed, hours));
        if let Some(violation) = outcome.violations.first() {
            println!("{violation} [seed {seed}, hash {:016x}]", outcome.hash);
            return;
        }
        for (what, count) in outcome.counts {
            *counts.entry(what).or_insert(0) += count;
        }
        if seed >= 24 && let Some(missing) = USUAL.iter().find(|what| !counts.contains_key(*what)) {
            println!("too little happens: no {missing} [{seed} seeds]");
            return;
        }
    }
}

/// One outcome as lines of text, which `simulate/elsewhere.rs` reads.
fn tell(outcome: &Outcome) {
    for (what, count) in &outcome.counts {
        println!("count {count} {what}");
    }
    for violation in &outcome.violations {
        println!("violation {violation}");
    }
    if !outcome.violations.is_empty() {
        for line in &outcome.last {
            println!("last {line}");
        }
        println!("setting {}", outcome.setting);
    }
    let Outcome { plan, hash, events, slowest_return, .. } = outcome;
    println!("seed {} {hash} {events} {slowest_return}", plan.seed);
}
