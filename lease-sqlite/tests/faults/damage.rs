//! Rows changed by hand, tables of others, damaged pages.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;

use lease_core::store::{ConditionalAnswer, Page, RenewAnswer, SlotAnswer, Superseded, UnfinishedSlot};
use lease_core::{ErrorKind, LeaseStore, Slot, Term};
use lease_testkit::damage::every_column_with_every_value;

use crate::support::{Journal, LONG, Sandbox, TTL, granted, is_err, is_harmless, name, new_claim, take};

#[tokio::test]
async fn a_row_changed_by_hand_is_named_with_its_column() {
    for (column, value) in [
        ("holder", "'nobody'"),
        ("holder", "upper(hex(zeroblob(16))) || 'A'"),
        ("term", "0"),
        ("term", "-9223372036854775808"),
        ("ttl_ms", "-1"),
        ("slot_ms", "-1"),
        ("unfinished_slot_ms", "-9223372036854775808"),
        ("rerun_slot_ms", "-7"),
    ] {
        let sandbox = Sandbox::new(Journal::Wal).await;
        let store = sandbox.store().await;
        take(&store, "a").await;
        let change = format!("PRAGMA ignore_check_constraints = ON; UPDATE leases SET {column} = {value}");
        sandbox.other().execute_batch(&change).unwrap();
        let page = Page { limit: 10, ..Page::default() };
        for error in [
            is_harmless(store.inspect(&name("a"), LONG).await, ErrorKind::Damaged),
            is_harmless(store.list(&page, LONG).await, ErrorKind::Damaged),
        ] {
            let text = error.to_string();
            assert!(text.contains("\"a\"") && text.contains(&format!("column {column}")), "{text}");
        }
    }
}

#[tokio::test]
async fn whatever_stands_in_a_column_is_read_as_it_stands_or_said_to_be_damaged() {
    let sandbox = Sandbox::new(Journal::Wal).await;
    let store: Arc<dyn LeaseStore> = Arc::new(sandbox.store().await);
    let schema = sandbox.other();
    schema.execute_batch("PRAGMA writable_schema = ON").unwrap();
    let strict: String = schema
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 'leases'", [], |row| row.get(0))
        .unwrap();
    // What keeps most of it out.
    let lax = strict.replace("STRICT, ", "").replace(" NOT NULL", "");
    let alter = |sql: &str| {
        schema.execute("UPDATE sqlite_schema SET sql = ?1 WHERE name = 'leases'", [sql]).unwrap();
    };
    let taken = every_column_with_every_value(&store, async |name, assignment| {
        alter(&lax);
        let edit = format!("UPDATE leases SET {assignment} WHERE name = '{name}'");
        let edited =
            sandbox.other().execute_batch(&format!("PRAGMA ignore_check_constraints = ON; {edit}")).is_ok();
        alter(&strict);
        edited
    })
    .await;
    assert_eq!(taken, 14 * 12);
}

#[tokio::test]
async fn a_name_that_no_lease_can_have_is_reported_by_the_list() {
    let sandbox = Sandbox::new(Journal::Wal).await;
    let store = sandbox.store().await;
    take(&store, "a").await;
    sandbox.other().execute_batch("UPDATE leases SET name = 'two' || char(10) || 'lines'").unwrap();
    let page = Page { limit: 10, ..Page::default() };
    let error = is_harmless(store.list(&page, LONG).await, ErrorKind::Damaged);
    assert!(error.to_string().contains("column name"), "{error}");
}

#[tokio::test]
async fn the_last_term_there_is_has_no_successor() {
    let sandbox = Sandbox::new(Journal::Wal).await;
    let store = sandbox.store().await;
    take(&store, "a").await;
    let change = "UPDATE leases SET term = 9223372036854775807, expires_at_ms = 1";
    sandbox.other().execute_batch(change).unwrap();
    let before = store.inspect(&name("a"), LONG).await.unwrap().row;
    is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Damaged);
    let slot = Slot::from_millis(1).unwrap();
    is_harmless(store.claim_slot(&new_claim("a"), slot, LONG).await, ErrorKind::Damaged);
    assert_eq!(store.inspect(&name("a"), LONG).await.unwrap().row, before);
}

#[tokio::test]
async fn an_absurd_expiry_is_read_as_it_stands() {
    let sandbox = Sandbox::new(Journal::Wal).await;
    let store = sandbox.store().await;
    let held = take(&store, "a").await;
    sandbox.other().execute_batch("UPDATE leases SET expires_at_ms = 9223372036854775807").unwrap();
    let row = store.inspect(&name("a"), LONG).await.unwrap().row.unwrap();
    assert_eq!(row.expires_at.as_millis(), i64::MAX);
    assert!(matches!(store.renew(&held.name, &held.holder, TTL, LONG).await, Ok(RenewAnswer::Renewed(_))));
}

