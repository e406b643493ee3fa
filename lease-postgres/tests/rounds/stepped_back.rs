//! A database clock that is stepped back: what it says of an expiry strands nobody. The same for every server.

use std::future::Future;
use std::time::{Duration, Instant};

use lease_core::store::{Claim, ClaimAnswer};
use lease_core::{
    Claimed, ClearError, Holder, Instance, LeaseName, Leases, LossReason, Standing, Term, Timings,
};
use test_servers::Server;

use crate::open;

const HOUR: Duration = Duration::from_secs(3600);
const LONG: Duration = Duration::from_secs(120);

pub(crate) async fn a_clock_an_hour_back_keeps_nobody_from_what_the_dead_have_and_gives_nobody_what_the_living_have(
    place: &str,
    mut server: Server,
) {
    // On a machine that stands still for long the living give up; then all gets more time.
    let mut ttl = open(place).min_ttl().max(Duration::from_millis(1_500));
    while !is_judged(place, &mut server, ttl).await {
        ttl *= 4;
        assert!(ttl < HOUR / 2, "the machine stands still for minutes");
    }
}

/// `false` when the living holder has not lived long enough.
async fn is_judged(place: &str, server: &mut Server, ttl: Duration) -> bool {
    let [waited_for, cleared, living] = ["waited for", "cleared", "living"]
        .map(|text| LeaseName::new(&format!("{text} {}", ttl.as_secs())).unwrap());
    let timings = Timings::from_ttl(ttl).unwrap();
    let [holder, other] =
        [(); 2].map(|()| Leases::builder_shared(open(place)).timings(timings).build().unwrap());
    let store = other.store();
    for dead in [&waited_for, &cleared] {
        let instance = Instance::named("dead");
        let claim = Claim { name: dead.clone(), holder: Holder::mint().unwrap(), ttl, instance };
        assert_eq!(store.claim(&claim, LONG).await.unwrap(), ClaimAnswer::Granted(Term::FIRST));
    }
    let Claimed::Granted(lives) = holder.claim(living.clone()).await.unwrap() else { panic!("it is free") };
    server.step_clock(-i64::try_from(HOUR.as_secs()).unwrap());
    for dead in [&waited_for, &cleared] {
        let seen = store.inspect(dead, LONG).await.unwrap();
        let left = seen.row.unwrap().expires_at.since(seen.now);
        assert!(left > HOUR / 2, "the database has it free in {left:?}");
    }

    let long_enough = ttl + ttl / 2;
    let ((taken, after), (freed, freed_after), refused, not_cleared) = tokio::join!(
        timed(other.acquire(waited_for.clone(), LONG)),
        timed(other.clear(cleared.clone(), LONG)),
        other.acquire(living.clone(), long_enough),
        other.clear(living.clone(), long_enough),
    );
    match lives.tenure().reason() {
        None => {}
        Some(LossReason::Deadline { .. }) => return false,
        Some(taken_from) => panic!("a holder that renewed lost it: {taken_from}"),
    }
    assert!(matches!(refused.unwrap(), Claimed::Held(_)), "a holder that lives was taken over");
    assert!(matches!(not_cleared, Err(ClearError::Live(_))), "{not_cleared:?}");

    let Claimed::Granted(taken) = taken.unwrap() else { panic!("nobody gets what the dead have") };
    assert_eq!(taken.term().get(), 2);
    assert_eq!(freed.unwrap().term(), Some(Term::FIRST));
    assert_eq!(other.status(cleared).await.unwrap().standing(), Standing::Released);
    // Neither before the holder could not have been alive any more.
    for after in [after, freed_after] {
        assert!(after >= ttl + timings.margin(), "after {after:?}");
    }
    for leases in [holder, other] {
        leases.shutdown();
    }
    true
}

async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    (future.await, began.elapsed())
}
