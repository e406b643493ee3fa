//! Ten thousand leases of one process in one file cost as many statements as there are ticks.
//!
//! The local clock is moved by hand and waits for the file, so that no slow disk can be taken for a
//! hung statement; the database's clock is the real one, so the ttl is one that no machine outlives.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lease_core::{Claimed, Clock, Lease, LeaseStore, Leases, TimingParts, Timings};
use lease_sqlite::SqliteStore;
use lease_testkit::{Fault, FaultStore, ManualClock, Op};

const LEASES: usize = 10_000;
const SECOND: Duration = Duration::from_secs(1);

struct World {
    clock: Arc<ManualClock>,
    store: FaultStore,
}

impl World {
    /// Lets local time pass in steps shorter than a tick, each of which waits for the statements
    /// under way, save as many as hang.
    async fn play(&self, time: Duration, hanging: usize) {
        let end = self.clock.now() + time;
        while self.clock.now() < end {
            let left = end.since(self.clock.now());
            self.clock.play(left.min(Duration::from_millis(50))).await;
            while self.store.in_flight() > hanging {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// The moments of the claims, in microseconds within four seconds: a fixed sequence that looks random.
fn moments() -> Vec<u32> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut moments: Vec<u32> = (0..LEASES)
        .map(|_| {
            // xorshift64 (Marsaglia 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            u32::try_from(state % 4_000_000).unwrap()
        })
        .collect();
    moments.sort_unstable();
    moments
}

#[tokio::test]
async fn ten_thousand_leases_cost_twenty_statements_per_renew_and_a_hung_batch_costs_no_other_lease() {
    // In memory where there is such a folder: twenty thousand commits to disk would show nothing more.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let file = SqliteStore::open(folder.path().join("leases.db")).await.unwrap();
    file.migrate().await.unwrap();
    let clock = ManualClock::new();
    let store = FaultStore::new(file, clock.clone());
    let timings = TimingParts { ttl: SECOND * 86_400, ..Timings::default().parts() };
    let timings = Timings::new(timings).unwrap();
    let leases = Leases::builder(store.clone()).clock(clock.clone()).timings(timings).build().unwrap();
    let world = World { clock, store };

    let start = world.clock.now();
    let mut held = Vec::with_capacity(LEASES);
    for (n, us) in moments().into_iter().enumerate() {
        let at = start + Duration::from_micros(us.into());
        world.play(at.since(world.clock.now()), 0).await;
        match leases.claim(format!("lease-{n}")).await.unwrap() {
            Claimed::Granted(lease) => held.push(lease),
            Claimed::Held(refusal) => panic!("{refusal:?}"),
        }
    }
    world.play(SECOND * 10, 0).await;
    world.store.next(Op::RenewMany, Fault::HangBefore);
    // It is given up after the five seconds of an attempt.
    world.play(SECOND * 6, 1).await;
    world.play(SECOND * 10, 0).await;

    assert!(held.iter().all(Lease::check), "a lease was lost");
    let log = world.store.log();
    let batches: Vec<_> = log.iter().filter(|call| call.op == Op::RenewMany).collect();
    let largest = batches.iter().map(|call| call.size).max().unwrap();
    let singles = log.iter().filter(|call| call.op == Op::Renew).count();
    assert!(
        singles > 0 && singles <= largest,
        "{singles} single renewals after a batch of at most {largest}"
    );

    let mut per_renew = BTreeMap::new();
    for call in &batches {
        let period = call.at.since_zero().as_nanos() / timings.renew().as_nanos();
        *per_renew.entry(period).or_insert(0) += 1;
    }
    assert!(per_renew.values().all(|&calls| calls <= 20), "{per_renew:?}");
    // Every lease is renewed in every period: an idle driver cannot pass.
    let renewed: usize = batches.iter().map(|call| call.size).sum();
    assert!(renewed >= LEASES * 10, "{renewed}");

    drop(held);
    let closing = tokio::spawn(async move { leases.close().await });
    while !closing.is_finished() {
        world.play(SECOND, 0).await;
    }
    let page = lease_core::store::Page { limit: 20_000, ..Default::default() };
    let rows = world.store.list(&page, SECOND * 60).await.unwrap().rows;
    assert_eq!(rows.len(), LEASES);
    assert!(rows.iter().all(|row| row.expires_at == lease_core::store::DbTime::RELEASED));
}
