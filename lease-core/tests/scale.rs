//! Ten thousand leases in one process cost as many statements as there are ticks.

mod common;

use std::collections::BTreeMap;

use common::{MS, SECOND, World};
use lease_core::{Clock, Lease, Timings};
use lease_testkit::{Fault, Op};

/// The moments of the claims, in microseconds within four seconds: a fixed sequence that looks random.
fn moments(count: usize) -> Vec<u64> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut moments: Vec<u64> = (0..count)
        .map(|_| {
            // xorshift64 (Marsaglia 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % 4_000_000
        })
        .collect();
    moments.sort_unstable();
    moments
}

#[tokio::test]
async fn ten_thousand_leases_cost_twenty_statements_per_renew_and_a_hung_batch_costs_no_other_lease() {
    const LEASES: usize = 10_000;
    let world = World::new();
    let start = world.clock.now();
    let mut leases = Vec::with_capacity(LEASES);
    for (n, us) in moments(LEASES).into_iter().enumerate() {
        let at = start + MS / 1_000 * u32::try_from(us).unwrap();
        world.play(at.since(world.clock.now())).await;
        leases.push(world.claim(&format!("lease-{n}")).await);
    }
    world.play(SECOND * 20).await;
    world.store.next(Op::RenewMany, Fault::HangBefore);
    world.play(SECOND * 40).await;

    assert!(leases.iter().all(Lease::check), "a lease was lost");
    let log = world.store.log();
    let hung = log.iter().filter(|call| call.op == Op::RenewMany).map(|call| call.size).max().unwrap();
    let singles: usize = log.iter().filter(|call| call.op == Op::Renew).count();
    assert!(singles > 0 && singles <= hung, "{singles} single renewals after a hung batch of at most {hung}");

    let mut per_renew = BTreeMap::new();
    for call in log.iter().filter(|call| call.op == Op::RenewMany) {
        let period = call.at.since_zero().as_nanos() / Timings::default().renew().as_nanos();
        *per_renew.entry(period).or_insert(0) += 1;
    }
    assert!(per_renew.values().all(|&calls| calls <= 20), "{per_renew:?}");
    // Every lease is renewed in every period: an idle driver cannot pass.
    let renewed: usize = log.iter().filter(|call| call.op == Op::RenewMany).map(|call| call.size).sum();
    assert!(renewed >= LEASES * 27, "{renewed}");
}
