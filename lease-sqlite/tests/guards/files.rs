//! The file at the path becomes another one, or none.

use std::fs;
use std::path::Path;
use std::time::Duration;

use lease_core::{ErrorKind, GuardError, LeaseStore, LossReason};

use rusqlite::hooks::Wal;

use crate::scene::{INSERT, Scene, count, has_failed};
use crate::support::{JOURNALS, Journal, LONG, TTL, granted, new_claim};

/// Puts another lease file at the path, or none.
async fn replace(scene: &Scene, journal: Journal, by_another: bool) {
    if by_another {
        scene.sandbox.make(&scene.sandbox.folder().join("spare.db"), journal).await;
    }
    put_in_place(scene);
}

/// The spare file, if there is one.
fn put_in_place(scene: &Scene) {
    let (path, spare) = (scene.sandbox.path(), scene.sandbox.folder().join("spare.db"));
    for beside in ["", "-wal", "-shm", "-journal"] {
        let with = |path: &Path| format!("{}{beside}", path.display());
        let _ = fs::rename(with(&path), with(&scene.sandbox.folder().join("old.db")));
        let _ = fs::rename(with(&spare), with(&path));
    }
}

#[tokio::test]
async fn a_file_that_was_replaced_is_found_before_the_first_statement() {
    for journal in JOURNALS {
        for by_another in [true, false] {
            let scene = Scene::new(journal).await;
            let mut connection = scene.connection();
            connection.execute(INSERT, []).unwrap();
            replace(&scene, journal, by_another).await;
            let answer = scene.store.guard(&scene.tenure()).begin(&mut connection);
            was_replaced(answer);
            assert!(connection.is_autocommit());
        }
    }
}

#[tokio::test]
async fn a_file_that_is_replaced_within_the_transaction_is_found_before_the_commit() {
    for journal in JOURNALS {
        for by_another in [true, false] {
            let scene = Scene::new(journal).await;
            let mut connection = scene.connection();
            let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
            tx.execute(INSERT, []).unwrap();
            replace(&scene, journal, by_another).await;
            if by_another {
                granted(scene.sandbox.store().await.claim(&new_claim("a"), LONG).await);
            }
            let answer = tx.commit();
            was_replaced(answer);
            assert_eq!(count(&connection), 0, "{journal:?}");
        }
    }
}

/// In the moment between the commit and the look at the file behind it.
#[tokio::test]
async fn a_commit_in_a_file_that_is_replaced_at_that_moment_is_not_answered_as_one() {
    let scene = Scene::new(Journal::Wal).await;
    let (path, old) = (scene.sandbox.path(), scene.sandbox.folder().join("old.db"));
    let mut connection = scene.connection();
    connection
        .wal_hook(Some(move |_: &mut Wal, _| {
            fs::rename(&path, &old).unwrap();
            Ok(())
        }))
        .unwrap();
    let deadline = scene.tenure().deadline();
    scene.clock.advance(Duration::from_secs(1));
    let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
    tx.execute(INSERT, []).unwrap();
    match tx.commit() {
        Err(GuardError::Unknown(error)) => assert_eq!(error.kind(), ErrorKind::Replaced),
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.tenure().deadline(), deadline, "it counts as a renewal");
}

/// The store follows to the file that is there now, where the same lease is held; a connection from before does not.
#[tokio::test]
async fn a_connection_from_before_the_replacement_by_a_copy_is_not_taken_for_one_to_the_new_file() {
    for journal in JOURNALS {
        let scene = Scene::new(journal).await;
        let mut connection = scene.connection();
        connection.execute(INSERT, []).unwrap();
        let path = scene.sandbox.folder().join("spare.db");
        connection.execute("VACUUM INTO ?1", [path.to_str().unwrap()]).unwrap();
        put_in_place(&scene);
        let held = scene.tenure();
        // The first finds out.
        let _ = scene.store.renew(held.name(), &held.holder(), TTL, LONG).await;
        scene.store.renew(held.name(), &held.holder(), TTL, LONG).await.unwrap();
        has_failed(scene.store.guard(&held).begin(&mut connection), ErrorKind::Invalid);
        assert!(connection.is_autocommit());
        let mut anew = scene.connection();
        let tx = scene.store.guard(&held).begin(&mut anew).unwrap();
        tx.execute(INSERT, []).unwrap();
        tx.commit().unwrap();
        assert_eq!((scene.rows(), count(&connection)), (2, 1), "{journal:?}");
    }
}

/// The store has followed by the time of the look.
#[tokio::test]
async fn a_replacement_by_a_copy_within_the_transaction_is_found_though_the_store_has_followed() {
    for journal in JOURNALS {
        let scene = Scene::new(journal).await;
        let mut connection = scene.connection();
        connection.execute(INSERT, []).unwrap();
        let path = scene.sandbox.folder().join("spare.db");
        connection.execute("VACUUM INTO ?1", [path.to_str().unwrap()]).unwrap();
        let held = scene.tenure();
        let tx = scene.store.guard(&held).begin(&mut connection).unwrap();
        tx.execute(INSERT, []).unwrap();
        put_in_place(&scene);
        let _ = scene.store.renew(held.name(), &held.holder(), TTL, LONG).await;
        scene.store.renew(held.name(), &held.holder(), TTL, LONG).await.unwrap();
        has_failed(tx.commit(), ErrorKind::Invalid);
        assert_eq!((scene.rows(), count(&connection)), (1, 1), "{journal:?}");
    }
}

#[track_caller]
fn was_replaced<T: std::fmt::Debug>(answer: Result<T, GuardError>) {
    match answer {
        Err(GuardError::Lost(LossReason::Replaced(_))) => {}
        other => panic!("{other:?}"),
    }
}
