//! Tenures dropped by many: the driver hears once that all have gone, and who waits for it is never left waiting.

use std::sync::Arc;

use shuttle::future::block_on;

use super::world::{World, join, spawn};
use super::{exhaust, explore};
use crate::driver::Command;

#[test]
fn the_last_of_several_tenures_is_told_of_once_and_who_waits_for_it_wakes_up() {
    explore(400, || {
        let mut world = World::new();
        let (lease, state) = world.lease(false);
        let tenure = lease.tenure();
        let tenures = [tenure.clone(), tenure.clone(), tenure];
        let waiting = Arc::clone(&state);
        let waiting = spawn(move || {
            block_on(waiting.work_gone());
            assert!(!waiting.work_may_run());
        });
        join(tenures.map(|tenure| spawn(move || drop(tenure))));
        waiting.join().unwrap();
        assert!(matches!(world.orders.try_recv(), Ok(Command::Idle(1))));
        assert!(world.orders.try_recv().is_err(), "told more than once");
        drop((lease, state));
        world.end();
    });
}

#[test]
fn who_waits_for_the_last_tenure_wakes_up_in_every_order() {
    exhaust(200_000, || {
        let world = World::without_events();
        let (lease, state) = world.lease(false);
        state.tenure_begins();
        let ending = Arc::clone(&state);
        let ending = spawn(move || assert!(ending.tenure_ends()));
        block_on(state.work_gone());
        assert!(!state.work_may_run());
        ending.join().unwrap();
        drop((lease, state));
        world.end();
    });
}