#[tokio::test]
async fn a_ttl_that_no_row_can_hold_is_refused() {
    let sandbox = Sandbox::new(Journal::Wal).await;
    let store = sandbox.store().await;
    let held = take(&store, "a").await;
    for ttl in [std::time::Duration::ZERO, std::time::Duration::MAX] {
        let mut claim = new_claim("b");
        claim.ttl = ttl;
        is_harmless(store.claim(&claim, LONG).await, ErrorKind::Invalid);
        is_harmless(store.renew(&held.name, &held.holder, ttl, LONG).await, ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn a_table_of_somebody_elses_is_neither_used_nor_altered() {
    for ddl in [
        "CREATE TABLE leases (id INTEGER PRIMARY KEY, tenant TEXT)",
        "CREATE VIEW leases AS SELECT 'a' AS name",
        "CREATE TABLE leases (name TEXT NOT NULL PRIMARY KEY, until TEXT) STRICT",
    ] {
        let sandbox = Sandbox::empty();
        sandbox.other().execute_batch(ddl).unwrap();
        let store = sandbox.store().await;
        for error in [
            is_harmless(store.migrate().await, ErrorKind::Schema),
            is_harmless(store.check().await, ErrorKind::Schema),
            is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Schema),
        ] {
            assert!(error.to_string().starts_with("leases is not a lease table"), "{error}");
        }
        let sql = "SELECT sql FROM sqlite_schema WHERE name = 'leases'";
        let found: String = sandbox.other().query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(found, ddl);
    }
}

#[tokio::test]
async fn a_trigger_on_the_table_does_not_change_what_a_statement_does() {
    let sandbox = Sandbox::new(Journal::Wal).await;
    let store = sandbox.store().await;
    let ddl = "CREATE TRIGGER no_renewals BEFORE UPDATE ON leases BEGIN SELECT raise(IGNORE); END;
               CREATE TRIGGER no_claims BEFORE INSERT ON leases BEGIN SELECT raise(FAIL, 'no'); END";
    sandbox.other().execute_batch(ddl).unwrap();
    let held = take(&store, "a").await;
    assert!(matches!(store.renew(&held.name, &held.holder, TTL, LONG).await, Ok(RenewAnswer::Renewed(_))));
    store.check().await.unwrap();
}

#[tokio::test]
async fn damaged_pages_are_reported_and_the_store_works_again_when_the_file_is_repaired() {
    let sandbox = Sandbox::new(Journal::Delete).await;
    let store = sandbox.store().await;
    for n in 0..200 {
        take(&store, &format!("n{n:03}")).await;
    }
    let whole = std::fs::read(sandbox.path()).unwrap();
    let mut file = OpenOptions::new().write(true).open(sandbox.path()).unwrap();
    file.seek(SeekFrom::Start(4096)).unwrap();
    file.write_all(&vec![0xa5; whole.len() - 4096]).unwrap();
    // A new connection, so that nothing is read from a cache.
    let late = sandbox.store().await;
    is_err(late.claim(&new_claim("n100"), LONG).await, ErrorKind::Damaged);
    is_err(late.check().await, ErrorKind::Damaged);
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&whole).unwrap();
    late.check().await.unwrap();
    granted(late.claim(&new_claim("new"), LONG).await);
}

#[tokio::test]
async fn instants_changed_by_hand_are_named_or_never_run_again() {
    let sandbox = Sandbox::new(Journal::Wal).await;
    let store = sandbox.store().await;
    let (slot, later) = (Slot::from_millis(500).unwrap(), Slot::from_millis(600).unwrap());
    let set = async |text: &str, [last, unfinished, rerun]: [i64; 3]| {
        take(&store, text).await;
        let sql = "UPDATE leases SET expires_at_ms = 1, slot_ms = ?2, unfinished_slot_ms = ?3, rerun_slot_ms = ?4 WHERE name = ?1";
        assert_eq!(sandbox.other().execute(sql, (text, last, unfinished, rerun)).unwrap(), 1);
        name(text)
    };
    for (n, (column, slots)) in [
        ("slot_ms", [-5, 0, 0]),
        ("unfinished_slot_ms", [500, i64::MIN, 0]),
        ("rerun_slot_ms", [500, 500, -7]),
    ]
    .into_iter()
    .enumerate()
    {
        let name = set(&n.to_string(), slots).await;
        let error =
            is_harmless(store.claim_slot(&new_claim(name.as_str()), later, LONG).await, ErrorKind::Damaged);
        let text = error.to_string();
        assert!(text.contains(&format!("column {column}")) && !text.contains('\n'), "{text}");
    }
    let name = set("none of them", [-5, -5, -9]).await;
    is_harmless(store.unfinished_slots(std::slice::from_ref(&name), LONG).await, ErrorKind::Damaged);
    is_harmless(store.last_slot(&name, LONG).await, ErrorKind::Damaged);
    // Later ones than the last: nothing of them is run again, and none is given up for a later claim.
    for (n, (slots, given_up)) in [
        ([500, 700, 0], None),
        ([500, 500, 700], Some(Superseded { slot, rerun: false })),
        ([500, 700, 700], None),
    ]
    .into_iter()
    .enumerate()
    {
        let name = set(&format!("ahead {n}"), slots).await;
        assert_eq!(store.unfinished_slots(std::slice::from_ref(&name), LONG).await.unwrap(), []);
        for (slot, term) in [(500, Term::FIRST), (700, Term::FIRST)] {
            let seen = UnfinishedSlot { name: name.clone(), slot: Slot::from_millis(slot).unwrap(), term };
            let answer = store.claim_rerun(&new_claim(name.as_str()), &seen, LONG).await.unwrap();
            assert_eq!(answer, ConditionalAnswer::Moved, "{slots:?}");
        }
        let granted = SlotAnswer::Granted { term: Term::new(2).unwrap(), superseded: given_up };
        assert_eq!(
            store.claim_slot(&new_claim(name.as_str()), later, LONG).await.unwrap(),
            granted,
            "{slots:?}"
        );
    }
}
