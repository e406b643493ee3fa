//! Tables of others, older tables, and rows changed by hand.

use std::sync::Arc;

use lease_core::store::{ConditionalAnswer, Page, RenewAnswer, SlotAnswer, Superseded, UnfinishedSlot};
use lease_core::{ErrorKind, LeaseStore, Slot, Term};
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::Pool;
use lease_mysql::mysql_async::prelude::Queryable;
use lease_testkit::damage::every_column_with_every_value;
use test_servers::Product;

use crate::support::{
    LONG, Sandbox, TTL, granted, is_err, is_harmless, name, new_claim, on_both, shared_url, take,
};

on_both! {
    a_table_of_somebody_elses_is_neither_used_nor_altered
    a_table_that_compares_otherwise_is_refused
    a_table_of_an_older_version_is_completed_and_keeps_its_rows
    a_column_that_is_missing_is_a_schema_error_until_the_table_is_migrated
    a_row_changed_by_hand_is_named_with_its_column
    whatever_stands_in_a_column_is_read_as_it_stands_or_said_to_be_damaged
    the_last_term_there_is_has_no_successor
    instants_changed_by_hand_are_named_or_never_run_again
    a_trigger_on_the_table_is_an_error_and_never_an_answer
    the_published_ddl_makes_the_table
    a_table_may_have_the_name_of_a_keyword
}

async fn empty(product: Product) -> Sandbox {
    Sandbox::empty(&shared_url(product).await).await
}

fn ddl() -> String {
    MysqlStore::schema("leases").unwrap()
}

async fn a_table_of_somebody_elses_is_neither_used_nor_altered(product: Product) {
    for (made, says) in [
        (
            "CREATE TABLE leases (id INT PRIMARY KEY, tenant VARCHAR(9))".to_owned(),
            "id is in its primary key",
        ),
        ("CREATE TABLE leases (tenant VARCHAR(9))".to_owned(), "no column \"name\""),
        ("CREATE VIEW leases AS SELECT 'a' AS name".to_owned(), "it is a view"),
        (ddl().replace("InnoDB", "MyISAM"), "its engine is MyISAM"),
    ] {
        let sandbox = empty(product).await;
        sandbox.run(&made).await;
        let shown = columns(&sandbox).await;
        let store = sandbox.store();
        for error in [
            is_harmless(store.migrate().await, ErrorKind::Schema),
            is_err(store.check().await, ErrorKind::Schema),
        ] {
            let text = error.to_string();
            assert!(text.starts_with("leases is not a lease table") && text.contains(says), "{text}");
        }
        assert_eq!(columns(&sandbox).await, shown);
    }
}

async fn columns(sandbox: &Sandbox) -> Vec<String> {
    let sql =
        "SELECT CONCAT_WS(' ', column_name, column_type, collation_name) FROM information_schema.columns
               WHERE table_schema = DATABASE() ORDER BY ordinal_position";
    sandbox.other().await.query(sql).await.unwrap()
}

async fn a_table_that_compares_otherwise_is_refused(product: Product) {
    for (from, to, says) in [
        ("name VARBINARY(191)", "name VARCHAR(191)", "name is VARCHAR(191), not VARBINARY(191)"),
        ("name VARBINARY(191)", "name VARBINARY(64)", "name is VARBINARY(64)"),
        (
            "COLLATE ascii_bin",
            "COLLATE ascii_general_ci",
            "holder is compared by ascii_general_ci, not ascii_bin",
        ),
        ("term BIGINT NOT NULL", "term INT NOT NULL", "term is INT"),
        ("term BIGINT NOT NULL", "term BIGINT UNSIGNED NOT NULL", "term is BIGINT UNSIGNED, not BIGINT"),
        ("ttl_ms BIGINT NOT NULL", "ttl_ms BIGINT", "ttl_ms can be NULL"),
        ("NOT NULL PRIMARY KEY", "NOT NULL UNIQUE, PRIMARY KEY (holder)", "holder is in its primary key"),
        (
            "NOT NULL PRIMARY KEY",
            "NOT NULL, PRIMARY KEY (name(10))",
            "primary key is only a part of column name",
        ),
        ("NOT NULL PRIMARY KEY", "NOT NULL, PRIMARY KEY (name, term)", "term is in its primary key"),
        ("NOT NULL PRIMARY KEY", "NOT NULL UNIQUE", "another unique key, name"),
        ("NOT NULL PRIMARY KEY", "NOT NULL PRIMARY KEY, UNIQUE one (address)", "another unique key, one"),
        ("NOT NULL PRIMARY KEY", "NOT NULL", "name is not its primary key"),
    ] {
        let sandbox = empty(product).await;
        assert!(ddl().contains(from));
        sandbox.run(ddl().replacen(from, to, 1)).await;
        let text = is_err(sandbox.store().check().await, ErrorKind::Schema).to_string();
        assert!(text.contains(says), "{text}");
        is_harmless(sandbox.store().migrate().await, ErrorKind::Schema);
    }
}

