//! Each statement that writes, disturbed before and after each of its messages.

#[path = "common/mod.rs"]
#[expect(dead_code, reason = "other tests need more")]
mod common;

use std::net::ToSocketAddrs;
use std::process::Command;
use std::sync::Arc;

use lease_core::LeaseStore;
use lease_postgres::PostgresStore;
use lease_testkit::Wire;
use lease_testkit::sweep::{self, Server};

use crate::common::{Sql, shared, unique};

/// How a process of the sweep's opens its store: the URL and the table.
const STORE: &str = "LEASE_SWEEP_STORE";

/// Only meant to run in a process that the sweep starts.
#[tokio::test]
async fn one_operation() {
    if !sweep::is_a_program() {
        return;
    }
    let store = std::env::var(STORE).unwrap();
    let (url, table) = store.split_once(' ').unwrap();
    sweep::ask_as_told(open(url, table)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_cut_or_killed_at_any_message_took_place_whole_or_not_at_all_and_is_in_nobodys_way() {
    let (server, table) = server().await;
    sweep::sweep(&server, 440).await;
    drop_table(&table).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_cut_off_at_any_message_survives_while_it_is_renewed_and_is_free_soon_when_it_is_not() {
    let (server, table) = server().await;
    sweep::sweep_lives(&server, 25).await;
    drop_table(&table).await;
}

/// A table of a test's own, and the ways to it.
async fn server() -> (Server, String) {
    let (url, table) = (shared(), unique("leases"));
    let beside = open(&url, &table);
    beside.migrate().await.unwrap();
    let config: tokio_postgres::Config = url.parse().unwrap();
    let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else {
        panic!("a test server is reached by TCP")
    };
    let place = format!("{host}:{}", config.get_ports()[0]);
    let addr = place.to_socket_addrs().unwrap().next().unwrap();
    let through =
        move |port: u16| format!("{}?sslmode=disable", url.replace(&place, &format!("127.0.0.1:{port}")));
    let server = Server {
        addr,
        wire: Wire::Postgres,
        beside,
        open: Box::new({
            let (through, table) = (through.clone(), table.clone());
            move |port| open(&through(port), &table)
        }),
        program: Box::new({
            let table = table.clone();
            move |port| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--exact", "one_operation", "--nocapture", "--test-threads=1"]);
                command.env(STORE, format!("{} {table}", through(port)));
                command
            }
        }),
    };
    (server, table)
}

/// Leaves nothing on the server. A test that fails leaves its table, to be looked at.
async fn drop_table(table: &str) {
    Sql::connect(&shared()).await.run(&format!("DROP TABLE {table}")).await;
}

fn open(url: &str, table: &str) -> Arc<dyn LeaseStore> {
    Arc::new(PostgresStore::options().table(table).unwrap().open(url).unwrap())
}
