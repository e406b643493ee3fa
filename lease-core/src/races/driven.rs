//! The driver itself beside the handles: the name is given back once, never under work, and `close` sees it.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::thread::{self, JoinHandle};

use super::explore;
use super::store::RowStore;
use super::world::{Told, World, after_claim, join, spawn};
use crate::driver::{Command, drive};
use crate::renewal::Renewal;
use crate::state::LeaseState;
use crate::{Lease, Slot, Tenure, Timings, Transition};

/// A world whose lease a driver renews.
struct Driven {
    world: World,
    driver: JoinHandle<()>,
    lease: Lease,
    state: Arc<LeaseState>,
}

impl Driven {
    fn start(is_round: bool) -> Self {
        let mut world = World::new();
        let (lease, state) = world.lease(is_round);
        let renewal = Renewal::new(&Timings::default(), after_claim(Duration::ZERO));
        world.client.send(Command::Add(Arc::clone(&state), Some(renewal), world.client.open()));
        let (_, nobody) = tokio::sync::mpsc::unbounded_channel();
        let orders = std::mem::replace(&mut world.orders, nobody);
        let drive = drive(Arc::<RowStore>::clone(&world.store), Arc::clone(&world.client.setup), orders);
        let driver = spawn(move || block_on(drive));
        Self { world, driver, lease, state }
    }
}

/// How long work takes: enough for the driver to do all that it could do wrong meanwhile.
const STEPS: u32 = 25;

/// Work under a tenure, on a thread of its own, which does not hear of any loss.
fn work(tenure: Tenure, store: &Arc<RowStore>) -> JoinHandle<()> {
    store.working.fetch_add(1, SeqCst);
    let store = Arc::clone(store);
    spawn(move || {
        // Steps, in which others come in between.
        for _ in 0..STEPS {
            thread::yield_now();
        }
        store.working.fetch_sub(1, SeqCst);
        drop(tenure);
    })
}

/// Ends the world, with all its handles gone and the driver with them.
fn end(world: World, driver: JoinHandle<()>) -> (Told, Arc<RowStore>) {
    let store = Arc::clone(&world.store);
    let told = world.end();
    driver.join().unwrap();
    let wrong = store.wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{wrong:?}");
    drop(wrong);
    (told, store)
}

fn is_given_back(event: &Transition) -> bool {
    matches!(event, Transition::GivenBack)
}

#[test]
fn a_lease_dropped_beside_its_work_is_given_back_once_and_after_it() {
    explore(250, || {
        let Driven { world, driver, lease, state } = Driven::start(false);
        drop(state);
        let works = [work(lease.tenure(), &world.store), work(lease.tenure(), &world.store)];
        let clock = Arc::clone(&world.clock);
        let ticking = spawn(move || clock.advance(Duration::from_secs(2)));
        drop(lease);
        join(works);
        ticking.join().unwrap();
        let (told, store) = end(world, driver);
        assert_eq!(store.released.load(SeqCst), 1);
        assert!(told.loss().is_some());
    });
}

#[test]
fn a_release_answers_when_the_name_is_free_whoever_else_releases_or_shuts_down() {
    explore(250, || {
        let Driven { world, driver, lease, state } = Driven::start(false);
        drop(state);
        let lease = Arc::new(lease);
        let work = work(lease.tenure(), &world.store);
        let releasing = [Arc::clone(&lease), lease].map(|lease| {
            let store = Arc::clone(&world.store);
            spawn(move || {
                block_on(lease.release()).unwrap();
                assert_eq!(store.released.load(SeqCst), 1);
            })
        });
        world.client.shut_down();
        work.join().unwrap();
        join(releasing);
        let (told, store) = end(world, driver);
        assert_eq!(store.released.load(SeqCst), 1);
        assert!(told.has(is_given_back));
    });
}

