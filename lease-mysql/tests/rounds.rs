//! Rounds of a schedule, and names that change hands, in real time, on MySQL and on MariaDB.

#[path = "../../lease-postgres/tests/rounds/replicas.rs"]
mod replicas;
#[path = "../../lease-postgres/tests/rounds/stepped_back.rs"]
mod stepped_back;
#[path = "faults/support.rs"]
#[expect(dead_code, reason = "the tests of faults need more")]
mod support;
#[path = "../../lease-postgres/tests/rounds/watcher.rs"]
mod watcher;

use std::sync::Arc;

use lease_core::LeaseStore;
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::Opts;
use lease_testkit::{Proxy, Wire};
use test_servers::{Product, Setup};

use crate::support::{Sandbox, on_both, private};

/// Runs each of these `async fn(place: &str)` on an empty table of both, as `mysql::name` and `mariadb::name`.
macro_rules! on_both_in_real_time {
    ($($module:ident: $name:ident)*) => {
        mod mysql {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let sandbox = crate::Sandbox::new(crate::Product::MySql).await;
                crate::$module::$name(&sandbox.url).await;
                sandbox.run(format!("DROP DATABASE {}", sandbox.database)).await;
            })*
        }
        mod mariadb {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let sandbox = crate::Sandbox::new(crate::Product::MariaDb).await;
                crate::$module::$name(&sandbox.url).await;
                sandbox.run(format!("DROP DATABASE {}", sandbox.database)).await;
            })*
        }
    };
}

on_both_in_real_time! {
    replicas: every_instant_is_accounted_for_though_thirty_processes_are_killed
    replicas: a_slot_finished_in_ten_milliseconds_is_refused_to_a_replica_that_comes_five_seconds_later
    replicas: instants_that_a_round_has_overrun_are_skipped_for_all_and_for_who_starts_up_afterwards
    replicas: a_replica_an_hour_ahead_makes_nobody_skip_and_one_an_hour_behind_repeats_nothing
    watcher: a_watcher_that_is_cut_off_sees_no_term_out_of_order_none_invented_and_the_last_state
}

/// On servers of their own.
mod with_a_clock {
    use super::{Product, Sandbox, Setup, on_both, open, private, stepped_back};

    on_both! {
        a_clock_an_hour_back_keeps_nobody_from_what_the_dead_have_and_gives_nobody_what_the_living_have
    }

    async fn a_clock_an_hour_back_keeps_nobody_from_what_the_dead_have_and_gives_nobody_what_the_living_have(
        product: Product,
    ) {
        let server = private(product, Setup { stepped_clock: true, ..Setup::default() }).await;
        let place = Sandbox::empty(&server.url()).await.url;
        open(&place).migrate().await.unwrap();
        stepped_back::a_clock_an_hour_back_keeps_nobody_from_what_the_dead_have_and_gives_nobody_what_the_living_have(
            &place, server,
        )
        .await;
    }
}

#[tokio::test]
async fn what_a_worker_of_the_trial_does() {
    replicas::what_a_worker_of_the_trial_does().await;
}

#[tokio::test]
async fn what_the_watcher_does() {
    watcher::what_the_watcher_does().await;
}

/// A store of its own, as each process has one.
fn open(place: &str) -> Arc<dyn LeaseStore> {
    Arc::new(MysqlStore::open(place).unwrap())
}

/// A proxy, which sees nothing through TLS, and the place by way of it.
fn through(place: &str) -> (Proxy, String) {
    let opts = Opts::from_url(place).unwrap();
    let (host, port, database) = (opts.ip_or_hostname(), opts.tcp_port(), opts.db_name().unwrap_or_default());
    let proxy = Proxy::start((host, port), Wire::MySql).unwrap();
    let place = format!("mysql://root@{host}:{}/{database}?ssl-mode=DISABLED", proxy.port());
    (proxy, place)
}
