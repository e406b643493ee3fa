//! Rounds of a schedule, and names that change hands, in real time.

#[path = "common/mod.rs"]
#[expect(dead_code, reason = "other tests need more")]
mod common;
#[path = "common/database.rs"]
mod database;
#[path = "rounds/replicas.rs"]
mod replicas;
#[path = "rounds/stepped_back.rs"]
mod stepped_back;
#[path = "rounds/watcher.rs"]
mod watcher;

use std::sync::Arc;

use lease_core::LeaseStore;
use lease_postgres::PostgresStore;
use lease_testkit::{Proxy, Wire};
use test_servers::{Product, Server, Setup};

use crate::database::Database;

/// Runs each of these `async fn(place: &str)` on an empty table.
macro_rules! on_it {
    ($($module:ident: $name:ident)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let database = table().await;
            $module::$name(&database.url).await;
            database.end().await;
        })*
    };
}

on_it! {
    replicas: every_instant_is_accounted_for_though_thirty_processes_are_killed
    replicas: a_slot_finished_in_ten_milliseconds_is_refused_to_a_replica_that_comes_five_seconds_later
    replicas: instants_that_a_round_has_overrun_are_skipped_for_all_and_for_who_starts_up_afterwards
    replicas: a_replica_an_hour_ahead_makes_nobody_skip_and_one_an_hour_behind_repeats_nothing
    watcher: a_watcher_that_is_cut_off_sees_no_term_out_of_order_none_invented_and_the_last_state
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_an_hour_back_keeps_nobody_from_what_the_dead_have_and_gives_nobody_what_the_living_have() {
    let server = Server::start(Product::Postgres, Setup { stepped_clock: true, ..Setup::default() });
    let place = server.url();
    open(&place).migrate().await.unwrap();
    stepped_back::a_clock_an_hour_back_keeps_nobody_from_what_the_dead_have_and_gives_nobody_what_the_living_have(
        &place, server,
    )
    .await;
}

#[tokio::test]
async fn what_a_worker_of_the_trial_does() {
    replicas::what_a_worker_of_the_trial_does().await;
}

#[tokio::test]
async fn what_the_watcher_does() {
    watcher::what_the_watcher_does().await;
}

/// A database of its own, with the table.
async fn table() -> Database {
    let database = Database::new().await;
    open(&database.url).migrate().await.unwrap();
    database
}

/// A store of its own, as each process has one.
fn open(place: &str) -> Arc<dyn LeaseStore> {
    Arc::new(PostgresStore::open(place).unwrap())
}

/// A proxy, and the place by way of it.
fn through(place: &str) -> (Proxy, String) {
    let (login, rest) = place.split_once('@').expect("a URL with a user");
    let (address, database) = rest.split_once('/').expect("a URL with a database");
    let proxy = Proxy::start(address, Wire::Postgres).unwrap();
    let place = format!("{login}@{}/{database}?sslmode=disable", proxy.addr());
    (proxy, place)
}
