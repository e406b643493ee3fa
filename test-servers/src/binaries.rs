//! The installed programs of each product.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Product, folder};

/// The programs of one product, in a version that is new enough.
#[derive(Debug, Clone)]
pub(crate) struct Binaries {
    pub(crate) product: Product,
    pub(crate) version: Version,
    /// The server itself.
    pub(crate) server: PathBuf,
    /// The root of a MySQL that is unpacked rather than installed, to be run with its own loader.
    unpacked: Option<PathBuf>,
}

/// The version of a server, to compare and to show.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(Vec<u32>);

impl Binaries {
    /// The newest of this product that is installed, or unpacked by us.
    pub(crate) fn find(product: Product) -> Result<Self, Error> {
        let found = candidates(product)?.into_iter();
        let found = found.filter(|found| is_new_enough(product, &found.version));
        found.max_by(|a, b| a.version.cmp(&b.version)).ok_or_else(|| {
            Error::new(format!(
                "no {product} {} or later is installed; {}",
                Version(oldest(product).to_vec()),
                product.way_out()
            ))
        })
    }

    /// The MySQL below this root, where [`unpacked`] says.
    pub(crate) fn unpacked(root: &Path) -> Option<Self> {
        Self::of(Product::MySql, root.join("usr/sbin/mysqld"), Some(root.to_owned()))
    }

    fn of(product: Product, server: PathBuf, unpacked: Option<PathBuf>) -> Option<Self> {
        let mut binaries = Self { product, version: Version(Vec::new()), server, unpacked };
        let words = binaries.words(None);
        let mut asked = Command::new(&words[0]);
        asked.args(&words[1..]).arg("--version").stdin(Stdio::null());
        let said = asked.output().ok().filter(|output| output.status.success())?;
        binaries.version = stated(product, &String::from_utf8_lossy(&said.stdout))?;
        Some(binaries)
    }

    /// A program that stands beside the server.
    pub(crate) fn beside(&self, program: &str) -> PathBuf {
        self.server.with_file_name(program)
    }

    /// The command line that runs the server, with this library loaded before all others.
    pub(crate) fn words(&self, preloaded: Option<&Path>) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(root) = &self.unpacked {
            let libraries = root.join("usr/lib").join(MACHINE);
            let mut path = libraries.clone().into_os_string();
            path.push(":");
            path.push(libraries.join("mysql/private"));
            words.extend([root.join(LOADER).into_os_string(), "--library-path".into(), path]);
            if let Some(library) = preloaded {
                words.extend(["--preload".into(), library.into()]);
            }
        } else if let Some(library) = preloaded {
            // Not in the environment of what runs the server: as root that would make what the server cannot open.
            let mut variable = OsString::from("LD_PRELOAD=");
            variable.push(library);
            words.extend(["env".into(), variable]);
        }
        words.push(self.server.clone().into());
        words
    }

    /// The options without which an unpacked MySQL does not find its files.
    pub(crate) fn places(&self) -> Vec<OsString> {
        let Some(root) = &self.unpacked else { return Vec::new() };
        let option = |name: &str, path: &str| {
            let mut option = OsString::from(name);
            option.push(root.join(path));
            option
        };
        vec![option("--basedir=", "usr"), option("--lc-messages-dir=", "usr/share/mysql")]
    }
}

#[cfg(target_arch = "x86_64")]
const MACHINE: &str = "x86_64-linux-gnu";
#[cfg(target_arch = "x86_64")]
const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
#[cfg(not(target_arch = "x86_64"))]
const MACHINE: &str = "aarch64-linux-gnu";
#[cfg(not(target_arch = "x86_64"))]
const LOADER: &str = "usr/lib/ld-linux-aarch64.so.1";

/// What the backends support.
fn oldest(product: Product) -> &'static [u32] {
    match product {
        Product::Postgres => &[14],
        Product::MariaDb => &[10, 6],
        Product::MySql => &[8, 4],
    }
}

/// Whether the backends support this version.
pub(crate) fn is_new_enough(product: Product, version: &Version) -> bool {
    version.0.as_slice() >= oldest(product)
}

