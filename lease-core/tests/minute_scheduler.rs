//! The example, run to its end.

#[path = "../examples/minute_scheduler.rs"]
mod minute_scheduler;

#[test]
fn a_round_that_a_crash_cuts_short_is_run_again() {
    minute_scheduler::main().unwrap();
}
