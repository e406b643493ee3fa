//! Notices: who listens from before its look on misses no release that comes after the look.

use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread::yield_now;

use super::world::spawn;
use super::{exhaust, explore};
use crate::LeaseName;
use crate::store::{Hint, Notifier};

/// One gives names back, one waits for its own as `elect` does: listen, look, wait, look again.
fn give_back_to_a_waiter(others: usize) {
    let (free, notifier) = (Arc::new(AtomicBool::new(false)), Arc::new(Notifier::new()));
    let (freed, telling) = (Arc::clone(&free), Arc::clone(&notifier));
    let name: LeaseName = "waited-for".parse().unwrap();
    let told = name.clone();
    let giving_back = spawn(move || {
        freed.store(true, Ordering::SeqCst);
        telling.given_back(Some(told));
        for _ in 0..others {
            yield_now();
            telling.given_back(Some("another".parse().unwrap()));
        }
    });
    let mut notices = notifier.listen();
    yield_now();
    while !free.load(Ordering::SeqCst) {
        yield_now();
        let hint = block_on(notices.about(&name));
        yield_now();
        // Two hundred others make it one hint about any name.
        assert!(hint == Hint::GivenBack || others > 64);
    }
    giving_back.join().unwrap();
}

#[test]
fn no_release_goes_unheard_between_the_look_and_the_wait_in_every_order() {
    exhaust(200_000, || give_back_to_a_waiter(1));
}

#[test]
fn a_release_among_more_than_are_kept_is_heard_as_one_of_any_name() {
    explore(50, || give_back_to_a_waiter(80));
}
