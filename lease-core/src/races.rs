//! The races of what the driver, the watchdog, tenures, handles and guards share, explored by shuttle in every order that
//! chance and priorities find (and exhaustively where few steps are in it). `sync.rs` has the command line.
//!
//! What it does not see: weak memory (every atomic is explored as if sequentially consistent), and what happens inside
//! tokio's `Notify`, channels and broadcast, and futures-util's `AtomicWaker`, whose calls are one step each here.
//!
//! `LEASE_RACES_SEED` explores other orders, `LEASE_RACES_TIMES` that many times more of them.

mod alarms;
mod driven;
mod grace;
mod guards;
mod losses;
mod notices;
mod store;
mod tenures;
mod world;

use std::env;

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// Plays a scenario in orders of chance, and in those that a few inversions of priorities make.
fn explore(orders: usize, scenario: impl Fn() + Copy + Send + Sync + 'static) {
    let (seed, times) = (number("LEASE_RACES_SEED", 1), number("LEASE_RACES_TIMES", 1));
    let orders = orders * usize::try_from(times).expect("a few times");
    run(RandomScheduler::new_from_seed(seed, orders), scenario);
    run(PctScheduler::new_from_seed(seed, 3, orders / 2), scenario);
}

/// Plays a scenario in every order there is, which must be no more than `most`.
fn exhaust(most: usize, scenario: impl Fn() + Copy + Send + Sync + 'static) {
    let played = run(DfsScheduler::new(Some(most), false), scenario);
    assert!(played < most, "more than {most} orders: this is not all of them");
}

fn run(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) -> usize {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::Print;
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(scenario)
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}
