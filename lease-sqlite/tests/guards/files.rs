//! The file at the path becomes another one, or none.

use std::fs;
use std::path::Path;
use std::time::Duration;

use lease_core::{ErrorKind, GuardError, LeaseStore, Leases, ManualClaimed};

use rusqlite::hooks::Wal;

use crate::scene::{INSERT, Scene, count, has_failed};
use crate::support::{JOURNALS, Journal, LONG, TTL, granted, new_claim};

/// Puts another lease file at the path, or none.
async fn replace(scene: &Scene, journal: Journal, by_another: bool) {
    let (path, spare) = (scene.sandbox.path(), scene.sandbox.folder().join("spare.db"));
    scene.sandbox.make(&spare, journal).await;
    for beside in ["", "-wal", "-shm", "-journal"] {
        let with = |path: &Path| format!("{}{beside}", path.display());
        let _ = fs::rename(with(&path), with(&scene.sandbox.folder().join("old.db")));
        if by_another {
            let _ = fs::rename(with(&spare), with(&path));
        }
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
            has_failed(answer, ErrorKind::Replaced);
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
            assert!(matches!(&answer, Err(GuardError::Failed(_))), "{answer:?}");
            has_failed(answer, ErrorKind::Replaced);
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

/// The store follows to the file that is there now; a connection from before does not.
#[tokio::test]
async fn a_connection_from_before_the_replacement_is_not_taken_for_one_to_the_new_file() {
    for journal in JOURNALS {
        let scene = Scene::new(journal).await;
        let mut connection = scene.connection();
        connection.execute(INSERT, []).unwrap();
        replace(&scene, journal, true).await;
        let held = scene.tenure();
        for _ in 0..2 {
            let _ = scene.store.renew(held.name(), &held.holder(), TTL, LONG).await;
        }
        let leases = Leases::builder(scene.store.clone()).build().unwrap();
        let claimed = leases.claim_manual("a").await.unwrap();
        let ManualClaimed::Granted(lease) = claimed else { panic!("held") };
        let answer = scene.store.guard(&lease.tenure()).begin(&mut connection);
        // Its row is not in the old file; with a rollback journal SQLite notices by itself.
        assert!(matches!(&answer, Err(GuardError::Lost(_))) || has_failed_as_replaced(&answer), "{answer:?}");
        drop(answer);
        assert!(connection.is_autocommit());
    }
}

fn has_failed_as_replaced<T>(answer: &Result<T, GuardError>) -> bool {
    matches!(answer, Err(GuardError::Failed(error)) if error.kind() == ErrorKind::Replaced)
}
