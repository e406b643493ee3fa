//! Starts a server and holds it: the process that `tests/life.rs` kills.
//!
//! Takes the product's name and whether the server is to be paused, prints the data directory when
//! the server runs, and ends when standard input does.

use std::env;
use std::io::{self, Read};

use test_servers::{Product, Server, Setup};

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let product = words.first().and_then(|name| Product::named(name)).expect("the name of a product");
    let mut server = Server::start(product, Setup::default());
    if words.get(1).is_some_and(|word| word == "paused") {
        server.pause();
    }
    println!("{}", server.data().display());
    let _ = io::stdin().read(&mut [0]);
}
