use std::sync::OnceLock;

use crate::error::wanted;
use crate::{Error, Product, Server, Setup, kept};

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
    static FOUND: [OnceLock<Result<Shared, Error>>; Product::ALL.len()] = [const { OnceLock::new() }; _];
    let found = FOUND[product as usize].get_or_init(|| Shared::find(product));
    wanted(found.as_ref()).url.clone()
}

struct Shared {
    url: String,
    /// Never dropped; the kernel ends it with this process.
    _ours: Option<Server>,
}

impl Shared {
    fn find(product: Product) -> Result<Self, Error> {
        if let Some(url) = product.named_url() {
            return Ok(Self { url, _ours: None });
        }
        if let Some(kept) = kept(product)? {
            return Ok(Self { url: kept.url, _ours: None });
        }
        let server = Server::try_start(product, Setup::default())?;
        Ok(Self { url: server.url(), _ours: Some(server) })
    }
}
