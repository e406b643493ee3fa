//! The servers that a run of tests shares.

use std::thread;
use std::time::Instant;

use test_servers::{Error, Product, Server, Setup, install, install_tools, kept};

use crate::step::{Failure, announce};

/// Servers that run as long as this value, and never longer than this process.
pub(crate) struct Servers {
    /// What tells the tests where they are.
    pub(crate) environment: Vec<(&'static str, String)>,
    _ours: Vec<Server>,
}

/// Provides a server of each product: the one that its variable names, the one that `cargo xtask db up`
/// left running, or one for this run, installed first if need be.
pub(crate) fn provide(products: &[Product], since: Instant) -> Result<Servers, Failure> {
    let mut environment = Vec::new();
    let mut ours = Vec::new();
    let mut to_start = Vec::new();
    let mut said = Vec::new();
    for product in products.iter().copied() {
        let installed = install_programs(product, since);
        if product.named_url().is_some() {
            if let Err(error) = installed {
                announce(since, &format!("tests that start a server of their own will fail: {error}"));
            }
            // Not the URL, which may hold a password.
            said.push(format!("{product} from {}", product.variable()));
            continue;
        }
        installed?;
        match kept(product)? {
            Some(kept) => {
                said.push(format!("{} at {}", kept.version, kept.url));
                environment.push((product.variable(), kept.url));
            }
            None => to_start.push(product),
        }
    }
    let starting = to_start
        .into_iter()
        .map(|product| thread::spawn(move || Server::try_start(product, Setup::default())));
    // All are begun before the first is waited for.
    for started in starting.collect::<Vec<_>>() {
        let server = started.join().map_err(|_| Failure::new("starting a server panicked"))??;
        said.push(format!("{} at {}", server.version(), server.url()));
        environment.push((server.product().variable(), server.url()));
        ours.push(server);
    }
    if !said.is_empty() {
        announce(since, &format!("servers: {}", said.join(", ")));
    }
    Ok(Servers { environment, _ours: ours })
}

/// Installs what the product's tests run, if it is missing: some start servers of their own, with other
/// settings, with a clock that jumps, behind a PgBouncer. What takes the least comes first.
fn install_programs(product: Product, since: Instant) -> Result<(), Error> {
    let say = |what: &str| announce(since, what);
    install_tools(product, &say)?;
    install(product, &say)
}
