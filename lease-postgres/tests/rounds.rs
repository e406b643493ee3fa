//! Rounds of a schedule in real time.

#[path = "common/mod.rs"]
#[expect(dead_code, reason = "other tests need more")]
mod common;
#[path = "common/database.rs"]
mod database;
#[path = "rounds/replicas.rs"]
mod replicas;

use std::sync::Arc;

use lease_core::LeaseStore;
use lease_postgres::PostgresStore;

use crate::database::Database;

/// Runs each of these `async fn(place: &str)` on an empty table.
macro_rules! on_it {
    ($($name:ident)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let database = table().await;
            replicas::$name(&database.url).await;
            database.end().await;
        })*
    };
}

on_it! {
    every_instant_is_accounted_for_though_thirty_processes_are_killed
    a_slot_finished_in_ten_milliseconds_is_refused_to_a_replica_that_comes_five_seconds_later
    instants_that_a_round_has_overrun_are_skipped_for_all_and_for_who_starts_up_afterwards
    a_replica_an_hour_ahead_makes_nobody_skip_and_one_an_hour_behind_repeats_nothing
}

#[tokio::test]
async fn what_a_worker_of_the_trial_does() {
    replicas::what_a_worker_of_the_trial_does().await;
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
