//! `cargo xtask db`: servers that stay between runs of tests.

use std::io::{self, Write};
use std::time::Instant;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use test_servers::{Kept, Left, Product, down, install, left, up};

use crate::step::{Failure, Tool, announce, require};

#[derive(Subcommand)]
pub(crate) enum Action {
    /// Install what is missing and start the servers; the tests find them by themselves
    Up(Products),
    /// Stop the servers that `up` started, and remove their data
    Down(Products),
    /// Say which of them run
    Status(Products),
}

#[derive(Args)]
pub(crate) struct Products {
    /// Which servers [default: all]
    #[arg(value_name = "PRODUCT", value_parser = product())]
    products: Vec<Product>,
}

fn product() -> impl TypedValueParser<Value = Product> {
    PossibleValuesParser::new(Product::ALL.map(Product::name))
        .try_map(|name| Product::named(&name).ok_or("no such product"))
}

impl Products {
    fn chosen(&self) -> &[Product] {
        if self.products.is_empty() { &Product::ALL } else { &self.products }
    }
}

pub(crate) fn run(action: &Action) -> Result<(), Failure> {
    require(TOOLS)?;
    let since = Instant::now();
    let mut rows = Vec::new();
    let mut exports = Vec::new();
    let (Action::Up(products) | Action::Down(products) | Action::Status(products)) = action;
    let outcome = products.chosen().iter().copied().try_for_each(|product| {
        let became = match action {
            Action::Up(_) => {
                install(product, &|what| announce(since, what))?;
                let kept = up(product)?;
                exports.push(format!("export {}='{}'", product.variable(), kept.url));
                Ok(kept)
            }
            Action::Down(_) => Err(match down(product)? {
                Left::Running(_) | Left::Astray => "stopped",
                Left::Nothing => "did not run",
            }),
            Action::Status(_) => match left(product)? {
                Left::Running(kept) => Ok(kept),
                Left::Astray => Err("runs where nobody finds it; `cargo xtask db down` ends it"),
                Left::Nothing => Err("does not run"),
            },
        };
        rows.push(row(product, became));
        Ok(())
    });
    let mut out = io::stdout().lock();
    // What came before a failure is said all the same. A reader that has seen enough may close the pipe.
    let _ = table(&rows).into_iter().chain(exports).try_for_each(|line| writeln!(out, "{line}"));
    outcome
}

/// What every server is started with.
pub(crate) const TOOLS: &[Tool] = &[
    Tool { program: "setpriv", probe: &["--version"], way_out: UTIL_LINUX },
    Tool { program: "setsid", probe: &["--version"], way_out: UTIL_LINUX },
];

const UTIL_LINUX: &str =
    "servers are started on Linux, with util-linux; on Debian and Ubuntu `sudo apt-get install util-linux`";

/// The product, its version, and where it is or what became of it.
fn row(product: Product, became: Result<Kept, &str>) -> [String; 3] {
    let (version, place) = match became {
        Ok(kept) => (kept.version, kept.url),
        Err(what) => (product.to_string(), what.to_owned()),
    };
    [product.name().to_owned(), version, place]
}

/// The rows as lines, each column as wide as its widest.
fn table(rows: &[[String; 3]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    rows.iter().map(|[name, version, place]| format!("{name:first$}  {version:second$}  {place}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_the_table_are_as_wide_as_their_widest() {
        let rows = [row(Product::Postgres, Err("stopped")), row(Product::MySql, Err("did not run"))];
        assert_eq!(table(&rows), ["postgres  PostgreSQL  stopped", "mysql     MySQL       did not run"]);
    }

    #[test]
    fn a_server_is_chosen_by_its_name_and_all_are_without_one() {
        let chosen = |products: &[Product]| Products { products: products.to_vec() }.chosen().to_vec();
        assert_eq!(chosen(&[]), Product::ALL);
        assert_eq!(chosen(&[Product::MySql]), [Product::MySql]);
    }
}
