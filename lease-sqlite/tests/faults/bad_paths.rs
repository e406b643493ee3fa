//! What cannot be opened, each with its own words.

use std::fs;
use std::path::Path;

use lease_core::store::StoreError;
use lease_core::{ErrorKind, LeaseStore};
use lease_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::support::{LONG, Sandbox, TTL, granted, is_harmless, is_pending, new_claim};

/// The error of opening that path, which must name it.
async fn refused(path: impl AsRef<Path>, kind: ErrorKind) -> StoreError {
    let path = path.as_ref();
    let error = is_harmless(SqliteStore::open(path).await, kind);
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error} does not name {}", path.display());
    error
}

#[tokio::test]
async fn paths_that_are_no_file_are_refused() {
    for path in ["", ":memory:", "file:leases.db", "file::memory:?cache=shared", "a\0b"] {
        let error = is_harmless(SqliteStore::open(path).await, ErrorKind::Invalid);
        assert!(!error.to_string().contains('\0'));
    }
    let sandbox = Sandbox::empty();
    refused(sandbox.folder(), ErrorKind::Invalid).await;
    refused("/dev/null", ErrorKind::Invalid).await;
    let file = sandbox.folder().join("file");
    fs::write(&file, "").unwrap();
    refused(file.join("leases.db"), ErrorKind::Invalid).await;
}

#[tokio::test]
async fn a_missing_folder_is_named_and_not_made() {
    let sandbox = Sandbox::empty();
    let folder = sandbox.folder().join("missing");
    let error = refused(folder.join("leases.db"), ErrorKind::Unavailable).await;
    assert!(error.to_string().contains("make it first"), "{error}");
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_missing_file_is_made_unless_that_is_ruled_out_and_its_table_is_not() {
    let sandbox = Sandbox::empty();
    let ruled_out = SqliteStore::options().create(false).open(sandbox.path()).await;
    is_harmless(ruled_out, ErrorKind::Unavailable);
    assert!(!sandbox.path().exists());
    let store = sandbox.store().await;
    let error = is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Schema);
    assert!(error.to_string().starts_with("table leases is missing; run migrate()"), "{error}");
    is_harmless(store.check().await, ErrorKind::Schema);
    let other = sandbox.store().await;
    store.migrate().await.unwrap();
    granted(other.claim(&new_claim("a"), LONG).await);
}

#[cfg(unix)]
#[tokio::test]
async fn a_relative_path_is_taken_from_the_folder_of_its_opening() {
    let sandbox = Sandbox::empty();
    let up: std::path::PathBuf =
        std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
    let store = SqliteStore::open(up.join(sandbox.path().strip_prefix("/").unwrap())).await.unwrap();
    assert!(store.describe().starts_with("SQLite file /"), "{}", store.describe());
    assert!(sandbox.path().exists());
}

#[tokio::test]
async fn files_that_are_no_database_are_refused_and_left_alone() {
    let sandbox = Sandbox::empty();
    let (long, short) = ("Dear diary, today I wrote a file.\n".repeat(100), "x");
    for text in [long.as_str(), short] {
        fs::write(sandbox.path(), text).unwrap();
        refused(sandbox.path(), ErrorKind::Damaged).await;
        assert_eq!(fs::read_to_string(sandbox.path()).unwrap(), text);
    }
}

#[tokio::test]
async fn a_file_with_texts_in_utf_16_is_refused() {
    let sandbox = Sandbox::empty();
    sandbox.other().execute_batch("PRAGMA encoding = 'UTF-16'; CREATE TABLE other (x)").unwrap();
    let error = refused(sandbox.path(), ErrorKind::Unsupported).await;
    assert!(error.to_string().contains("UTF-16"), "{error}");
}

#[tokio::test]
async fn a_path_with_a_line_break_is_shown_on_one_line() {
    let sandbox = Sandbox::empty();
    let path = sandbox.folder().join("two\nlines.db");
    let store = SqliteStore::open(&path).await.unwrap();
    assert!(store.describe().ends_with("two?lines.db (table leases)"), "{}", store.describe());
    assert!(path.exists());
    let missing = SqliteStore::open(sandbox.folder().join("two\nlines/leases.db")).await;
    let error = is_harmless(missing, ErrorKind::Unavailable);
    assert!(error.to_string().contains("two?lines does not exist"), "{error}");
}

