//! A holder of this host that dies while somebody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lease_core::{Clock, Leases, Liveness, Probe, ProcessFacts};
use lease_testkit::Op;

use super::abandoned::{abandoned, ended, renewed};
use crate::common::{SECOND, World, granted, name};

#[derive(Debug, Clone, Default)]
struct Dies(Arc<AtomicBool>);

impl Probe for Dies {
    fn judge(&self, _: &ProcessFacts) -> Liveness {
        if self.0.load(Ordering::SeqCst) { Liveness::Dead } else { Liveness::Unknown }
    }
}

#[tokio::test]
async fn who_waits_looks_at_its_process_between_the_looks_at_its_row() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    let dies = Dies::default();
    let builder = Leases::builder(world.store.clone()).clock(world.clock.clone());
    let leases = builder.probe(dies.clone()).build().unwrap();
    let (clock, start) = (world.clock.clone(), world.clock.now());
    let waiting = tokio::spawn(async move {
        drop(granted(leases.acquire("nightly", SECOND * 60).await.unwrap()));
        clock.now().since(start)
    });
    world.play(SECOND * 2).await;
    assert_eq!(world.store.calls(Op::Inspect), 1);
    // Renewed since that look, and dead now.
    world.database.edit_row(&name("nightly"), renewed);
    dies.0.store(true, Ordering::SeqCst);
    world.play(SECOND * 2).await;
    assert_eq!(ended(waiting).await, SECOND * 3);
    assert_eq!((world.store.calls(Op::Inspect), world.store.calls(Op::Claim)), (2, 1));
}
