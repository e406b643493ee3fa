//! Folders that cannot be used, or not for everything, and tables that no store has written.

use std::fs;
use std::path::Path;
use std::time::Duration;

use custom_store::FolderStore;
use lease_core::store::{Claim, Effect, ReleaseAnswer, StoreError};
use lease_core::{ErrorKind, Holder, Instance, LeaseStore, Slot};

const WITHIN: Duration = Duration::from_secs(60);

fn claim(name: &str) -> Claim {
    let instance = Instance::named("a test");
    Claim { name: name.parse().unwrap(), holder: Holder::mint().unwrap(), ttl: WITHIN * 10, instance }
}

async fn store_in(folder: &Path) -> FolderStore {
    let store = FolderStore::new(folder).unwrap();
    store.migrate().await.unwrap();
    store
}

#[tokio::test]
async fn a_folder_without_a_parent_is_told_so_by_migrate() {
    let place = tempfile::tempdir().unwrap();
    let store = FolderStore::new(place.path().join("missing/leases")).unwrap();
    let error = store.migrate().await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Invalid, Effect::None), "{error}");
    assert!(error.to_string().contains("parent"), "{error}");
}

#[tokio::test]
async fn two_rows_of_one_name_are_damage() {
    let place = tempfile::tempdir().unwrap();
    let store = store_in(place.path()).await;
    let claim = claim("nightly");
    store.claim(&claim, WITHIN).await.unwrap();
    let file = place.path().join("leases.tsv");
    let table = fs::read_to_string(&file).unwrap();
    let row = table.lines().last().unwrap();
    fs::write(&file, format!("{table}{row}\n")).unwrap();
    let before = fs::read(&file).unwrap();
    let error = store.release(&claim.name, &claim.holder, WITHIN).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Damaged, Effect::None), "{error}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn what_is_found_damaged_was_not_changed() {
    let place = tempfile::tempdir().unwrap();
    let store = store_in(place.path()).await;
    let first = claim("nightly");
    store.claim(&first, WITHIN).await.unwrap();
    store.release(&first.name, &first.holder, WITHIN).await.unwrap();
    let file = place.path().join("leases.tsv");
    let table = fs::read_to_string(&file).unwrap();
    // The last three columns are the slots.
    fs::write(&file, table.replace("\t0\t0\t0\n", "\t-1\t-1\t0\n")).unwrap();
    let damaged = |error: StoreError| {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Damaged, Effect::None), "{error}");
    };
    let slot = Slot::from_millis(1).unwrap();
    damaged(store.claim_slot(&claim("nightly"), slot, WITHIN).await.unwrap_err());
    damaged(store.unfinished_slots(std::slice::from_ref(&first.name), WITHIN).await.unwrap_err());
    damaged(store.last_slot(&first.name, WITHIN).await.unwrap_err());
    damaged(store.inspect(&first.name, WITHIN).await.unwrap_err());
    damaged(store.check().await.unwrap_err());
}

#[cfg(target_os = "linux")]
mod rights {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::thread;

    use rustix::process::{Uid, geteuid};
    use rustix::thread::set_thread_uid;

    use super::*;

    /// Runs a test as somebody whom permissions bind: root is not.
    fn as_anybody<F: Future<Output = ()>>(test: impl FnOnce(PathBuf) -> F + Send) {
        let place = tempfile::tempdir().unwrap();
        allow(place.path(), 0o777);
        let folder = place.path().join("leases");
        thread::scope(|scope| {
            scope.spawn(|| {
                if geteuid().is_root() {
                    // Of this thread and those it starts.
                    set_thread_uid(Uid::from_raw(65_534)).unwrap();
                }
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(test(folder));
            });
        });
    }

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_place_for_leases() {
        as_anybody(|folder| async move {
            let store = store_in(&folder).await;
            store.check().await.unwrap();
            allow(&folder, 0o555);
            assert_eq!(store.check().await.unwrap_err().kind(), ErrorKind::Denied);
            allow(&folder, 0o755);
            store.check().await.unwrap();
            let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
            assert_eq!(left.len(), 2, "{left:?}");
        });
    }

    #[test]
    fn what_may_not_be_on_disk_yet_is_not_answered_by_a_repetition_either() {
        as_anybody(|folder| async move {
            let store = store_in(&folder).await;
            let claim = claim("nightly");
            store.claim(&claim, WITHIN).await.unwrap();
            // Files can be made and renamed in it, but nobody can open the folder to sync it.
            allow(&folder, 0o333);
            for _ in 0..2 {
                let error = store.release(&claim.name, &claim.holder, WITHIN).await.unwrap_err();
                assert_eq!(error.effect(), Effect::Unknown, "{error}");
            }
            allow(&folder, 0o755);
            let released = store.release(&claim.name, &claim.holder, WITHIN).await.unwrap();
            assert_eq!(released, ReleaseAnswer::Released);
        });
    }
}
