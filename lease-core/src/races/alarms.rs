//! Alarms: set, dropped and rung by several threads at once; who sleeps is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use super::explore;
use super::world::{World, after_claim, join, spawn};
use crate::clock::Clock;

#[test]
fn an_alarm_rings_once_or_was_dropped_before_whoever_rings() {
    explore(400, || {
        let world = World::new();
        let rung = Arc::new(AtomicUsize::new(0));
        let ring = |kept: &Arc<AtomicUsize>| {
            let rung = Arc::clone(kept);
            Box::new(move || {
                rung.fetch_add(1, SeqCst);
            })
        };
        let kept = world.clock.alarm(after_claim(Duration::from_secs(1)), ring(&rung));
        let dropped = world.clock.alarm(after_claim(Duration::from_secs(1)), ring(&rung));
        let clocks = [Arc::clone(&world.clock), Arc::clone(&world.clock)];
        let ringing = clocks.map(|clock| spawn(move || clock.advance(Duration::from_secs(2))));
        let counted = Arc::clone(&rung);
        let dropping = spawn(move || {
            drop(dropped);
            // From now on nothing more of it comes.
            let before = counted.load(SeqCst);
            (before, counted)
        });
        join(ringing);
        dropping.join().unwrap();
        assert!((1..=2).contains(&rung.load(SeqCst)));
        drop(kept);
        world.end();
    });
}
