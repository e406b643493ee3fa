//! Stuck work: the failing hook is called once when work outlives the grace, and never otherwise.

use std::sync::Arc;
use std::time::Duration;

use super::explore;
use super::world::{World, join, spawn};
use crate::{LossReason, Timings, Transition};

fn past_the_grace() -> Duration {
    Timings::default().ttl()
}

#[test]
fn work_that_begins_beside_a_loss_is_refused_or_has_its_grace_and_then_fails_once() {
    explore(400, || {
        let world = World::new();
        let (lease, state) = world.lease(false);
        let refused = Arc::clone(&state);
        let losing = spawn(move || refused.lose(&LossReason::Refused));
        let tenure = lease.tenure();
        let begun = state.begin_work().is_ok();
        losing.join().unwrap();
        // Whoever lost it: the deadline lies in the past by now, and the work runs on.
        let clocks = [Arc::clone(&world.clock), Arc::clone(&world.clock)];
        join(clocks.map(|clock| spawn(move || clock.advance(past_the_grace()))));
        drop((tenure, lease, state));
        let told = world.end();
        assert_eq!(told.stuck, usize::from(begun));
        assert_eq!(told.has(|event| matches!(event, Transition::Stuck)), begun);
    });
}

#[test]
fn work_that_ends_within_the_grace_never_fails_however_many_hold_its_tenure() {
    explore(400, || {
        let world = World::new();
        let (lease, state) = world.lease(false);
        let tenure = lease.tenure();
        state.begin_work().unwrap();
        let children = [tenure.clone(), tenure].map(|tenure| spawn(move || drop(tenure)));
        let (clock, refused) = (Arc::clone(&world.clock), Arc::clone(&state));
        let ticking = spawn(move || clock.advance(Timings::default().grace() - Duration::from_nanos(1)));
        let losing = spawn(move || refused.lose(&LossReason::Refused));
        join(children);
        ticking.join().unwrap();
        losing.join().unwrap();
        world.clock.advance(past_the_grace());
        drop((lease, state));
        assert_eq!(world.end().stuck, 0);
    });
}

#[test]
fn work_that_ends_as_its_grace_does_fails_at_most_once_and_not_after_the_name_was_given_back() {
    explore(400, || {
        let world = World::new();
        let (lease, state) = world.lease(false);
        let tenure = lease.tenure();
        state.begin_work().unwrap();
        let (clock, given_back) = (Arc::clone(&world.clock), Arc::clone(&state));
        let ringing = spawn(move || {
            clock.advance(Timings::default().deadline());
            clock.advance(past_the_grace());
        });
        let ending = spawn(move || {
            drop((tenure, lease));
            if !given_back.work_may_run() {
                given_back.given_back();
            }
        });
        ringing.join().unwrap();
        ending.join().unwrap();
        drop(state);
        // In order, each once, is what every world demands.
        assert!(world.end().stuck <= 1);
    });
}

#[test]
fn a_lease_is_not_given_up_as_idle_beside_work_that_begins() {
    explore(600, || {
        let world = World::new();
        let (lease, state) = world.lease(false);
        let giving_up = Arc::clone(&state);
        let giving_up = spawn(move || giving_up.lose_if_idle());
        let tenure = lease.tenure();
        let begun = state.begin_work().is_ok();
        let gave_up = giving_up.join().unwrap();
        assert!(begun != gave_up, "begun: {begun}, given up: {gave_up}");
        assert_eq!(tenure.check(), begun);
        drop((tenure, lease, state));
        world.end();
    });
}
