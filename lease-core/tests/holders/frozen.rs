//! Databases whose clock stands still: what nobody can see proves nothing, and nobody spins on it.

use std::sync::Arc;
use std::time::Duration;

use lease_core::store::DbTime;
use lease_core::{Claimed, ClearError, Clock, Leases};
use lease_testkit::{Fault, FaultStore, ManualClock, MemoryStore, Op};

use super::abandoned::{AN_HOUR_BACK, abandoned, ended};
use crate::common::{MS, SECOND, World, granted, name};

/// A ttl and the margin.
const PATIENCE: Duration = Duration::from_millis(15_500);
/// A campaign interval and its fifth.
const POLL: Duration = Duration::from_secs(6);

/// A world whose database has a clock of its own, which stands still unless it is moved along.
struct Frozen {
    world: World,
    clock: Arc<ManualClock>,
}

impl Frozen {
    fn new() -> Self {
        let (mut world, clock) = (World::new(), ManualClock::new());
        world.database = MemoryStore::with_clock(clock.clone());
        world.store = FaultStore::new(world.database.clone(), world.clock.clone());
        world.leases = Leases::builder(world.store.clone()).clock(world.clock.clone()).build().unwrap();
        Self { world, clock }
    }

    /// Both clocks go.
    async fn thawed(&self, duration: Duration) {
        for _ in 0..duration.as_millis() / 10 {
            self.clock.jump(MS * 10);
            self.world.play(MS * 10).await;
        }
    }
}

#[tokio::test]
async fn a_holder_that_renews_is_not_replaced_while_the_clock_stands_still_nor_once_it_goes_again() {
    for stands_still in [SECOND * 16, SECOND * 33, SECOND * 60] {
        for hints in [false, true] {
            let frozen = Frozen::new();
            let world = &frozen.world;
            let lease = world.claim("nightly").await;
            let [waiter, clearer] = [world.other(), world.other()];
            let waiting = tokio::spawn(async move { waiter.acquire("nightly", SECOND * 3_600).await });
            frozen.thawed(SECOND * 7).await;
            world.play(SECOND * 3).await;
            let clearing = tokio::spawn(async move { clearer.clear("nightly", SECOND * 3_600).await });
            world.play(stands_still).await;
            frozen.clock.jump(MS);
            if hints {
                world.database.notifier().given_back(None);
            }
            world.play(MS).await;
            frozen.thawed(SECOND * 40).await;
            assert!(!waiting.is_finished(), "{stands_still:?} {hints}");
            let answer = ended(clearing).await;
            assert!(matches!(answer, Err(ClearError::Live(_))), "{stands_still:?} {hints}: {answer:?}");
            assert!(lease.check());
            assert_eq!(world.inspect("nightly").await.row.unwrap().term.get(), 1);
            waiting.abort();
        }
    }
}

#[tokio::test]
async fn a_renewal_right_before_the_clock_goes_again_counts_though_nobody_could_see_it() {
    let frozen = Frozen::new();
    let world = &frozen.world;
    let lease = world.claim("nightly").await;
    world.play(SECOND * 3).await;
    let waiter = world.other();
    let waiting = tokio::spawn(async move { waiter.acquire("nightly", SECOND * 3_600).await });
    // Not so long that the waiter looks again meanwhile.
    world.play(MS * 4_900).await;
    world.store.always(Op::Renew, Fault::HangBefore);
    // It was renewed at most two seconds ago, for fifteen.
    frozen.thawed(MS * 12_900).await;
    assert!(!waiting.is_finished());
    assert!(!lease.check());
    waiting.abort();
}

#[tokio::test]
async fn a_dead_holder_is_replaced_a_patience_after_the_clock_goes_again() {
    let frozen = Frozen::new();
    let world = &frozen.world;
    abandoned(world, "nightly").await;
    world.database.step_clock(AN_HOUR_BACK);
    let (clock, leases) = (world.clock.clone(), world.leases.clone());
    let waiting = tokio::spawn(async move {
        drop(granted(leases.acquire("nightly", SECOND * 3_600).await.unwrap()));
        clock.now()
    });
    world.play(SECOND * 60).await;
    let thawed_at = world.clock.now();
    frozen.thawed(PATIENCE + POLL * 3).await;
    let came = ended(waiting).await.since(thawed_at);
    // A renewal right before the clock went again would have been seen by nobody. A look by chance that shortly before it
    // counts as one after: a clock that stood still for less than 50 ms is merely coarse, and this one is ahead by up to 10.
    let least = PATIENCE - MS * 60;
    assert!(came > least && came <= PATIENCE + POLL * 2, "{came:?}");
}

#[tokio::test]
async fn a_row_that_is_about_to_expire_for_ever_is_looked_at_and_claimed_once_a_tick() {
    let frozen = Frozen::new();
    let world = &frozen.world;
    abandoned(world, "nightly").await;
    let soon = world.inspect("nightly").await.now.as_millis() + 1;
    world.database.edit_row(&name("nightly"), |row| row.expires_at = DbTime::from_millis(soon));

    let leases = world.leases.clone();
    let waiting = tokio::spawn(async move { leases.acquire("nightly", SECOND).await });
    world.play(SECOND).await;
    assert!(matches!(ended(waiting).await, Ok(Claimed::Held(_))));
    let claims = world.store.calls(Op::Claim);
    assert!((5..=12).contains(&claims), "{claims} claims in 1 s");

    let before = world.store.calls(Op::Inspect);
    let leases = world.leases.clone();
    let clearing = tokio::spawn(async move { leases.clear("nightly", SECOND * 60).await });
    world.play(SECOND).await;
    clearing.abort();
    let looks = world.store.calls(Op::Inspect) - before;
    assert!((5..=12).contains(&looks), "{looks} looks in 1 s");

    let before = world.store.calls(Op::Inspect);
    let mut watch = world.leases.watch("nightly").unwrap();
    let watching = tokio::spawn(async move { while watch.next().await.is_some() {} });
    world.play(SECOND).await;
    watching.abort();
    let looks = world.store.calls(Op::Inspect) - before;
    assert!((5..=12).contains(&looks), "{looks} looks in 1 s");
}
