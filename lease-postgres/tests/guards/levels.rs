//! Each isolation level.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use lease_core::store::{ClaimAnswer, RenewAnswer};
use lease_core::{ErrorKind, LeaseStore, Timings};
use lease_postgres::Isolation;

use crate::support::{LONG, Scene, TTL, hold, is_failed, setting};

const LEVELS: [(Isolation, &str); 3] = [
    (Isolation::ReadCommitted, "read committed"),
    (Isolation::RepeatableRead, "repeatable read"),
    (Isolation::Serializable, "serializable"),
];

#[tokio::test]
async fn each_level_commits_and_keeps_claims_off_at_once() {
    for (isolation, name) in LEVELS {
        let scene = Scene::new().await;
        let held = scene.hold("a").await;
        let guard = scene.store.guard(&held.tenure).isolation(isolation);
        let tx = guard.begin(scene.client().await).await.unwrap();
        assert_eq!(setting(&tx, "transaction_isolation").await, name);
        tx.execute(&scene.insert(1), &[]).await.unwrap();
        let renewed = scene.store.renew(held.tenure.name(), &held.tenure.holder(), TTL, LONG).await.unwrap();
        assert!(matches!(renewed, RenewAnswer::Renewed(_)), "{renewed:?}");
        scene.expire("a").await;
        assert_eq!(scene.claim("a").await, ClaimAnswer::Held);
        tx.commit().await.unwrap();
        assert!(matches!(scene.claim("a").await, ClaimAnswer::Granted(_)));
        assert_eq!(scene.rows().await, [1]);
    }
}

/// The snapshot of the two higher levels is older than the newest version of the row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_at_every_moment_fail_no_beginning_and_no_commit_at_any_level() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let (is_over, renewals) = (AtomicBool::new(false), AtomicU32::new(0));
    let renew = async || {
        while !is_over.load(Ordering::Relaxed) {
            let answer = scene.store.renew(held.tenure.name(), &held.tenure.holder(), TTL, LONG).await;
            assert!(matches!(answer, Ok(RenewAnswer::Renewed(_))), "{answer:?}");
            renewals.fetch_add(1, Ordering::Relaxed);
        }
    };
    let begin = async || {
        for (isolation, name) in LEVELS {
            let guard = scene.store.guard(&held.tenure).isolation(isolation);
            let mut client = scene.client().await;
            for n in 0..300 {
                let tx = guard.begin(client).await.unwrap_or_else(|error| panic!("{name}, {n}: {error:?}"));
                client = tx.commit().await.unwrap_or_else(|error| panic!("{name}, {n}: {error:?}"));
            }
        }
        is_over.store(true, Ordering::Relaxed);
    };
    futures_util::future::join3(renew(), renew(), begin()).await;
    assert!(renewals.into_inner() > 300, "too few renewals to be in anybody's way");
}

#[tokio::test]
async fn a_serialization_failure_at_the_commit_is_contention_that_a_retry_helps() {
    let scene = Scene::new().await;
    let (a, b) = (scene.hold("a").await, scene.hold("b").await);
    let count = format!("INSERT INTO {rows} SELECT count(*) FROM {rows}", rows = scene.rows);
    let mut open = Vec::new();
    for held in [&a, &b] {
        let guard = scene.store.guard(&held.tenure).isolation(Isolation::Serializable);
        open.push(guard.begin(scene.client().await).await.unwrap());
    }
    for tx in &open {
        tx.execute(&count, &[]).await.unwrap();
    }
    let (second, first) = (open.pop().unwrap(), open.pop().unwrap());
    first.commit().await.unwrap();
    let error = is_failed(second.commit().await, ErrorKind::Busy);
    assert!(error.retry_helps() && error.to_string().contains("40001"), "{error}");
    let guard = scene.store.guard(&b.tenure).isolation(Isolation::Serializable);
    guard.run(scene.client().await, async |tx| tx.execute(&count, &[]).await).await.unwrap();
    assert_eq!(scene.rows().await, [0, 1]);
}

/// Sleeping for longer than the ttl, while its lease is renewed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_longer_than_its_ttl_commits() {
    let scene = Scene::new().await;
    for n in 1.. {
        let held = hold(&scene.store, &format!("a{n}"), Timings::default()).await;
        let guard = scene.store.guard(&held.tenure);
        let ran = guard.run(scene.client().await, async |tx| {
            tx.execute(&scene.insert(n), &[]).await?;
            tx.batch_execute("SELECT pg_sleep(20)").await
        });
        match ran.await {
            Ok(()) => return assert_eq!(scene.rows().await, [n]),
            // The machine has slept, too.
            Err(_) if held.tenure.reason().is_some() && n < 4 => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}
