//! The connection cut at each message of a guarded transaction of three inserts; and futures that nobody polls.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use lease_core::{GuardError, GuardedError};
use lease_postgres::Bounds;
use lease_testkit::{Direction, Proxy};

use crate::support::{Scene, TTL, eventually, proxied};

/// How it ended, and the scene with no session left and the name free.
async fn run(
    scene: &Scene,
    client: tokio_postgres::Client,
) -> Result<(), GuardedError<tokio_postgres::Error>> {
    let held = scene.hold("a").await;
    let guard = scene.store.guard(&held.tenure);
    let ran = guard.run(client, async |tx| {
        for n in 1..=3 {
            tx.batch_execute(&scene.insert(n)).await?;
        }
        Ok(())
    });
    let ran = ran.await;
    drop((guard, held.tenure));
    held.lease.release().await.unwrap();
    ran
}

/// Messages of an undisturbed transaction, this way.
async fn messages(direction: Direction) -> u64 {
    let scene = Scene::new().await;
    let (proxy, url) = proxied(&scene.url);
    let client = scene.client_at(&url).await;
    proxy.reset();
    run(&scene, client).await.unwrap();
    let is_of_it =
        |passed: &&lease_testkit::Passed| passed.direction == direction && passed.kind != "Terminate";
    proxy.log().iter().filter(is_of_it).count() as u64
}

async fn cut(plan: fn(&Proxy, u64, Direction), n: u64, direction: Direction) -> usize {
    let scene = Scene::new().await;
    let (proxy, url) = proxied(&scene.url);
    let client = scene.client_at(&url).await;
    plan(&proxy, n, direction);
    let ran = run(&scene, client).await;
    assert_eq!(proxy.planned(), 0, "{n} {direction:?}: no cut was made");
    scene.succeed("a").await;
    let then = scene.rows().await;
    scene.no_session_is_left().await;
    assert_eq!(then, scene.rows().await, "{n} {direction:?}: committed after the successor's claim");
    let expected: &[usize] = match &ran {
        Ok(()) => &[3],
        Err(GuardedError::Guard(GuardError::Unknown(_))) => &[0, 3],
        Err(GuardedError::Work(_) | GuardedError::Guard(GuardError::Failed(_))) => &[0],
        Err(other) => panic!("{n} {direction:?}: {other:?}"),
    };
    assert!(expected.contains(&then.len()), "{n} {direction:?}: {ran:?}, {then:?}");
    then.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_at_any_message_commits_all_or_nothing_and_before_the_successors_claim() {
    let mut committed = 0;
    for direction in [Direction::ToServer, Direction::ToClient] {
        for plan in [Proxy::cut_before, Proxy::cut_after] {
            let cells = (1..=messages(direction).await).map(|n| cut(plan, n, direction));
            let rows: Vec<usize> = stream::iter(cells).buffer_unordered(4).collect().await;
            committed += rows.iter().filter(|rows| **rows == 3).count();
        }
    }
    assert!(committed > 0, "no cut came after the commit");
}

/// As a process that is paused between two statements: the server ends its transaction, and only then a successor claims.
#[tokio::test]
async fn a_future_held_until_a_successor_is_in_commits_nothing() {
    for done in 0..=3 {
        let scene = Scene::new().await;
        let held = scene.hold("a").await;
        let bounds = Bounds { idle: Some(Duration::from_secs(1)), ..Bounds::of_ttl(TTL) };
        let guard = scene.store.guard(&held.tenure).bounds(bounds);
        let tx = guard.begin(scene.client().await).await.unwrap();
        let mut inserted = Ok(());
        for n in 1..=done {
            inserted = inserted.and(tx.batch_execute(&scene.insert(n)).await);
        }
        scene.expire("a").await;
        scene.succeed("a").await;
        let mut rest = Ok(());
        for n in done + 1..=3 {
            rest = rest.and(tx.batch_execute(&scene.insert(n)).await);
        }
        assert!(done == 3 || rest.is_err());
        let committed = tx.commit().await;
        assert!(
            matches!(committed, Err(GuardError::Failed(_) | GuardError::Lost(_) | GuardError::Unknown(_))),
            "{committed:?}"
        );
        scene.no_session_is_left().await;
        assert_eq!(scene.rows().await, [0; 0]);
        eventually("the lease is the successor's", async || {
            matches!(scene.claim("a").await, lease_core::store::ClaimAnswer::Held)
        })
        .await;
    }
}
