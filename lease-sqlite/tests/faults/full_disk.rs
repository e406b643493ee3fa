//! A disk without room, a real one: a small memory file system, mounted for one process.

use std::path::{Path, PathBuf};
use std::process::Command;

use lease_core::store::StoreError;
use lease_core::{Claimed, ErrorKind, GuardError, LeaseStore, Leases};
use lease_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::support::{LONG, Sandbox, granted, is_harmless, new_claim, row_term, take};

const DISK: &str = "LEASE_SQLITE_TEST_DISK";

/// Runs this very test once more where the folder is a disk of that size. `unshare` gives the
/// process mounts of its own, which end with it, and, to a user who is not root, the right to mount.
fn on_small_disk(test: &str, size: &str) -> Option<PathBuf> {
    if let Some(disk) = std::env::var_os(DISK) {
        return Some(disk.into());
    }
    let sandbox = Sandbox::empty();
    let mount = r#"mount -t tmpfs -o size="$2" none "$1" && exec "$3" --exact "$4" --nocapture"#;
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"])
        .arg(sandbox.folder())
        .arg(size)
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(DISK, sandbox.folder())
        .output()
        .expect("needs `unshare` (util-linux) to mount a small disk");
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(
        output.status.success(),
        "failed on the small disk, or user namespaces are not allowed here: {said}"
    );
    assert!(said.contains("1 passed"), "no such test: {said}");
    None
}

/// Leaves so many bytes free.
fn fill(disk: &Path, free: u64) {
    let filler = vec![0; usize::try_from(bytes_free(disk) - free).unwrap()];
    std::fs::write(disk.join("filler"), filler).unwrap();
}

fn bytes_free(disk: &Path) -> u64 {
    let stat = rustix::fs::statvfs(disk).unwrap();
    stat.f_bavail * stat.f_frsize
}

/// Claims new names until one fails; the rows make the file grow.
async fn claim_until_full(store: &SqliteStore) -> (usize, StoreError) {
    for n in 0..10_000 {
        let mut claim = new_claim(&format!("{n:0>190}"));
        claim.instance = lease_core::Instance::named(&"x".repeat(190));
        if let Err(error) = store.claim(&claim, LONG).await {
            return (n, error);
        }
    }
    panic!("ten thousand claims were granted on a full disk")
}

#[tokio::test]
async fn a_claim_on_a_full_disk_changes_nothing_and_works_again_when_there_is_room() {
    let test = "full_disk::a_claim_on_a_full_disk_changes_nothing_and_works_again_when_there_is_room";
    let Some(disk) = on_small_disk(test, "2m") else { return };
    for mode in ["wal", "delete"] {
        let path = disk.join(format!("{mode}.db"));
        Connection::open(&path).unwrap().pragma_update(None, "journal_mode", mode).unwrap();
        let store = SqliteStore::open(&path).await.unwrap();
        store.migrate().await.unwrap();
        let held = take(&store, "held").await;
        fill(&disk, 100 * 1024);
        let (granted_before, error) = claim_until_full(&store).await;
        is_harmless::<()>(Err(error), ErrorKind::Full);
        assert!(granted_before > 0);
        assert_eq!(row_term(&store, &format!("{granted_before:0>190}")).await, None, "{mode}");
        // Reads go on, so a waiter still hears that the name is held.
        assert_eq!(row_term(&store, "held").await, Some(1));
        let refused = store.claim(&new_claim("held"), LONG).await.unwrap();
        assert_eq!(refused, lease_core::store::ClaimAnswer::Held);

        std::fs::remove_file(disk.join("filler")).unwrap();
        granted(store.claim(&new_claim("room"), LONG).await);
        store.release(&held.name, &held.holder, LONG).await.unwrap();
        drop(store);
        std::fs::remove_file(&path).unwrap();
    }
}

#[tokio::test]
async fn opening_and_migrating_on_a_full_disk_say_so() {
    let test = "full_disk::opening_and_migrating_on_a_full_disk_say_so";
    let Some(disk) = on_small_disk(test, "1m") else { return };
    for mode in ["wal", "delete"] {
        let path = disk.join(format!("{mode}.db"));
        Connection::open(&path).unwrap().pragma_update(None, "journal_mode", mode).unwrap();
        fill(&disk, 0);
        let error = match SqliteStore::open(&path).await {
            Ok(store) => store.migrate().await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.kind(), ErrorKind::Full, "{mode}: {error:?}");
        std::fs::remove_file(disk.join("filler")).unwrap();
        SqliteStore::open(&path).await.unwrap().migrate().await.unwrap();
    }
}

#[tokio::test]
async fn a_guarded_commit_on_a_full_disk_has_failed() {
    let test = "full_disk::a_guarded_commit_on_a_full_disk_has_failed";
    let Some(disk) = on_small_disk(test, "2m") else { return };
    for mode in ["wal", "delete"] {
        let path = disk.join(format!("{mode}.db"));
        let mut connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", mode).unwrap();
        connection.execute_batch("CREATE TABLE other (x)").unwrap();
        let store = SqliteStore::open(&path).await.unwrap();
        store.migrate().await.unwrap();
        let leases = Leases::new(store.clone()).unwrap();
        let Claimed::Granted(lease) = leases.claim("a").await.unwrap() else { panic!("held") };
        fill(&disk, 100 * 1024);
        let tx = store.guard(&lease.tenure()).begin(&mut connection).unwrap();
        tx.execute("INSERT INTO other VALUES (zeroblob(500000))", []).unwrap();
        let answer = tx.commit();
        assert!(
            matches!(&answer, Err(GuardError::Failed(error)) if error.kind() == ErrorKind::Full),
            "{answer:?}"
        );
        let rows: i64 = connection.query_row("SELECT count(*) FROM other", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{mode}");
        std::fs::remove_file(disk.join("filler")).unwrap();
        store.guard(&lease.tenure()).begin(&mut connection).unwrap().commit().unwrap();
        drop((connection, lease, leases, store));
        for file in std::fs::read_dir(&disk).unwrap().flatten() {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
}
