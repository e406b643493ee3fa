//! Installing what is missing, on Debian and its kin.

mod apt;
mod mysql;

use std::path::PathBuf;

use apt::Apt;

use crate::binaries::{self, Binaries};
use crate::{Error, Product, clock};

/// Installs the product if no version that is new enough is there. `say` is told what is being done.
///
/// PostgreSQL and MariaDB come from the system's package manager, without a server being started or
/// a cluster being made; MySQL, which Debian does not have beside MariaDB, is unpacked below `target/`.
pub fn install(product: Product, say: &dyn Fn(&str)) -> Result<(), Error> {
    if Binaries::find(product).is_ok() {
        return Ok(());
    }
    let outcome = match product {
        Product::Postgres => install_postgres(say),
        Product::MariaDb => install_first(MARIADB, say),
        Product::MySql => mysql::unpack(say),
    };
    outcome.map_err(|error| Error::new(format!("{product} is missing and was not installed: {error}")))?;
    Binaries::find(product).map(drop)
}

/// Installs what some tests need besides the servers, if it is missing: PgBouncer, libfaketime, and the
/// time zones that a server takes from its environment.
pub fn install_tools(say: &dyn Fn(&str)) -> Result<(), Error> {
    let zone = PathBuf::from("/usr/share/zoneinfo/Europe/Berlin");
    let tools = [
        ("pgbouncer", binaries::program("pgbouncer")),
        ("libfaketime", clock::library()),
        ("tzdata", zone.exists().then_some(zone)),
    ];
    for (package, found) in tools {
        if found.is_none() {
            install_first(&[&[package]], say).map_err(|error| {
                Error::new(format!(
                    "{package} is missing and was not installed: {error}; install it with the system's package manager"
                ))
            })?;
        }
    }
    Ok(())
}

/// What the packages of MariaDB's server alone have been called, with those of a program that makes
/// its data directory.
const MARIADB: &[&[&str]] = &[
    &["mariadb-server-core", "mariadb-client-core"],
    &["mariadb-server-core-10.6", "mariadb-client-core-10.6"],
];

/// Where Debian's packages look whether they are to make a database cluster when they are installed.
const NO_CLUSTER: &str = "/etc/postgresql-common/createcluster.d/lease-tests.conf";

/// Without the database cluster that Debian's package makes and starts.
fn install_postgres(say: &dyn Fn(&str)) -> Result<(), Error> {
    let apt = Apt::find()?;
    let packages = apt.available(&[&["postgresql"]], say)?;
    apt.write(NO_CLUSTER, "create_main_cluster = false\n")?;
    let installed = apt.install(packages, say);
    // What is installed after this is the machine's own affair again.
    apt.remove(NO_CLUSTER)?;
    installed
}

/// Installs the first of these sets of packages that the system knows.
fn install_first(sets: &[&[&str]], say: &dyn Fn(&str)) -> Result<(), Error> {
    let apt = Apt::find()?;
    let packages = apt.available(sets, say)?;
    apt.install(packages, say)
}
