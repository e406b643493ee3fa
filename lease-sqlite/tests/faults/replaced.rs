//! The file at the path becomes another one, or none.

use std::fs;
use std::path::Path;

use lease_core::store::VerifyAnswer;
use lease_core::{ErrorKind, LeaseStore};

use crate::support::{
    JOURNALS, LONG, Sandbox, TTL, granted, is_err, is_harmless, name, new_claim, row_term, take,
};

/// Moves a database with what SQLite keeps beside it.
fn rename(from: &Path, to: &Path) {
    for beside in ["-wal", "-shm", "-journal"] {
        let with = |path: &Path| {
            let mut path = path.as_os_str().to_owned();
            path.push(beside);
            path
        };
        let _ = fs::remove_file(with(to));
        let _ = fs::rename(with(from), with(to));
    }
    fs::rename(from, to).unwrap();
}

#[tokio::test]
async fn the_holder_learns_that_its_file_was_replaced_and_the_next_claim_uses_the_new_one() {
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let store = sandbox.store().await;
        let held = take(&store, "a").await;
        let spare = sandbox.folder().join("spare.db");
        sandbox.make(&spare, journal).await;
        rename(&spare, &sandbox.path());

        is_harmless(store.verify(&held.name, &held.holder, LONG).await, ErrorKind::Replaced);
        is_harmless(store.renew(&held.name, &held.holder, TTL, LONG).await, ErrorKind::Replaced);
        assert_eq!(row_term(&store, "a").await, None, "{journal:?}");
        granted(store.claim(&new_claim("a"), LONG).await);
        let verified = store.verify(&held.name, &held.holder, LONG).await.unwrap();
        assert_eq!(verified, VerifyAnswer::Lost);
        // Another process sees that claim: both are in the file that is at the path.
        assert_eq!(row_term(&sandbox.store().await, "a").await, Some(1));
    }
}

#[tokio::test]
async fn a_claim_is_never_granted_in_the_file_that_was_replaced() {
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let store = sandbox.store().await;
        let spare = sandbox.folder().join("spare.db");
        sandbox.make(&spare, journal).await;
        rename(&spare, &sandbox.path());
        is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Replaced);
        granted(store.claim(&new_claim("a"), LONG).await);
        assert_eq!(row_term(&sandbox.store().await, "a").await, Some(1), "{journal:?}");
    }
}

#[tokio::test]
async fn a_file_that_was_renamed_or_deleted_is_not_used_any_more_and_made_anew_by_migrate_alone() {
    for journal in JOURNALS {
        for deleted in [false, true] {
            let sandbox = Sandbox::new(journal).await;
            let store = sandbox.store().await;
            let held = take(&store, "a").await;
            rename(&sandbox.path(), &sandbox.folder().join("elsewhere.db"));
            if deleted {
                fs::remove_file(sandbox.folder().join("elsewhere.db")).unwrap();
            }
            is_harmless(store.renew(&held.name, &held.holder, TTL, LONG).await, ErrorKind::Replaced);
            is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Unavailable);
            is_harmless(store.inspect(&name("a"), LONG).await, ErrorKind::Unavailable);
            assert!(!sandbox.path().exists());
            store.migrate().await.unwrap();
            granted(store.claim(&new_claim("a"), LONG).await);
        }
    }
}

#[tokio::test]
async fn a_file_that_comes_back_is_used_again_with_its_terms() {
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let store = sandbox.store().await;
        take(&store, "a").await;
        let away = sandbox.folder().join("away.db");
        rename(&sandbox.path(), &away);
        is_err(store.check().await, ErrorKind::Replaced);
        is_err(store.check().await, ErrorKind::Unavailable);
        rename(&away, &sandbox.path());
        store.check().await.unwrap();
        sandbox.expire(&name("a"));
        assert_eq!(granted(store.claim(&new_claim("a"), LONG).await).get(), 2, "{journal:?}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_that_is_turned_to_another_file_counts_as_a_replacement() {
    for journal in JOURNALS {
        let sandbox = Sandbox::empty();
        let (one, two) = (sandbox.folder().join("one.db"), sandbox.folder().join("two.db"));
        sandbox.make(&one, journal).await;
        sandbox.make(&two, journal).await;
        std::os::unix::fs::symlink(&one, sandbox.path()).unwrap();
        let store = sandbox.store().await;
        let held = take(&store, "a").await;
        fs::remove_file(sandbox.path()).unwrap();
        std::os::unix::fs::symlink(&two, sandbox.path()).unwrap();
        is_harmless(store.renew(&held.name, &held.holder, TTL, LONG).await, ErrorKind::Replaced);
    }
}
