//! Watching all names that begin alike.

use futures_util::FutureExt;
use lease_core::{ErrorKind, Standing, Watch, Watched};
use lease_testkit::{Fault, Op};

use super::abandoned::abandoned;
use crate::common::{SECOND, World, name};

/// All that there is to tell by now.
fn told(watch: &mut Watch) -> Vec<(String, Standing)> {
    let mut told = Vec::new();
    while let Some(Some(watched)) = watch.next().now_or_never() {
        match watched {
            Watched::Now(sighting) => told.push((sighting.name().to_string(), sighting.standing())),
            Watched::Away(error) => panic!("{error}"),
        }
    }
    told
}

fn are<const N: usize>(standings: [(&str, Standing); N]) -> Vec<(String, Standing)> {
    standings.map(|(text, standing)| (text.to_owned(), standing)).to_vec()
}

#[tokio::test]
async fn names_that_begin_otherwise_by_a_byte_are_not_watched() {
    let world = World::new();
    for text in ["a/1", "a/", "A/1", "a", "a.1", "ä/1", "b/a/1", "a/ä"] {
        abandoned(&world, text).await;
    }
    let mut watch = world.leases.watch_all("a/");
    let held = Standing::Held;
    assert_eq!(told(&mut watch), are([("a/", held), ("a/1", held), ("a/ä", held)]));
    let mut all = world.leases.watch_all("");
    assert_eq!(told(&mut all).len(), 8);
    let lease = world.claim("b/2").await;
    drop(lease);
    world.play(SECOND * 2).await;
    assert_eq!(told(&mut watch), []);
    assert_eq!(told(&mut all), are([("b/2", Standing::Released)]));
}

#[tokio::test]
async fn every_name_of_many_pages_is_told_once() {
    let world = World::new();
    for n in 0..1_100 {
        abandoned(&world, &format!("job {n:04}")).await;
    }
    let mut watch = world.leases.watch_all("job");
    let first = told(&mut watch);
    assert_eq!(first.len(), 1_100);
    assert!(first.is_sorted_by_key(|(text, _)| text.clone()));
    assert_eq!(world.store.calls(Op::List), 3);
    world.play(SECOND * 15).await;
    let expired = told(&mut watch);
    assert_eq!(expired.len(), 1_100);
    assert!(expired.iter().all(|(_, standing)| *standing == Standing::Expired));
}

#[tokio::test]
async fn a_row_that_somebody_removes_is_told_once_as_never_claimed() {
    let world = World::new();
    abandoned(&world, "one").await;
    abandoned(&world, "two").await;
    let mut watch = world.leases.watch_all("");
    assert_eq!(told(&mut watch).len(), 2);
    world.database.remove_row(&name("one")).unwrap();
    for expected in [are([("one", Standing::Never)]), are([])] {
        world.play(SECOND * 2).await;
        assert_eq!(told(&mut watch), expected);
    }
    abandoned(&world, "one").await;
    world.play(SECOND * 2).await;
    assert_eq!(told(&mut watch), are([("one", Standing::Held)]));
}

#[tokio::test]
async fn a_row_that_is_removed_while_the_database_is_away_is_told_too() {
    let world = World::new();
    abandoned(&world, "one").await;
    abandoned(&world, "two").await;
    let mut watch = world.leases.watch_all("");
    assert_eq!(told(&mut watch).len(), 2);
    world.store.next(Op::List, Fault::FailBefore(ErrorKind::Unavailable));
    world.play(SECOND * 2).await;
    assert!(
        matches!(watch.next().await, Some(Watched::Away(error)) if error.kind() == ErrorKind::Unavailable)
    );
    world.database.remove_row(&name("one")).unwrap();
    world.play(SECOND * 2).await;
    let mut afterwards = told(&mut watch);
    afterwards.sort_by_key(|(text, _)| text.clone());
    assert_eq!(afterwards, are([("one", Standing::Never), ("two", Standing::Held)]));
}
