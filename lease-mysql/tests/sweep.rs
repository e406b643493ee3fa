//! Each statement that writes, disturbed before and after each of its messages, on both servers.

#[path = "faults/support.rs"]
#[expect(dead_code, reason = "the tests of faults need more")]
mod support;

use std::net::ToSocketAddrs;
use std::process::Command;
use std::sync::Arc;

use lease_core::LeaseStore;
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::Opts;
use lease_testkit::Wire;
use lease_testkit::sweep::{self, Server};
use test_servers::Product;

use crate::support::{Sandbox, on_both};

/// How a process of the sweep's opens its store.
const URL: &str = "LEASE_SWEEP_STORE";

on_both! {
    whatever_is_cut_or_killed_at_any_message_took_place_whole_or_not_at_all_and_is_in_nobodys_way
    a_lease_cut_off_at_any_message_survives_while_it_is_renewed_and_is_free_soon_when_it_is_not
}

/// Only meant to run in a process that the sweep starts.
#[tokio::test]
async fn one_operation() {
    if sweep::is_a_program() {
        sweep::ask_as_told(open(&std::env::var(URL).unwrap())).await;
    }
}

async fn whatever_is_cut_or_killed_at_any_message_took_place_whole_or_not_at_all_and_is_in_nobodys_way(
    product: Product,
) {
    let sandbox = Sandbox::new(product).await;
    sweep::sweep(&server(&sandbox), 200).await;
    end(&sandbox).await;
}

async fn a_lease_cut_off_at_any_message_survives_while_it_is_renewed_and_is_free_soon_when_it_is_not(
    product: Product,
) {
    let sandbox = Sandbox::new(product).await;
    sweep::sweep_lives(&server(&sandbox), 15).await;
    end(&sandbox).await;
}

/// Leaves nothing on the server. A test that fails leaves its database, to be looked at.
async fn end(sandbox: &Sandbox) {
    sandbox.run(format!("DROP DATABASE {}", sandbox.database)).await;
}

/// The ways to its table.
fn server(sandbox: &Sandbox) -> Server {
    let opts = Opts::from_url(&sandbox.url).unwrap();
    let login = opts.user().unwrap().to_owned();
    let through = {
        let (url, database) = (sandbox.url.clone(), sandbox.database.clone());
        move |port: u16| {
            let sandbox = Sandbox { url: url.clone(), database: database.clone() };
            format!("{}?ssl-mode=DISABLED", sandbox.url_of(&login, Some(port)))
        }
    };
    Server {
        addr: (opts.ip_or_hostname(), opts.tcp_port()).to_socket_addrs().unwrap().next().unwrap(),
        wire: Wire::MySql,
        beside: Arc::new(sandbox.store()),
        open: Box::new({
            let through = through.clone();
            move |port| open(&through(port))
        }),
        program: Box::new(move |port| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "one_operation", "--nocapture", "--test-threads=1"]);
            command.env(URL, through(port));
            command
        }),
    }
}

fn open(url: &str) -> Arc<dyn LeaseStore> {
    Arc::new(MysqlStore::open(url).unwrap())
}