#[tokio::test]
async fn the_table_has_the_name_that_was_chosen() {
    let sandbox = Sandbox::empty();
    is_harmless(SqliteStore::options().table("a; DROP TABLE b"), ErrorKind::Invalid);
    is_harmless(SqliteStore::schema("a\"b"), ErrorKind::Invalid);
    let options = SqliteStore::options().table("order").unwrap();
    let store = options.open(sandbox.path()).await.unwrap();
    sandbox.other().execute_batch(&SqliteStore::schema("order").unwrap()).unwrap();
    store.check().await.unwrap();
    granted(store.claim(&new_claim("a"), LONG).await);
    let count: i64 =
        sandbox.other().query_row(r#"SELECT count(*) FROM "order""#, [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
}

#[cfg(target_os = "linux")]
mod permissions {
    use std::os::unix::fs::PermissionsExt;

    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::*;
    use crate::support::{JOURNALS, Journal, all_closed};

    /// Runs a test on a thread, and the store's threads that it starts, to which permissions apply:
    /// root may do anything by a capability of the thread, which this one gives up.
    fn without_privileges(test: impl AsyncFnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let mut sets = capabilities(None).unwrap();
                sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
                set_capabilities(None, sets).unwrap();
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test());
            });
            thread.join().unwrap();
        });
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_that_may_not_be_written_is_refused() {
        without_privileges(async || {
            for journal in JOURNALS {
                let sandbox = Sandbox::new(journal).await;
                all_closed(&sandbox).await;
                set_mode(&sandbox.path(), 0o444);
                refused(sandbox.path(), ErrorKind::ReadOnly).await;

                let sandbox = Sandbox::new(journal).await;
                all_closed(&sandbox).await;
                set_mode(&sandbox.path(), 0o000);
                refused(sandbox.path(), ErrorKind::Denied).await;
            }
        });
    }

    #[test]
    fn a_folder_that_may_not_be_written_is_refused_or_found_out_by_check() {
        without_privileges(async || {
            let sandbox = Sandbox::empty();
            set_mode(sandbox.folder(), 0o555);
            refused(sandbox.path(), ErrorKind::Denied).await;
            set_mode(sandbox.folder(), 0o755);

            let sandbox = Sandbox::new(Journal::Wal).await;
            // As long as the log is there, nothing needs to be made beside the file. The last to
            // close it removes the log, two that close it at once do not.
            all_closed(&sandbox).await;
            sandbox.other().query_row("SELECT count(*) FROM other", [], |_| Ok(())).unwrap();
            set_mode(sandbox.folder(), 0o555);
            refused(sandbox.path(), ErrorKind::ReadOnly).await;
            set_mode(sandbox.folder(), 0o755);

            let sandbox = Sandbox::new(Journal::Delete).await;
            set_mode(sandbox.folder(), 0o555);
            let store = sandbox.store().await;
            is_harmless(store.check().await, ErrorKind::ReadOnly);
            is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::ReadOnly);
            set_mode(sandbox.folder(), 0o755);
            store.check().await.unwrap();
            granted(store.claim(&new_claim("a"), LONG).await);
        });
    }

    #[test]
    fn a_folder_that_may_not_be_searched_is_named() {
        without_privileges(async || {
            let sandbox = Sandbox::new(Journal::Wal).await;
            let store = sandbox.store().await;
            set_mode(sandbox.folder(), 0o000);
            refused(sandbox.path(), ErrorKind::Denied).await;
            is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Denied);
            set_mode(sandbox.folder(), 0o755);
            granted(store.claim(&new_claim("a"), LONG).await);
        });
    }
}

/// As containers are given single files. The test runs once more where such a mount can be made.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_mounted_by_itself_is_refused() {
    const MOUNTED: &str = "LEASE_SQLITE_TEST_MOUNTED";
    if let Some(mounted) = std::env::var_os(MOUNTED) {
        let error = refused(Path::new(&mounted), ErrorKind::Unsupported).await;
        assert!(error.to_string().contains("mount the folder"), "{error}");
        return;
    }
    let sandbox = Sandbox::new(crate::support::Journal::Wal).await;
    let mounted = sandbox.folder().join("mounted.db");
    fs::write(&mounted, "").unwrap();
    let mount = r#"mount --bind "$1" "$2" && exec "$3" --exact "$4""#;
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"])
        .args([&sandbox.path(), &mounted, &std::env::current_exe().unwrap()])
        .arg("bad_paths::a_file_mounted_by_itself_is_refused")
        .env(MOUNTED, &mounted)
        .output()
        .expect("needs `unshare` (util-linux) to mount a file");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{output:?}");
}

#[tokio::test]
async fn a_table_whose_names_are_not_told_apart_byte_by_byte_is_refused() {
    let sandbox = Sandbox::empty();
    let ddl = SqliteStore::schema("leases").unwrap();
    let ddl = ddl.replace("NOT NULL PRIMARY KEY", "NOT NULL COLLATE NOCASE PRIMARY KEY");
    sandbox.other().execute_batch(&ddl).unwrap();
    let store = sandbox.store().await;
    for refused in [store.migrate().await, store.check().await] {
        let error = is_harmless(refused, ErrorKind::Schema);
        assert!(error.to_string().contains("name is compared by NOCASE"), "{error}");
    }
}

#[tokio::test]
async fn what_check_finds_by_reading_it_finds_without_standing_in_the_line_of_writers() {
    let sandbox = Sandbox::empty();
    let store = sandbox.store().await;
    let other = sandbox.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let claim = new_claim("a");
    let mut renewal = Box::pin(store.renew(&claim.name, &claim.holder, TTL, LONG));
    assert!(is_pending(&mut renewal));
    let error = is_harmless(store.check().await, ErrorKind::Schema);
    assert!(error.to_string().contains("missing"), "{error}");
    assert!(is_pending(&mut renewal));
}

#[tokio::test]
async fn check_changes_nothing() {
    let sandbox = Sandbox::empty();
    let store = sandbox.store().await;
    store.migrate().await.unwrap();
    let connection = Connection::open(sandbox.path()).unwrap();
    let version = || connection.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0)).unwrap();
    let before = version();
    store.check().await.unwrap();
    assert_eq!(version(), before);
    let rows: i64 = connection.query_row("SELECT count(*) FROM leases", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 0);
}