#[test]
fn a_shutdown_ends_an_idle_lease_and_waits_for_one_with_work() {
    explore(250, || {
        let Driven { world, driver, lease, state } = Driven::start(false);
        let (client, store) = (Arc::clone(&world.client), Arc::clone(&world.store));
        let closing = spawn(move || {
            client.shut_down();
            block_on(client.all_closed());
            assert_eq!(store.released.load(SeqCst), 1, "closed before the name was given back");
        });
        // It begins, or the shutdown was first.
        let store = Arc::clone(&world.store);
        let beginning = spawn(move || {
            let tenure = lease.tenure();
            if state.begin_work().is_ok() {
                store.working.fetch_add(1, SeqCst);
                assert!(tenure.check(), "work has begun under a lease that was given up");
                store.working.fetch_sub(1, SeqCst);
            }
            drop((tenure, lease, state));
        });
        beginning.join().unwrap();
        closing.join().unwrap();
        let (_, store) = end(world, driver);
        assert_eq!(store.released.load(SeqCst), 1);
    });
}

#[test]
fn the_end_of_a_round_is_recorded_once_and_in_place_of_the_release() {
    explore(250, || {
        let Driven { world, driver, lease, state } = Driven::start(true);
        drop(state);
        let works = [work(lease.tenure(), &world.store), work(lease.tenure(), &world.store)];
        let client = Arc::clone(&world.client);
        let closing = spawn(move || client.shut_down());
        let clock = Arc::clone(&world.clock);
        let ticking = spawn(move || clock.advance(Duration::from_secs(2)));
        let slot = Slot::from_millis(60_000).unwrap();
        block_on(lease.finish(slot, None)).unwrap();
        drop(lease);
        join(works);
        closing.join().unwrap();
        ticking.join().unwrap();
        let (told, store) = end(world, driver);
        assert_eq!((store.finished.load(SeqCst), store.released.load(SeqCst)), (1, 0));
        assert!(told.has(is_given_back));
    });
}

#[test]
fn a_lease_that_the_database_refuses_beside_its_end_is_lost_once_and_released_at_most_once() {
    explore(250, || {
        let Driven { world, driver, lease, state } = Driven::start(false);
        drop(state);
        let work = work(lease.tenure(), &world.store);
        world.store.refuses.store(true, SeqCst);
        let clock = Arc::clone(&world.clock);
        let ticking = spawn(move || clock.advance(Duration::from_secs(2)));
        let dropping = spawn(move || drop(lease));
        for thread in [work, ticking, dropping] {
            thread.join().unwrap();
        }
        let (told, store) = end(world, driver);
        assert!(told.loss().is_some());
        let given_back = usize::from(told.has(is_given_back));
        assert_eq!(store.released.load(SeqCst), given_back);
    });
}

/// What the driver gives up by time no carried renewal revives; what one has moved the deadline of, the driver goes on renewing.
#[test]
fn a_renewal_that_is_carried_at_the_deadline_and_the_driver_agree_on_the_lease() {
    explore(2_000, || {
        let Driven { world, driver, lease, state } = Driven::start(false);
        let (tenure, timings) = (lease.tenure(), Timings::default());
        world.store.fails.store(true, SeqCst);
        let carried = timings.renew() * 2;
        world.clock.advance(carried);
        let clock = Arc::clone(&world.clock);
        let carrying = spawn(move || {
            tenure.carry_renewal().committed(true);
            drop(tenure);
        });
        let ticking = spawn(move || clock.advance(timings.deadline()));
        join([carrying, ticking]);
        world.store.fails.store(false, SeqCst);
        if state.check() {
            world.clock.advance(timings.deadline() + carried - Duration::from_nanos(1));
            let mut steps = 0..10_000;
            while world.store.renewed.load(SeqCst) == 0 {
                assert!(steps.next().is_some(), "nobody renews what is held");
                // What was set while the clock stood there.
                world.clock.ring();
                thread::yield_now();
            }
        }
        drop((lease, state));
        end(world, driver);
    });
}
