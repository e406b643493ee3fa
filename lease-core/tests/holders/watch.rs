//! Watching one name.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use lease_core::store::{Claim, LeaseRow};
use lease_core::{Clock, ErrorKind, Holder, LeaseStore, Standing, Term, Watch, Watched};
use lease_testkit::{Fault, Op};

use super::abandoned::{abandoned, ended};
use crate::common::{MS, SECOND, World, name};

/// What was told: how the name stands, `None` while the database was away, and under which term.
type Seen = (Option<Standing>, i64);

/// What a watch has told, and when.
type Told = Arc<Mutex<Vec<(Duration, Seen)>>>;

fn seen(watched: Watched) -> Seen {
    match watched {
        Watched::Now(sighting) => (Some(sighting.standing()), sighting.term().map_or(0, Term::get)),
        Watched::Away(error) => {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            (None, 0)
        }
    }
}

/// Notes all that a watch tells.
fn notes(world: &World, mut watch: Watch) -> Told {
    let (clock, start, told) = (world.clock.clone(), world.clock.now(), Told::default());
    let noted = Arc::clone(&told);
    drop(tokio::spawn(async move {
        while let Some(watched) = watch.next().await {
            noted.lock().unwrap().push((clock.now().since(start), seen(watched)));
        }
    }));
    told
}

fn states(told: &Told) -> Vec<Seen> {
    told.lock().unwrap().iter().map(|(_, seen)| *seen).collect()
}

const fn held(term: i64) -> Seen {
    (Some(Standing::Held), term)
}

const fn released(term: i64) -> Seen {
    (Some(Standing::Released), term)
}

const NEVER: Seen = (Some(Standing::Never), 0);

#[tokio::test]
async fn every_change_that_is_seen_is_told_once_and_in_order() {
    let world = World::new();
    let told = notes(&world, world.other().watch("nightly").unwrap());
    world.play(SECOND * 5).await;
    for _ in 0..2 {
        let lease = world.claim("nightly").await;
        world.play(SECOND * 30).await;
        lease.release().await.unwrap();
        world.play(SECOND * 5).await;
    }
    assert_eq!(states(&told), [NEVER, held(1), released(1), held(2), released(2)]);
}

#[tokio::test]
async fn a_release_is_told_at_once_and_an_expiry_when_it_comes() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    let told = notes(&world, world.other().watch("nightly").unwrap());
    world.play(SECOND * 20).await;
    let at_last = |told: &Told| *told.lock().unwrap().last().unwrap();
    assert_eq!(at_last(&told), (SECOND * 15, (Some(Standing::Expired), 1)));
    let lease = world.claim("nightly").await;
    world.play(MS * 3_333).await;
    lease.release().await.unwrap();
    world.play(Duration::ZERO).await;
    assert_eq!(at_last(&told), (MS * 23_333, released(2)));
}

#[tokio::test]
async fn changes_between_two_looks_are_told_as_the_last_of_them() {
    let world = World::new();
    let first = abandoned(&world, "nightly").await;
    let told = notes(&world, world.other().watch("nightly").unwrap());
    world.play(MS).await;
    // Nobody announces this.
    for _ in 0..5 {
        let row = world.inspect("nightly").await.row.unwrap();
        world.database.release(&row.name, &row.holder, SECOND).await.unwrap();
        let next = Claim { holder: Holder::mint().unwrap(), ..first.clone() };
        world.database.claim(&next, SECOND).await.unwrap();
    }
    world.play(SECOND * 5).await;
    assert_eq!(states(&told), [held(1), held(6)]);
}

#[tokio::test]
async fn a_database_that_goes_away_is_said_once_and_what_is_there_afterwards_is_said_again() {
    let world = World::new();
    let _lease = world.other().claim("nightly").await.unwrap();
    let told = notes(&world, world.leases.watch("nightly").unwrap());
    world.play(SECOND).await;
    world.store.always(Op::Inspect, Fault::FailBefore(ErrorKind::Unavailable));
    world.play(SECOND * 10).await;
    world.store.heal();
    world.play(SECOND * 10).await;
    world.store.always(Op::Inspect, Fault::FailBefore(ErrorKind::Unavailable));
    world.play(SECOND * 10).await;
    let away = (None, 0);
    assert_eq!(states(&told), [held(1), away, held(1), away]);
}