fn candidates(product: Product) -> Result<Vec<Binaries>, Error> {
    let (program, elsewhere) = match product {
        Product::Postgres => ("postgres", below("/usr/lib/postgresql", "bin")),
        Product::MariaDb => ("mariadbd", Vec::new()),
        Product::MySql => ("mysqld", Vec::new()),
    };
    let folders = elsewhere.into_iter().chain(search_path());
    // A link to a server does not stand beside the server's other programs.
    let programs = folders.filter_map(|folder| folder.join(program).canonicalize().ok());
    let mut found: Vec<Binaries> = programs.filter_map(|path| Binaries::of(product, path, None)).collect();
    match product {
        Product::Postgres => found.retain(|found| found.beside("initdb").is_file()),
        // Without these no data directory can be made.
        Product::MariaDb
            if ["mariadb-install-db", "my_print_defaults"]
                .iter()
                .any(|name| self::program(name).is_none()) =>
        {
            found.clear();
        }
        Product::MariaDb => {}
        Product::MySql => found.extend(Binaries::unpacked(&unpacked()?)),
    }
    Ok(found)
}

/// Where a MySQL lies that the system does not have.
pub(crate) fn unpacked() -> Result<PathBuf, Error> {
    Ok(folder::base()?.join("mysql"))
}

/// A program on the path, or where the system keeps its servers.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    search_path().map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn search_path() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Ordinary users often lack the folders of servers.
    let servers = ["/usr/local/sbin", "/usr/sbin", "/usr/libexec"].map(PathBuf::from);
    env::split_paths(&path).chain(servers).collect::<Vec<_>>().into_iter()
}

/// The folders `name` of all folders in `folder`.
pub(crate) fn below(folder: &str, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join(name)).filter(|path| path.exists()).collect()
}

/// The version in what a server answers to `--version`, if it is of this product: a program called
/// `mysqld` may be MariaDB.
fn stated(product: Product, said: &str) -> Option<Version> {
    let (before, is_it) = match product {
        Product::Postgres => ("(PostgreSQL) ", true),
        Product::MariaDb => ("Ver ", said.contains("MariaDB")),
        Product::MySql => ("Ver ", !said.contains("MariaDB")),
    };
    let (_, rest) = said.split_once(before).filter(|_| is_it)?;
    Version::leading(rest)
}

impl Version {
    /// The version that a text begins with: `9.7.4` of `9.7.4-2`.
    pub(crate) fn leading(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let parts: Vec<u32> = text[..end].split('.').map_while(|part| part.parse().ok()).collect();
        (!parts.is_empty()).then_some(Self(parts))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&parts.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(product: Product, said: &str) -> Option<String> {
        stated(product, said).map(|version| version.to_string())
    }

    #[test]
    fn each_server_says_its_version_in_its_own_way() {
        let postgres = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n";
        let maria = "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)\n";
        let mysql = "/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))\n";
        assert_eq!(shown(Product::Postgres, postgres).as_deref(), Some("15.18"));
        assert_eq!(shown(Product::Postgres, "postgres (PostgreSQL) 18beta2").as_deref(), Some("18"));
        assert_eq!(shown(Product::MariaDb, maria).as_deref(), Some("10.11.19"));
        assert_eq!(shown(Product::MySql, mysql).as_deref(), Some("9.7.4"));
    }

    #[test]
    fn a_mariadb_called_mysqld_is_no_mysql() {
        let said =
            "/usr/sbin/mysqld  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)\n";
        assert_eq!(stated(Product::MySql, said), None);
        assert_eq!(stated(Product::MariaDb, "mysqld  Ver 8.4.3 for Linux on x86_64"), None);
    }

    #[test]
    fn versions_compare_by_number() {
        let version = |text| Version::leading(text).unwrap();
        assert!(version("10.11") > version("10.6.1"));
        assert!(version("9.7.4-2") > version("8.4"));
        assert_eq!(Version::leading("none"), None);
    }
}
