//! `status`, `list` and `slots`, for people and for programs.

use std::time::Duration;

use lease_core::{LeaseName, LeaseStore};
use lease_sqlite::SqliteStore;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::bench::Bench;

fn sql(bench: &Bench, statement: &str) {
    Connection::open(bench.database()).unwrap().execute_batch(statement).unwrap();
}

#[test]
fn status_says_what_is_known_of_a_lease() {
    let bench = Bench::new();
    let holder = bench.start(&["run", "x", "--ttl", "1h", "--", "sleep", "1000"]);
    bench.await_command("sleep 1000");

    let outcome = bench.run(&["status", "x"]).expect(0);
    let keys: Vec<&str> = outcome.out.lines().map(|line| line.split_once(": ").unwrap().0).collect();
    assert_eq!(
        keys,
        ["name", "state", "instance", "term", "claimed", "renewed", "expires", "ttl", "holder", "database"]
    );
    assert!(outcome.out.contains("state: held\n"), "{outcome:?}");
    assert!(outcome.out.contains(&format!(":{}\n", holder.pid())), "{outcome:?}");

    assert!(bench.run(&["status", "other"]).expect(0).out.contains("state: never claimed\n"));
}

/// Gives a name that was claimed before its slots, and a lease that is held or released.
fn set_slots(bench: &Bench, name: &str, [last, unfinished, rerun]: [i64; 3], held: bool) {
    let expires_at = if held { 32_503_680_000_000_i64 } else { 0 };
    sql(
        bench,
        &format!(
            "UPDATE leases SET slot_ms = {last}, unfinished_slot_ms = {unfinished}, rerun_slot_ms = {rerun},
             expires_at_ms = {expires_at} WHERE name = '{name}'"
        ),
    );
}

const SLOT: i64 = 1_577_836_800_000;

#[test]
fn status_says_what_became_of_the_slots() {
    let bench = Bench::new();
    bench.run(&["run", "x", "--", "true"]).expect(0);
    set_slots(&bench, "x", [SLOT, SLOT, SLOT - 500], false);
    let out = bench.run(&["status", "x"]).expect(0).out;
    let shown = "slot: 2020-01-01T00:00:00Z (cut short)\nunfinished slot: 2020-01-01T00:00:00Z\nrerun slot: 2019-12-31T23:59:59.500Z\n";
    assert!(out.contains(shown), "{out}");
}

#[test]
fn slots_shows_the_names_given_in_their_order_and_otherwise_those_that_had_any() {
    let bench = Bench::new();
    bench.run(&["migrate"]).expect(0);
    assert!(bench.run(&["slots"]).expect(0).out.contains("no slot has been claimed yet"));
    for name in ["cut short", "done", "for good", "plain", "runs"] {
        bench.run(&["run", name, "--", "true"]).expect(0);
    }
    set_slots(&bench, "cut short", [SLOT, SLOT, SLOT - 1], false);
    set_slots(&bench, "done", [SLOT + 1, 0, 0], false);
    set_slots(&bench, "for good", [SLOT, SLOT, SLOT], false);
    set_slots(&bench, "runs", [SLOT, SLOT, 0], true);

    let show = |names: &[&str]| {
        let out = bench.run(&[&["slots"], names].concat()).expect(0).out;
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        out.lines().map(words).collect::<Vec<_>>()
    };
    assert_eq!(
        show(&[]),
        [
            "NAME STATE LAST RERUN",
            "cut short cut short 2020-01-01T00:00:00Z 2019-12-31T23:59:59.999Z",
            "done finished 2020-01-01T00:00:00.001Z",
            "for good cut short, rerun used 2020-01-01T00:00:00Z 2020-01-01T00:00:00Z",
            "runs running 2020-01-01T00:00:00Z",
        ]
    );
    assert_eq!(
        show(&["runs", "other", "plain", "runs"]),
        [
            "NAME STATE LAST RERUN",
            "runs running 2020-01-01T00:00:00Z",
            "other never claimed",
            "plain no slot yet",
            "runs running 2020-01-01T00:00:00Z",
        ]
    );
}

#[test]
fn the_json_of_slots_has_the_documented_shape() {
    let bench = Bench::new();
    bench.run(&["run", "x", "--", "true"]).expect(0);
    bench.run(&["run", "plain", "--", "true"]).expect(0);
    set_slots(&bench, "x", [SLOT, SLOT, SLOT - 500], false);
    let slots = |names: &[&str]| -> Value {
        serde_json::from_str(&bench.run(&[&["slots", "--json"], names].concat()).expect(0).out).unwrap()
    };
    let x = json!({
        "name": "x",
        "slot_state": "cut_short",
        "slot": "2020-01-01T00:00:00.000Z",
        "slot_ms": SLOT,
        "unfinished_slot": "2020-01-01T00:00:00.000Z",
        "unfinished_slot_ms": SLOT,
        "rerun_slot": "2019-12-31T23:59:59.500Z",
        "rerun_slot_ms": SLOT - 500,
    });
    let without = |name: &str| {
        json!({
            "name": name,
            "slot_state": null,
            "slot": null,
            "slot_ms": null,
            "unfinished_slot": null,
            "unfinished_slot_ms": null,
            "rerun_slot": null,
            "rerun_slot_ms": null,
        })
    };
    let all = slots(&[]);
    assert_eq!(all["slots"], json!([x]));
    assert!(all["now"].is_string() && all["now_ms"].is_i64() && all["database"].is_string(), "{all}");
    assert_eq!(slots(&["plain", "x", "other"])["slots"], json!([without("plain"), x, without("other")]));
}

