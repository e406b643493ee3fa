//! The simulation tells a database that breaks its contract, and cannot pass by doing nothing. Here a
//! seed need not be the same run twice, which `lab simulate` sees to: tokio's order of wakes is its own.

use std::time::Duration;

use lab::simulate::cluster::{Broken, Plan, simulate};
use lab::simulate::report::Report;

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3_600)
}

/// What the first seed that breaks an invariant breaks, among seeds of two hours.
fn first_violation(seeds: u64, plan: impl Fn(u64) -> Plan) -> Option<String> {
    (1..=seeds).find_map(|seed| simulate(&plan(seed)).violations.into_iter().next())
}

/// Holds the simulation to say of this database that it breaks one of these invariants.
fn is_told(broken: Broken, invariants: &[&str]) {
    let violation = first_violation(40, |seed| Plan { broken: Some(broken), ..Plan::new(seed, hours(2)) });
    let violation = violation.unwrap_or_else(|| panic!("{broken:?} breaks nothing"));
    assert!(invariants.iter().any(|invariant| violation.starts_with(invariant)), "{broken:?}: {violation}");
}

#[test]
fn a_simulation_that_tries_nothing_is_below_its_floors() {
    let mut report = Report::default();
    report.add(&simulate(&Plan { idle: true, ..Plan::new(2, hours(4)) }));
    assert_eq!(report.failed, Vec::<u64>::new());
    let below: Vec<&str> = report.below_floors().into_iter().map(|(what, ..)| what).collect();
    for what in ["faults", "losses", "reruns", "crashes", "grace failures", "clock steps back"] {
        assert!(below.contains(&what), "{what} is not below its floor: {below:?}");
    }
}

#[test]
fn commits_without_a_fence_are_told() {
    is_told(Broken::NoFence, &["no guarded commit after a later claim"]);
}

#[test]
fn a_claim_of_what_is_held_is_told() {
    is_told(Broken::GrantsWhatIsHeld, &["at most one healthy believer"]);
}

#[test]
fn a_term_issued_twice_is_told() {
    is_told(Broken::RepeatsTerms, &["terms strictly increase"]);
}

#[test]
fn a_finished_round_that_is_run_again_is_told() {
    is_told(Broken::ForgetsEnds, &["a round cut short is run again, once", "the instant given up is named"]);
}

#[test]
fn renewals_that_change_nothing_are_told() {
    is_told(Broken::ForgetsRenewals, &["the row outlives belief and grace", "at most one healthy believer"]);
}

#[test]
fn an_instant_granted_early_is_told() {
    is_told(Broken::GrantsEarly, &["no instant is claimed before it has come"]);
}

#[test]
fn a_session_that_the_server_keeps_is_told() {
    is_told(Broken::KeepsSessions, &["a guard leaves no session open"]);
}

#[test]
fn an_instant_that_nobody_ran_and_nobody_gets_is_told() {
    is_told(Broken::SkipsInstants, &["every instant is accounted for"]);
}

#[test]
fn beyond_the_limits_two_may_believe_and_the_fence_holds_all_the_same() {
    let mut beyond = 0;
    for seed in 1..=12 {
        let outcome = simulate(&Plan { holes: true, ..Plan::new(seed, hours(2)) });
        assert_eq!(outcome.violations, Vec::<String>::new(), "seed {seed}");
        beyond += outcome.counts.get("beyond the limits").copied().unwrap_or(0);
    }
    assert!(beyond > 0, "nothing went beyond the limits");
}
