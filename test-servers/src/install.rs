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
/// With `LEASE_TEST_INSTALL=no` in the environment nothing is installed.
pub fn install(product: Product, say: &dyn Fn(&str)) -> Result<(), Error> {
    if Binaries::find(product).is_ok() {
        return Ok(());
    }
    let outcome = match product {
        Product::Postgres => install_first(&[&["postgresql"]], &without_cluster(CLUSTERS), say),
        Product::MariaDb => install_first(MARIADB, "", say),
        Product::MySql => mysql::unpack(say),
    };
    outcome.map_err(|error| not_installed(&product.to_string(), &product.by_hand(), &error))?;
    Binaries::find(product).map(drop)
}

/// Installs what some tests of the product need besides its server, if it is missing: libfaketime, the time
/// zones that a server takes from its environment, and for PostgreSQL PgBouncer. All come from the system's
/// package manager; no service is started or will be.
pub fn install_tools(product: Product, say: &dyn Fn(&str)) -> Result<(), Error> {
    let zone = PathBuf::from("/usr/share/zoneinfo/Europe/Berlin");
    let mut tools = vec![("libfaketime", clock::library()), ("tzdata", zone.exists().then_some(zone))];
    if product == Product::Postgres {
        tools.push(("pgbouncer", binaries::program("pgbouncer")));
    }
    for (package, found) in tools {
        if found.is_none() {
            let around = if package == "pgbouncer" { without_service(package) } else { String::new() };
            install_package(package, &around, say)?;
        }
    }
    Ok(())
}

/// Installs a program from the system's package, if it is missing. The package's service is not started, nor will it be
/// with the machine.
pub fn install_program(program: &str, package: &str, service: &str, say: &dyn Fn(&str)) -> Result<(), Error> {
    match binaries::program(program) {
        Some(_) => Ok(()),
        None => install_package(package, &without_service(service), say),
    }
}

fn install_package(package: &str, before: &str, say: &dyn Fn(&str)) -> Result<(), Error> {
    install_first(&[&[package]], before, say).map_err(|error| {
        let by_hand = format!("on Debian and Ubuntu `sudo apt-get install {package}`");
        not_installed(package, &by_hand, &error)
    })
}

/// The way out comes before what apt says, which may take many lines.
fn not_installed(what: &str, by_hand: &str, error: &Error) -> Error {
    Error::new(format!("{what} is missing; {by_hand}. Installing it failed: {error}"))
}

/// What the packages of MariaDB's server alone have been called, with those of a program that makes
/// its data directory.
const MARIADB: &[&[&str]] = &[
    &["mariadb-server-core", "mariadb-client-core"],
    &["mariadb-server-core-10.6", "mariadb-client-core-10.6"],
];

/// Where Debian's packages look whether they are to make a database cluster when they are installed.
const CLUSTERS: &str = "/etc/postgresql-common/createcluster.d/lease-tests.conf";

/// Keeps Debian's package from making and starting a cluster. What is installed after this is the machine's
/// own affair again, also when it is interrupted.
fn without_cluster(file: &str) -> String {
    format!(
        "file='{file}'\n\
         trap 'rm -f \"$file\"' EXIT\n\
         trap 'exit 1' INT TERM HUP\n\
         mkdir -p \"${{file%/*}}\" && echo 'create_main_cluster = false' >\"$file\" || exit"
    )
}

/// Debian's packages would have their services start with the machine.
fn without_service(service: &str) -> String {
    format!(
        "trap '{{ systemctl disable {service} || update-rc.d {service} disable; }} >/dev/null 2>&1' EXIT\n\
         trap 'exit 1' INT TERM HUP"
    )
}

/// Installs the first of these sets of packages that the system knows, with this shell script before.
fn install_first(sets: &[&[&str]], before: &str, say: &dyn Fn(&str)) -> Result<(), Error> {
    let apt = Apt::find()?;
    let packages = apt.available(sets, say)?;
    apt.install(packages, before, say)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::folder::Folder;

    #[test]
    fn postgres_is_installed_without_a_cluster_and_nothing_is_left_of_that_however_it_ends() {
        let folder = Folder::new("cluster").unwrap();
        let (file, seen) = (folder.path().join("etc/no-cluster"), folder.path().join("seen"));
        let before = without_cluster(file.to_str().unwrap());
        for (installing, ends_well) in [("", true), ("exit 3", false), ("kill $PPID", false)] {
            let installing = format!("cat '{}' >'{}'; {installing}", file.display(), seen.display());
            let words = apt::after(&before, &["sh", "-c", &installing]);
            let status = Command::new(words[0]).args(&words[1..]).status().unwrap();
            assert_eq!(status.success(), ends_well, "{installing}");
            assert_eq!(fs::read_to_string(&seen).unwrap(), "create_main_cluster = false\n");
            assert!(!file.exists(), "{installing}");
        }
    }

    #[test]
    fn what_was_not_installed_comes_with_the_way_out_first() {
        let error = not_installed("PostgreSQL", "on Debian do this", &Error::new("no network\nat all"));
        let said = error.to_string();
        assert_eq!(
            said,
            "PostgreSQL is missing; on Debian do this. Installing it failed: no network\nat all"
        );
    }
}