/// Whatever a row holds, `slots` says that it can be rerun exactly when a rerun finds it.
#[test]
fn the_state_of_a_slot_and_what_a_rerun_finds_agree() {
    let bench = Bench::new();
    let name = |slots: [i64; 3], held: bool| format!("{slots:?} {held}");
    let three = [0, SLOT, SLOT + 1];
    let all = three.map(|last| three.map(|unfinished| three.map(|rerun| [last, unfinished, rerun])));
    let all: Vec<_> =
        all.concat().concat().into_iter().flat_map(|slots| [(slots, true), (slots, false)]).collect();
    bench.run(&["run", &name(all[0].0, true), "--", "true"]).expect(0);
    for (slots, held) in &all[1..] {
        let copy = "holder, instance, term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms";
        let name = name(*slots, *held);
        sql(
            &bench,
            &format!("INSERT INTO leases (name, {copy}) SELECT '{name}', {copy} FROM leases LIMIT 1"),
        );
    }
    for (slots, held) in &all {
        set_slots(&bench, &name(*slots, *held), *slots, *held);
    }
    let names: Vec<LeaseName> =
        all.iter().map(|(slots, held)| LeaseName::new(&name(*slots, *held)).unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let found = runtime.block_on(async {
        let store = SqliteStore::open(bench.database()).await.unwrap();
        store.unfinished_slots(&names, Duration::from_secs(300)).await.unwrap()
    });
    let mut found: Vec<String> = found.iter().map(|unfinished| unfinished.name.to_string()).collect();
    let shown: Value = serde_json::from_str(&bench.run(&["slots", "--json"]).expect(0).out).unwrap();
    let shown = shown["slots"].as_array().unwrap().iter().filter(|slot| slot["slot_state"] == "cut_short");
    let mut shown: Vec<&str> = shown.map(|slot| slot["name"].as_str().unwrap()).collect();
    found.sort();
    shown.sort_unstable();
    assert!(found.len() == 3 && found == shown, "{found:?}\n{shown:?}");
}

#[test]
fn the_json_has_the_documented_shape() {
    let bench = Bench::new();
    bench.run(&["run", "x", "--", "true"]).expect(0);
    sql(
        &bench,
        "UPDATE leases SET holder = '000102030405060708090a0b0c0d0e0f', instance = 'host:1', process = 'p',
         address = 'a:1', version = '2', term = 7, claimed_at_ms = 1767225600000,
         renewed_at_ms = 1767225601500, expires_at_ms = 1767225616500, ttl_ms = 15000, resign_term = 7,
         slot_ms = 1767225540000, unfinished_slot_ms = 1767225540000, rerun_slot_ms = 0",
    );
    let mut status = bench.status("x");
    assert!(status["now"].is_string() && status["now_ms"].is_i64(), "{status}");
    assert!(status["database"].as_str().unwrap().contains("leases.db"), "{status}");
    let lease = json!({
        "name": "x",
        "state": "expired",
        "holder": "000102030405060708090a0b0c0d0e0f",
        "instance": "host:1",
        "process": "p",
        "address": "a:1",
        "version": "2",
        "term": 7,
        "claimed_at": "2026-01-01T00:00:00.000Z",
        "claimed_at_ms": 1_767_225_600_000_i64,
        "renewed_at": "2026-01-01T00:00:01.500Z",
        "renewed_at_ms": 1_767_225_601_500_i64,
        "expires_at": "2026-01-01T00:00:16.500Z",
        "expires_at_ms": 1_767_225_616_500_i64,
        "expires_in_ms": null,
        "ttl_ms": 15000,
        "resign_asked": true,
        "slot_state": "cut_short",
        "slot": "2025-12-31T23:59:00.000Z",
        "slot_ms": 1_767_225_540_000_i64,
        "unfinished_slot": "2025-12-31T23:59:00.000Z",
        "unfinished_slot_ms": 1_767_225_540_000_i64,
        "rerun_slot": null,
        "rerun_slot_ms": null,
    });
    assert_eq!(status["lease"].take(), lease);

    let list = bench.run(&["list", "--json"]).expect(0);
    let list: Value = serde_json::from_str(&list.out).unwrap();
    assert_eq!(list["leases"], json!([lease]));
    assert!(list["now"].is_string() && list["database"].is_string(), "{list}");

    assert_eq!(bench.status("other")["lease"], Value::Null);
}

#[test]
fn list_shows_every_lease_on_a_line_of_its_own_and_more_than_a_page_of_them() {
    let bench = Bench::new();
    bench.run(&["migrate"]).expect(0);
    assert!(bench.run(&["list"]).expect(0).out.contains("no lease has been taken yet"));
    bench.run(&["run", "lease 0", "--", "true"]).expect(0);
    sql(
        &bench,
        "CREATE TEMP TABLE copy AS SELECT * FROM leases;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
         INSERT INTO leases (name, holder, instance, term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms)
         SELECT 'lease ' || i, holder, instance, term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms
         FROM copy JOIN n",
    );
    let outcome = bench.run(&["list"]).expect(0);
    let lines: Vec<&str> = outcome.out.lines().collect();
    assert_eq!(lines.len(), 2_502);
    sql(&bench, "UPDATE leases SET slot_ms = 1577836800000 WHERE name <> 'lease 7'");
    assert_eq!(bench.run(&["slots"]).expect(0).out.lines().count(), 2_501);
    assert!(lines[0].starts_with("NAME "), "{}", lines[0]);
    assert!(lines[1].starts_with("lease 0 "), "{}", lines[1]);
    assert!(!outcome.out.contains('\u{1b}'), "no colour in a pipe");

    let list: Value = serde_json::from_str(&bench.run(&["list", "--json"]).expect(0).out).unwrap();
    assert_eq!(list["leases"].as_array().unwrap().len(), 2_501);
}

#[test]
fn control_characters_in_the_database_do_not_reach_the_terminal() {
    let bench = Bench::new();
    bench.run(&["run", "x", "--", "true"]).expect(0);
    sql(
        &bench,
        "UPDATE leases SET instance = 'a' || char(27) || '[2J' || char(155) || char(10) || 'b',
         address = char(7), process = '', expires_at_ms = 32503680000000",
    );
    for arguments in [
        &["list"][..],
        &["list", "--json"],
        &["status", "x"],
        &["status", "x", "--json"],
        &["run", "x", "--", "true"],
    ] {
        let outcome = bench.run(arguments);
        let raw = |c: char| c.is_control() && c != '\n';
        assert!(!outcome.out.contains(raw) && !outcome.err.contains(raw), "{arguments:?}: {outcome:?}");
        assert!(outcome.code == Some(0) || outcome.err.lines().count() == 1, "{outcome:?}");
    }
    let instance = &bench.status("x")["lease"]["instance"];
    assert_eq!(instance, "a\u{1b}[2J\u{9b}\nb", "JSON holds what the database holds");
}

#[test]
fn a_damaged_row_is_one_line_and_no_panic() {
    for damage in [
        "term = -5",
        "term = 'many'",
        "term = NULL",
        "holder = 'zz'",
        "holder = x'00ff'",
        "expires_at_ms = 'soon'",
        "ttl_ms = -1",
        "ttl_ms = 9223372036854775807",
        "claimed_at_ms = -9223372036854775808, renewed_at_ms = 9223372036854775807",
        "expires_at_ms = 9223372036854775807",
        "name = 'a' || char(10)",
        "slot_ms = -1",
        "instance = x'ff'",
    ] {
        let bench = Bench::new();
        bench.run(&["run", "x", "--", "true"]).expect(0);
        // Some of these the table refuses by itself.
        let database = Connection::open(bench.database()).unwrap();
        if database.execute_batch(&format!("UPDATE leases SET {damage}")).is_err() {
            continue;
        }
        for arguments in [
            &["list"][..],
            &["list", "--json"],
            &["status", "x"],
            &["status", "x", "--json"],
            &["slots"],
            &["slots", "x", "--json"],
        ] {
            let outcome = bench.run(arguments);
            if outcome.code == Some(0) {
                assert!(outcome.err.is_empty(), "{damage}: {outcome:?}");
            } else {
                let line = outcome.expect_line(69);
                assert!(line.contains("leases.db"), "{damage}: {line}");
            }
        }
    }
}

#[test]
fn the_schema_makes_the_table_that_is_used() {
    let bench = Bench::new();
    let schema = bench.run(&["schema"]).expect(0).out;
    assert!(!bench.database().exists());
    sql(&bench, &schema);
    bench.run(&["check"]).expect(0);
    assert_eq!(bench.run(&["run", "x", "--", "printenv", "LEASE_TERM"]).expect(0).out, "1\n");
}

#[test]
fn migrate_may_be_repeated_and_keeps_the_rows() {
    let bench = Bench::new();
    bench.run(&["run", "x", "--", "true"]).expect(0);
    for _ in 0..2 {
        assert!(bench.run(&["migrate"]).expect(0).out.contains("up to date"));
    }
    assert_eq!(bench.term("x"), 1);
}