#[tokio::test]
async fn a_flood_of_hints_leads_to_a_look_a_tick_and_the_last_state_is_told() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    let told = notes(&world, world.leases.watch("nightly").unwrap());
    for n in 0..2_000 {
        world.database.notifier().given_back((n % 2 == 0).then(|| name("nightly")));
        world.database.edit_row(&name("nightly"), |row: &mut LeaseRow| {
            row.term = Term::new(row.term.get() + 1).unwrap();
        });
        world.play(MS).await;
    }
    let looks = world.store.calls(Op::Inspect);
    assert!((10..=21).contains(&looks), "{looks} looks in 2 s");
    world.play(MS * 100).await;
    let told = states(&told);
    assert_eq!(told.last(), Some(&held(2_001)));
    assert!(told.is_sorted_by_key(|seen| seen.1), "{told:?}");
}

#[tokio::test]
async fn a_call_that_is_dropped_loses_nothing() {
    let world = World::new();
    let mut watch = world.leases.watch("nightly").unwrap();
    let mut told = Vec::new();
    // Each look is dropped once before its answer comes.
    world.store.plan(|call| (call.op == Op::Inspect && call.number % 2 == 0).then_some(Fault::HangAfter));
    let mut holder = None;
    for n in 0..200 {
        if n % 50 == 10 {
            holder = Some(world.database.clone());
            abandoned(&world, "nightly").await;
        } else if n % 50 == 30 {
            let row = world.inspect("nightly").await.row.unwrap();
            world.database.release(&row.name, &row.holder, SECOND).await.unwrap();
            world.database.notifier().given_back(Some(row.name));
        }
        told.extend(watch.next().now_or_never().flatten().map(seen));
        world.play(MS * 120).await;
    }
    drop(holder);
    let mut expected = vec![NEVER];
    (1..=4).for_each(|term| expected.extend([held(term), released(term)]));
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_watch_that_is_dropped_listens_no_more() {
    let world = World::new();
    let mut watch = world.leases.watch("nightly").unwrap();
    watch.next().await;
    assert!(world.database.notifier().is_heard());
    drop(watch);
    assert!(!world.database.notifier().is_heard());
}

#[tokio::test]
async fn a_watch_ends_with_the_shutdown_also_one_that_waits() {
    for closes in [false, true] {
        let world = World::new();
        let mut waits = world.leases.watch("nightly").unwrap();
        let mut begins = world.leases.watch("nightly").unwrap();
        waits.next().await.unwrap();
        let waiting = tokio::spawn(async move { waits.next().await.is_none() });
        world.play(MS).await;
        assert!(!waiting.is_finished());
        if closes {
            world.leases.close().await;
        } else {
            world.leases.shutdown();
        }
        world.play(Duration::ZERO).await;
        assert!(ended(waiting).await);
        assert!(begins.next().await.is_none());
    }
}

#[tokio::test]
async fn that_the_database_is_away_is_told_anew_when_it_is_for_another_reason() {
    let world = World::new();
    let mut watch = world.leases.watch("nightly").unwrap();
    for kind in [ErrorKind::Unavailable, ErrorKind::Schema] {
        world.store.always(Op::Inspect, Fault::FailBefore(kind));
        world.play(SECOND * 10).await;
        let Some(Some(Watched::Away(error))) = watch.next().now_or_never() else { panic!("{kind:?}") };
        assert_eq!(error.kind(), kind);
        assert!(watch.next().now_or_never().is_none());
        world.play(SECOND * 10).await;
        assert!(watch.next().now_or_never().is_none());
    }
}
