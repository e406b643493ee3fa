//! The file at the path becomes another one, or none.

use std::fs;
use std::path::Path;
use std::time::Duration;

use lease_core::store::VerifyAnswer;
use lease_core::{ErrorKind, LeaseStore};
use lease_sqlite::SqliteStore;

use crate::support::{
    JOURNALS, Journal, LONG, Sandbox, TTL, granted, is_err, is_harmless, is_pending, name, new_claim,
    row_term, take,
};

/// Moves a database with what SQLite keeps beside it.
pub(crate) fn rename(from: &Path, to: &Path) {
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

#[tokio::test]
async fn a_claim_that_waited_for_the_lock_is_not_granted_in_a_file_that_was_replaced_meanwhile() {
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let store = sandbox.store().await;
        let spare = sandbox.folder().join("spare.db");
        sandbox.make(&spare, journal).await;
        let other = sandbox.other();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (first, second) = (new_claim("a"), new_claim("b"));
        let mut first = Box::pin(store.claim(&first, LONG));
        for _ in 0..3 {
            assert!(is_pending(&mut first));
            store.inspect(&name("a"), LONG).await.unwrap();
        }
        // By the time this one is given up, the first has been compared and waits for the lock.
        let error = store.claim(&second, Duration::from_secs(1)).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Busy | ErrorKind::Timeout), "{error:?}");

        rename(&sandbox.path(), &sandbox.folder().join("old.db"));
        rename(&spare, &sandbox.path());
        granted(sandbox.store().await.claim(&new_claim("a"), LONG).await);
        other.execute_batch("ROLLBACK").unwrap();
        is_err(first.await, ErrorKind::Replaced);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_with_two_names_is_refused_and_not_used_while_it_has_them() {
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let store = sandbox.store().await;
        let held = take(&store, "a").await;
        let link = sandbox.folder().join("link.db");
        fs::hard_link(sandbox.path(), &link).unwrap();
        for name in [&link, &sandbox.path()] {
            let error = is_harmless(SqliteStore::open(name).await, ErrorKind::Unsupported);
            assert!(error.to_string().contains("second name"), "{error}");
        }
        is_harmless(store.claim(&new_claim("b"), LONG).await, ErrorKind::Unsupported);
        is_harmless(store.renew(&held.name, &held.holder, TTL, LONG).await, ErrorKind::Unsupported);
        fs::remove_file(&link).unwrap();
        store.renew(&held.name, &held.holder, TTL, LONG).await.unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_log_that_is_gone_or_another_one_counts_as_a_replacement() {
    for another in [false, true] {
        let sandbox = Sandbox::new(Journal::Wal).await;
        let store = sandbox.store().await;
        let held = take(&store, "a").await;
        let log = sandbox.folder().join("leases.db-wal");
        let copy = sandbox.folder().join("copy");
        fs::copy(&log, &copy).unwrap();
        fs::remove_file(&log).unwrap();
        if another {
            fs::rename(&copy, &log).unwrap();
        }
        let renewed = store.renew(&held.name, &held.holder, TTL, LONG).await;
        let error = is_harmless(renewed, ErrorKind::Replaced);
        assert!(error.to_string().contains("-wal"), "{error}");
    }
}

/// The connection is kept when nobody can tell: it alone knows which file it was.
#[cfg(unix)]
#[tokio::test]
async fn a_file_that_was_out_of_reach_and_came_back_as_another_one_is_told() {
    let sandbox = Sandbox::new(Journal::Delete).await;
    let store = sandbox.store().await;
    let held = take(&store, "a").await;
    let spare = sandbox.folder().join("spare.db");
    sandbox.make(&spare, Journal::Delete).await;
    rename(&sandbox.path(), &sandbox.folder().join("old.db"));
    // A link to itself.
    std::os::unix::fs::symlink(sandbox.path(), sandbox.path()).unwrap();
    is_harmless(store.renew(&held.name, &held.holder, TTL, LONG).await, ErrorKind::Unavailable);
    fs::remove_file(sandbox.path()).unwrap();
    rename(&spare, &sandbox.path());
    is_harmless(store.renew(&held.name, &held.holder, TTL, LONG).await, ErrorKind::Replaced);
}
