use std::env;
use std::sync::OnceLock;

use crate::{Error, Product, Server, Setup};

/// The URL of a server of this product that all tests may use at once, each with tables of its own:
/// no settings of the whole server are changed on it, and it is never stopped.
///
/// The first of: the one that the product's [variable](Product::variable) names, the one that
/// `cargo xtask db up` left running, one that this process starts and that dies with it.
///
/// # Panics
///
/// If there is none; the message says what to do.
#[track_caller]
pub fn shared(product: Product) -> String {
    static OURS: [OnceLock<Result<Server, Error>>; Product::ALL.len()] = [const { OnceLock::new() }; _];
    if let Ok(url) = env::var(product.variable()) {
        return url;
    }
    let ours = OURS[product as usize].get_or_init(|| Server::try_start(product, Setup::default()));
    ours.as_ref().unwrap_or_else(|error| panic!("{error}")).url()
}