async fn a_table_of_an_older_version_is_completed_and_keeps_its_rows(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    let before = store.inspect(&held.name, LONG).await.unwrap().row;
    sandbox.run("ALTER TABLE leases DROP COLUMN rerun_slot_ms, DROP COLUMN version").await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = sandbox.store();
            tokio::spawn(async move { store.migrate().await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    store.check().await.unwrap();
    assert_eq!(store.inspect(&held.name, LONG).await.unwrap().row, before);
    // A later version's column is none of ours.
    sandbox.run("ALTER TABLE leases ADD COLUMN later INT NOT NULL DEFAULT 7").await;
    store.check().await.unwrap();
    take(&store, "b").await;
}

async fn a_column_that_is_missing_is_a_schema_error_until_the_table_is_migrated(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    sandbox.run("ALTER TABLE leases DROP COLUMN rerun_slot_ms").await;
    let error = is_err(store.check().await, ErrorKind::Schema);
    assert_eq!(error.to_string(), "table leases has no column \"rerun_slot_ms\"; run migrate()");
    is_harmless(store.inspect(&name("a"), LONG).await, ErrorKind::Schema);
    store.migrate().await.unwrap();
    store.check().await.unwrap();
    assert!(store.inspect(&name("a"), LONG).await.unwrap().row.is_none());
    // One without a default that nobody fills.
    sandbox.run("ALTER TABLE leases ADD COLUMN tenant INT NOT NULL").await;
    is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Schema);
    is_err(store.check().await, ErrorKind::Schema);
}

async fn a_row_changed_by_hand_is_named_with_its_column(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    for (column, value) in [
        ("holder", "'nobody'"),
        ("holder", "REPEAT('Z', 32)"),
        ("term", "0"),
        ("ttl_ms", "-1"),
        ("slot_ms", "-1"),
        ("unfinished_slot_ms", "-9223372036854775808"),
        ("rerun_slot_ms", "-7"),
    ] {
        sandbox.run("DELETE FROM leases").await;
        take(&store, "a").await;
        let mut other = sandbox.other().await;
        if matches!(column, "term" | "ttl_ms") {
            // The server refuses it itself.
            other.query_drop(format!("UPDATE leases SET {column} = {value}")).await.unwrap_err();
            continue;
        }
        other.query_drop(format!("UPDATE leases SET {column} = {value}")).await.unwrap();
        let page = Page { limit: 10, ..Page::default() };
        for error in [
            is_harmless(store.inspect(&name("a"), LONG).await, ErrorKind::Damaged),
            is_harmless(store.list(&page, LONG).await, ErrorKind::Damaged),
        ] {
            let text = error.to_string();
            assert!(text.contains("\"a\"") && text.contains(&format!("column {column}")), "{text}");
        }
    }
    for bytes in ["X'610A62'", "X'FE'", "X''"] {
        sandbox.run("DELETE FROM leases").await;
        take(&store, "a").await;
        sandbox.run(format!("UPDATE leases SET name = {bytes}")).await;
        let page = Page { limit: 10, ..Page::default() };
        let listed = store.list(&page, LONG).await;
        if bytes == "X''" {
            // Not after the empty text, so never listed.
            assert_eq!(listed.unwrap().rows, []);
            continue;
        }
        let error = is_harmless(listed, ErrorKind::Damaged);
        assert!(error.to_string().contains("column name"), "{error}");
    }
}

async fn whatever_stands_in_a_column_is_read_as_it_stands_or_said_to_be_damaged(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store: Arc<dyn LeaseStore> = Arc::new(sandbox.store());
    // What keeps most of it out.
    if product == Product::MySql {
        sandbox.run("ALTER TABLE leases DROP CHECK leases_chk_1, DROP CHECK leases_chk_2").await;
    }
    let mut nullable =
        vec!["MODIFY holder VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL".to_owned()];
    let texts = ["instance", "process", "address", "version"];
    let numbers = ["term", "claimed_at_ms", "renewed_at_ms", "expires_at_ms", "ttl_ms", "resign_term"];
    let slots = ["slot_ms", "unfinished_slot_ms", "rerun_slot_ms"];
    let default = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL DEFAULT ''";
    nullable.extend(texts.map(|column| format!("MODIFY {column} VARCHAR(191) {default}")));
    nullable.extend(numbers.map(|column| format!("MODIFY {column} BIGINT NULL DEFAULT 0")));
    nullable.extend(slots.map(|column| format!("MODIFY {column} BIGINT NULL DEFAULT 0")));
    sandbox.run(format!("ALTER TABLE leases {}", nullable.join(", "))).await;
    let others = Pool::new(sandbox.url.as_str());
    let taken = every_column_with_every_value(&store, async |name, assignment| {
        let edit = format!("UPDATE leases SET {assignment} WHERE name = '{name}'");
        others.get_conn().await.unwrap().query_drop(edit).await.is_ok()
    })
    .await;
    // Five columns of text take everything, nine of numbers the numbers, the text that is one, and NULL.
    assert_eq!(taken, 5 * 12 + 9 * 8);
}

async fn the_last_term_there_is_has_no_successor(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    take(&store, "a").await;
    sandbox.run("UPDATE leases SET term = 9223372036854775807, expires_at_ms = 1").await;
    let before = store.inspect(&name("a"), LONG).await.unwrap().row;
    is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Damaged);
    let slot = Slot::from_millis(1).unwrap();
    is_harmless(store.claim_slot(&new_claim("a"), slot, LONG).await, ErrorKind::Damaged);
    assert_eq!(store.inspect(&name("a"), LONG).await.unwrap().row, before);
    // Absurd, and read as it stands.
    sandbox.run("DELETE FROM leases").await;
    let held = take(&store, "b").await;
    sandbox.run("UPDATE leases SET expires_at_ms = 9223372036854775807").await;
    assert!(matches!(store.renew(&held.name, &held.holder, TTL, LONG).await, Ok(RenewAnswer::Renewed(_))));
}

