//! Simulates seeds until one of them breaks an invariant, and says which. The fault at work is named by `PLANTED`.

mod cluster;

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{Plan, simulate};

/// What happens in every run of some length.
const USUAL: [&str; 6] =
    ["losses", "takeovers", "step-downs", "told: given back", "grace failures", "rounds finished"];

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().unwrap_or(0_u64));
    let (seeds, hours) = (arguments.next().unwrap_or(1), arguments.next().unwrap_or(1));
    let mut counts = BTreeMap::new();
    for seed in 1..=seeds {
        let outcome = simulate(&Plan::new(seed, Duration::from_secs(hours * 3_600)));
        if let Some(violation) = outcome.violations.first() {
            // All of the outcome, for who wants to see more than the violation.
            eprintln!("{outcome:#?} {} {}", outcome.events, outcome.slowest_return);
            eprintln!("{:?} {:?} {}", outcome.plan, outcome.last, outcome.setting);
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
