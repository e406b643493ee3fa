//! Losses: one reason wins, all are told it, and none comes back.

use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use shuttle::future::block_on;

use super::world::{World, after_claim, join, spawn};
use super::{exhaust, explore};
use crate::good::Good;
use crate::state::LeaseState;
use crate::{LossReason, Timings};

/// The deadline of a lease that was never renewed.
fn deadline() -> Duration {
    Timings::default().deadline()
}

/// Looks a few times: once a loss was told or seen it is there for good, and `check` is never true beside it.
fn look_on(state: &LeaseState) {
    let mut gone = false;
    for _ in 0..4 {
        let told = state.reason().is_some();
        let held = state.check();
        assert!(!(held && (told || gone)), "held after the loss");
        gone |= told || !held;
    }
}

#[test]
fn of_several_losses_one_reason_stays_and_all_are_told_it() {
    explore(400, || {
        let world = World::new();
        let (lease, state) = world.lease(false);
        let tenures = [lease.tenure(), lease.tenure()];
        let waiting = tenures.map(|tenure| spawn(move || block_on(tenure.lost())));
        let (clock, refused, looker) = (Arc::clone(&world.clock), Arc::clone(&state), Arc::clone(&state));
        let others = [
            spawn(move || clock.advance(deadline())),
            spawn(move || refused.lose(&LossReason::Refused)),
            spawn(move || drop(lease)),
            spawn(move || look_on(&looker)),
        ];
        join(others);
        let heard = waiting.map(|thread| thread.join().unwrap());
        let stayed = state.reason().unwrap();
        drop(state);
        let told = world.end();
        for reason in heard.iter().chain(told.loss()) {
            assert_eq!(discriminant(reason), discriminant(&stayed));
        }
        assert!(told.loss().is_some());
        assert_eq!(told.stuck, 0, "no work was begun");
    });
}

#[test]
fn a_renewal_at_the_deadline_and_two_looks_at_it_say_the_same_in_every_order() {
    exhaust(200_000, || {
        let good = Arc::new(Good::new(after_claim(Duration::ZERO)));
        let renewing = Arc::clone(&good);
        let renewing = spawn(move || renewing.renewed(after_claim(Duration::from_secs(2))));
        let look = || good.lasts(deadline(), after_claim(deadline()));
        let (first, second) = (look(), look());
        let counts = renewing.join().unwrap();
        assert_eq!((first, second), (counts, counts));
    });
}

#[test]
fn a_renewal_that_lands_at_the_deadline_counts_or_does_not_and_revives_nothing() {
    explore(600, || {
        let world = World::new();
        let (lease, state) = world.lease(false);
        let (clock, renewed, looker) = (Arc::clone(&world.clock), Arc::clone(&state), Arc::clone(&state));
        let others = [spawn(move || clock.advance(deadline())), spawn(move || look_on(&looker))];
        let counts = spawn(move || renewed.renewed(after_claim(Duration::from_secs(2))));
        join(others);
        let counts = counts.join().unwrap();
        // What was set while the clock stood at the deadline.
        world.clock.ring();
        assert_eq!(state.check(), counts);
        assert_eq!(state.reason().is_none(), counts, "{:?}", state.reason());
        drop((lease, state));
        world.end();
    });
}

#[test]
fn a_carried_renewal_counts_unless_the_loss_came_first_and_an_old_alarm_is_no_loss() {
    explore(400, || {
        let world = World::new();
        let (lease, state) = world.lease(false);
        let tenure = lease.tenure();
        world.clock.advance(Duration::from_secs(2));
        let (clock, looker) = (Arc::clone(&world.clock), Arc::clone(&state));
        let carrying = spawn(move || {
            tenure.carry_renewal().committed(true);
            tenure.check()
        });
        let others = [
            spawn(move || clock.advance(deadline() - Duration::from_nanos(1))),
            spawn(move || look_on(&looker)),
        ];
        join(others);
        assert!(carrying.join().unwrap(), "lost before its deadline");
        world.clock.advance(deadline());
        assert!(state.check() && state.reason().is_none(), "lost by the alarm of a deadline that has moved");
        world.clock.advance(deadline() * 2);
        assert!(state.reason().is_some(), "no alarm was set for the deadline that was moved to");
        drop((lease, state));
        world.end();
    });
}

#[test]
fn a_step_down_that_is_asked_beside_a_loss_and_the_end_is_told_before_them_or_not_at_all() {
    explore(400, || {
        let world = World::new();
        let (lease, state) = world.lease(false);
        let tenure = lease.tenure();
        let (asked, given_back, refused) = (Arc::clone(&state), Arc::clone(&state), Arc::clone(&state));
        let others = [
            spawn(move || asked.ask_step_down()),
            spawn(move || block_on(tenure.stopping())),
            spawn(move || refused.lose(&LossReason::Refused)),
            spawn(move || {
                drop(lease);
                given_back.given_back();
                given_back.given_back();
            }),
        ];
        join(others);
        drop(state);
        let told = world.end();
        assert!(told.has(|event| matches!(event, crate::Transition::GivenBack)));
    });
}