async fn a_trigger_on_the_table_is_an_error_and_never_an_answer(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    sandbox.run("CREATE TABLE log (x INT)").await;
    sandbox.run("CREATE TRIGGER t BEFORE UPDATE ON leases FOR EACH ROW INSERT INTO log VALUES (1)").await;
    let error = is_harmless(store.check().await, ErrorKind::Schema);
    assert!(error.to_string().contains("trigger"), "{error}");
    is_err(store.renew(&held.name, &held.holder, TTL, LONG).await, ErrorKind::Schema);
    is_err(store.release(&held.name, &held.holder, LONG).await, ErrorKind::Schema);
    is_err(store.claim(&new_claim("a"), LONG).await, ErrorKind::Schema);
    sandbox.run("DROP TRIGGER t").await;
    store.check().await.unwrap();
}

async fn the_published_ddl_makes_the_table(product: Product) {
    let sandbox = empty(product).await;
    sandbox.run(ddl().trim_end().trim_end_matches(';')).await;
    let store = sandbox.store();
    store.check().await.unwrap();
    granted(store.claim(&new_claim("a"), LONG).await);
}

async fn a_table_may_have_the_name_of_a_keyword(product: Product) {
    let sandbox = empty(product).await;
    let store = MysqlStore::options().table("order").unwrap().open(&sandbox.url).unwrap();
    store.migrate().await.unwrap();
    store.check().await.unwrap();
    let held = take(&store, "a").await;
    assert!(
        store.describe().ends_with(&format!("/{} (table order)", sandbox.database)),
        "{}",
        store.describe()
    );
    let product = if product == Product::MySql { "MySQL 127" } else { "MariaDB 127" };
    assert!(store.describe().starts_with(product), "{}", store.describe());
    sandbox.run("UPDATE `order` SET expires_at_ms = 1").await;
    assert_eq!(store.renew(&held.name, &held.holder, TTL, LONG).await.unwrap(), RenewAnswer::Lost);
}

async fn instants_changed_by_hand_are_named_or_never_run_again(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let (slot, later) = (Slot::from_millis(500).unwrap(), Slot::from_millis(600).unwrap());
    let set = async |text: &str, [last, unfinished, rerun]: [i64; 3]| {
        take(&store, text).await;
        let slots = format!("slot_ms = {last}, unfinished_slot_ms = {unfinished}, rerun_slot_ms = {rerun}");
        sandbox.run(format!("UPDATE leases SET expires_at_ms = 1, {slots} WHERE name = '{text}'")).await;
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
