//! Rounds of a schedule in real time, on MySQL and on MariaDB.

#[path = "../../lease-postgres/tests/rounds/replicas.rs"]
mod replicas;
#[path = "faults/support.rs"]
#[expect(dead_code, unused_imports, unused_macros, reason = "the tests of faults need more")]
mod support;

use std::sync::Arc;

use lease_core::LeaseStore;
use lease_mysql::MysqlStore;
use test_servers::Product;

use crate::support::Sandbox;

/// Runs each of these `async fn(place: &str)` on an empty table of both, as `mysql::name` and `mariadb::name`.
macro_rules! on_both_in_real_time {
    ($($name:ident)*) => {
        mod mysql {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let sandbox = crate::Sandbox::new(crate::Product::MySql).await;
                crate::replicas::$name(&sandbox.url).await;
                sandbox.run(format!("DROP DATABASE {}", sandbox.database)).await;
            })*
        }
        mod mariadb {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let sandbox = crate::Sandbox::new(crate::Product::MariaDb).await;
                crate::replicas::$name(&sandbox.url).await;
                sandbox.run(format!("DROP DATABASE {}", sandbox.database)).await;
            })*
        }
    };
}

on_both_in_real_time! {
    every_instant_is_accounted_for_though_thirty_processes_are_killed
    a_slot_finished_in_ten_milliseconds_is_refused_to_a_replica_that_comes_five_seconds_later
    instants_that_a_round_has_overrun_are_skipped_for_all_and_for_who_starts_up_afterwards
    a_replica_an_hour_ahead_makes_nobody_skip_and_one_an_hour_behind_repeats_nothing
}

#[tokio::test]
async fn what_a_worker_of_the_trial_does() {
    replicas::what_a_worker_of_the_trial_does().await;
}

/// A store of its own, as each process has one.
fn open(place: &str) -> Arc<dyn LeaseStore> {
    Arc::new(MysqlStore::open(place).unwrap())
}
