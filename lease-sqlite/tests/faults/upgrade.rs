//! Tables of older and later versions, and many processes starting at once.

use std::path::PathBuf;

use lease_core::{ErrorKind, LeaseStore};
use lease_sqlite::SqliteStore;

use crate::support::{JOURNALS, LONG, Sandbox, granted, is_harmless, name, new_claim, take};

/// The table as a version without these columns would have made it.
fn older(columns: &[&str]) -> String {
    let schema = SqliteStore::schema("leases").unwrap();
    let kept = schema.lines().filter(|line| !columns.iter().any(|column| line.trim().starts_with(column)));
    kept.collect::<Vec<_>>().join("\n").replace(",\n)", "\n)")
}

/// Opens and migrates, again where a crowd on a slow disk took all the time there was.
async fn start(path: PathBuf) -> SqliteStore {
    loop {
        let started = async {
            let store = SqliteStore::open(&path).await?;
            store.migrate().await.map(|()| store)
        };
        match started.await {
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Timeout) => {}
            started => return started.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_table_is_upgraded_by_eight_at_once_and_keeps_its_rows() {
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let other = sandbox.other();
        let ddl = older(&["address", "resign_term", "unfinished_slot_ms", "rerun_slot_ms"]);
        other.execute_batch(&format!("DROP TABLE leases; {ddl}")).unwrap();
        let insert =
            "INSERT INTO leases (name, holder, term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms)
                      VALUES ('a', '00000000000000000000000000000000', 41, 1, 2, 3, 4)";
        other.execute_batch(insert).unwrap();
        let error = is_harmless(sandbox.store().await.check().await, ErrorKind::Schema);
        assert!(error.to_string().contains("has no column \"address\""), "{error}");
        is_harmless(sandbox.store().await.claim(&new_claim("a"), LONG).await, ErrorKind::Schema);

        let upgrades: Vec<_> = (0..8)
            .map(|_| {
                let path = sandbox.path();
                tokio::spawn(start(path))
            })
            .collect();
        for upgrade in upgrades {
            upgrade.await.unwrap();
        }
        let store = sandbox.store().await;
        store.check().await.unwrap();
        let row = store.inspect(&name("a"), LONG).await.unwrap().row.unwrap();
        assert_eq!((row.term.get(), row.resign_term, row.rerun_slot), (41, 0, None), "{journal:?}");
        assert_eq!(granted(store.claim(&new_claim("a"), LONG).await).get(), 42);
    }
}

#[tokio::test]
async fn a_store_that_was_open_before_the_upgrade_goes_on() {
    let sandbox = Sandbox::empty();
    sandbox.other().execute_batch(&older(&["rerun_slot_ms"])).unwrap();
    let before = sandbox.store().await;
    is_harmless(before.inspect(&name("a"), LONG).await, ErrorKind::Schema);
    granted(before.claim(&new_claim("a"), LONG).await);
    sandbox.store().await.migrate().await.unwrap();
    assert!(before.inspect(&name("a"), LONG).await.unwrap().row.is_some());
}

#[tokio::test]
async fn a_table_with_a_later_versions_columns_is_used_as_it_is() {
    let sandbox = Sandbox::empty();
    let store = sandbox.store().await;
    store.migrate().await.unwrap();
    let add = "ALTER TABLE leases ADD COLUMN later TEXT NOT NULL DEFAULT 'kept'";
    sandbox.other().execute_batch(add).unwrap();
    store.migrate().await.unwrap();
    store.check().await.unwrap();
    take(&store, "a").await;
    let later: String = sandbox.other().query_row("SELECT later FROM leases", [], |row| row.get(0)).unwrap();
    assert_eq!(later, "kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_that_start_at_once_on_no_file_share_one() {
    for _ in 0..10 {
        let sandbox = Sandbox::empty();
        let starts: Vec<_> = (0..8)
            .map(|_| {
                let path = sandbox.path();
                tokio::spawn(async move { start(path).await.claim(&new_claim("a"), LONG).await })
            })
            .collect();
        let mut granted = 0;
        for start in starts {
            granted += usize::from(start.await.unwrap().unwrap() != lease_core::store::ClaimAnswer::Held);
        }
        assert_eq!(granted, 1);
    }
}
