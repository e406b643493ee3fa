//! Starts a server and holds it: the process that `tests/life.rs` kills.
//!
//! Takes the product's name and whether the server is to be paused, or surrounded by all that can
//! stand around a PostgreSQL. Prints the data directory when all runs, and ends when standard input does.

use std::env;
use std::io::{self, Read};
use std::time::Duration;

use test_servers::{PgBouncer, Product, Server, Setup, Standby};

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let product = words.first().and_then(|name| Product::named(name)).expect("the name of a product");
    let how = words.get(1).map_or("running", String::as_str);
    let surrounded = how == "surrounded";
    let mut server = Server::start(product, Setup { stepped_clock: surrounded, ..Setup::default() });
    if how == "paused" {
        server.pause();
    }
    let _around = surrounded.then(|| (Standby::of(&server), PgBouncer::start(&server)));
    if surrounded {
        server.set_clock(Duration::from_secs(4_000_000_000));
        let is_set = server.ask("SELECT extract(epoch FROM clock_timestamp()) >= 4000000000");
        assert_eq!(is_set.as_deref(), Some("t"), "the clock does not move");
    }
    println!("{}", server.data().display());
    let _ = io::stdin().read(&mut [0]);
}
