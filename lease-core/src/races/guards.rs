//! Guarded transactions: of a commit and the end of its session exactly one takes place.

use std::sync::Arc;

use shuttle::future::block_on;

use super::explore;
use super::world::{World, join, spawn};
use crate::guard::{Guarding, MustEnd};
use crate::{LossReason, Timings};

#[test]
fn of_a_commit_and_the_end_of_its_session_exactly_one_takes_place() {
    explore(500, || {
        let world = World::new();
        let (lease, state) = world.lease(false);
        let tenure = lease.tenure();
        let (guarding, watcher) = Guarding::begin(&tenure).unwrap();
        let (clock, refused) = (Arc::clone(&world.clock), Arc::clone(&state));
        let losing = [
            spawn(move || clock.advance(Timings::default().deadline())),
            spawn(move || refused.lose(&LossReason::Refused)),
        ];
        let watching = spawn(move || {
            let first = block_on(watcher.must_end());
            let again = block_on(watcher.must_end());
            assert_eq!(first.is_some(), again.is_some());
            first
        });
        let commits = guarding.commit_begins().is_ok();
        // Its answer comes at any time, and the rollback of one that was refused with the end of its session.
        if commits {
            guarding.over().unwrap();
        } else {
            drop(guarding);
        }
        join(losing);
        let ended = watching.join().unwrap();
        assert_eq!(commits, ended.is_none(), "commits: {commits}, ended: {ended:?}");
        drop((tenure, lease, state));
        world.end();
    });
}

#[test]
fn a_commit_that_begins_beside_the_loss_is_not_ended() {
    explore(4_000, || {
        let world = World::without_events();
        let (lease, state) = world.lease(false);
        let (guarding, watcher) = Guarding::begin(&lease.tenure()).unwrap();
        let watching = spawn(move || block_on(watcher.must_end()));
        let losing = spawn(move || state.lose(&LossReason::Refused));
        let commits = guarding.commit_begins().is_ok();
        drop(guarding);
        losing.join().unwrap();
        assert_eq!(commits, watching.join().unwrap().is_none());
        drop(lease);
        world.end();
    });
}

#[test]
fn a_transaction_that_is_left_open_is_ended_and_one_that_is_over_is_left_alone() {
    explore(500, || {
        let world = World::new();
        let (lease, state) = world.lease(false);
        let tenure = lease.tenure();
        let both = [Guarding::begin(&tenure).unwrap(), Guarding::begin(&tenure).unwrap()];
        let [(dropped, dropped_watcher), (rolled_back, watcher)] = both;
        let losing = spawn(move || state.lose(&LossReason::Refused));
        let watching = [dropped_watcher, watcher].map(|watcher| spawn(move || block_on(watcher.must_end())));
        let dropping = spawn(move || drop(dropped));
        let over = rolled_back.over().is_ok();
        losing.join().unwrap();
        dropping.join().unwrap();
        let [of_dropped, of_rolled_back] = watching.map(|thread| thread.join().unwrap());
        assert!(of_dropped.is_some());
        match of_rolled_back {
            None => assert!(over),
            Some(MustEnd::Lost(_)) => assert!(!over),
            Some(MustEnd::Abandoned) => panic!("it was rolled back"),
        }
        drop((tenure, lease));
        world.end();
    });
}
