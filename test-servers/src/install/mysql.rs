//! A MySQL that lies below `target/` with all its libraries: nothing of the system is changed, no
//! right of root is needed, and it stands beside a MariaDB that is installed.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::apt::{candidate, is_there, output, place};
use crate::binaries::{self, Binaries};
use crate::folder::{self, Folder};
use crate::{Error, Product};

/// What the packages of MySQL's server alone are called.
const PACKAGES: &[&str] = &["mysql-server-core", "mysql-server-core-8.4"];

/// Fetches MySQL and all that it needs, from Debian's unstable suite on Debian, from the system's own
/// suites elsewhere, and unpacks it.
pub(super) fn unpack(say: &dyn Fn(&str)) -> Result<(), Error> {
    is_there()?;
    // Of two at once one waits for the other, and then has nothing to do.
    let _lock = folder::lock(&folder::base()?.join("mysql.lock"))?;
    if Binaries::find(Product::MySql).is_ok() {
        return Ok(());
    }
    let folder = Folder::new("unpack")?;
    let home = folder.path();
    let mut apt = PrivateApt::in_folder(home)?;
    if is_debian() {
        say("looking for MySQL in Debian's unstable suite");
        apt.look_only_in_unstable(home)?;
    } else {
        say("looking for MySQL in the suites of this system");
    }
    apt.get(&["update"])?;
    let package = apt.newest()?;
    say(&format!("fetching {package} and the libraries that it needs, some 60 MB"));
    apt.get(&["--no-install-recommends", "--download-only", "install", package])?;

    let root = home.join("root");
    let archives =
        fs::read_dir(home.join("cache/archives")).map_err(Error::while_doing("look at the packages"))?;
    for archive in archives.flatten().map(|entry| entry.path()).filter(|path| is_needed(path)) {
        output(&["dpkg-deb".into(), "-x".into(), archive.into(), root.clone().into()])?;
    }
    let unpacked = binaries::unpacked()?;
    // What is there is no MySQL that can be used, so no server runs from it.
    let _ = fs::remove_dir_all(&unpacked);
    fs::rename(&root, &unpacked).map_err(Error::while_doing(format_args!("create {}", unpacked.display())))
}

/// An apt with lists, a cache and a record of installed packages of its own, the last empty: so every
/// library comes along, and the system's own state stays as it is.
struct PrivateApt {
    options: Vec<OsString>,
}

impl PrivateApt {
    fn in_folder(home: &Path) -> Result<Self, Error> {
        let mut options: Vec<OsString> = vec!["-o".into(), "APT::Sandbox::User=root".into()];
        for (name, path) in [("Dir::State::Lists", "lists"), ("Dir::Cache", "cache")] {
            let path = home.join(path);
            let downloads = if path.ends_with("lists") { "partial" } else { "archives/partial" };
            fs::create_dir_all(path.join(downloads))
                .map_err(Error::while_doing("make folders for packages"))?;
            options.extend(place(name, &path));
        }
        let installed = home.join("installed");
        fs::write(&installed, "").map_err(Error::while_doing("make folders for packages"))?;
        options.extend(place("Dir::State::status", &installed));
        Ok(Self { options })
    }

    /// Forgets the system's sources for the unstable suite of the same mirror.
    fn look_only_in_unstable(&mut self, home: &Path) -> Result<(), Error> {
        let mut mirror = debian_mirror(&[])?;
        if mirror.is_none() {
            // The system has no lists yet, which say whose a source is.
            self.get(&["update"])?;
            mirror = debian_mirror(&self.options)?;
        }
        let mirror =
            mirror.ok_or_else(|| Error::new("none of this system's package sources is Debian's own"))?;
        let sources = home.join("sources.list");
        let source = format!("deb [signed-by={KEYRING}] {mirror} unstable main\n");
        fs::write(&sources, source).map_err(Error::while_doing("make a list of sources"))?;
        self.options.extend(place("Dir::Etc::sourcelist", &sources));
        self.options.extend(place("Dir::Etc::sourceparts", Path::new("/dev/null")));
        Ok(())
    }

    /// The package with the newest MySQL, if that is new enough.
    fn newest(&self) -> Result<&'static str, Error> {
        let known = PACKAGES.iter().filter_map(|name| Some((candidate(&self.options, name)?, *name)));
        let newest = known.filter(|(version, _)| binaries::is_new_enough(Product::MySql, version)).max();
        newest
            .map(|(_, name)| name)
            .ok_or_else(|| Error::new("the package sources have none that is new enough"))
    }

    fn get(&self, arguments: &[&str]) -> Result<(), Error> {
        let mut words: Vec<OsString> = vec!["apt-get".into()];
        words.extend_from_slice(&self.options);
        words.extend(["-qq", "-y"].iter().chain(arguments).map(OsString::from));
        output(&words).map(drop)
    }
}

/// The keys that Debian signs its suites with, as its package of keys installs them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Where this machine gets Debian's packages from.
fn debian_mirror(options: &[OsString]) -> Result<Option<String>, Error> {
    let mut words: Vec<OsString> = vec!["apt-get".into()];
    words.extend_from_slice(options);
    words.extend(
        ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"]
            .map(OsString::from),
    );
    let listed = output(&words)?;
    Ok(String::from_utf8_lossy(&listed.stdout).lines().next().map(ToOwned::to_owned))
}

fn is_debian() -> bool {
    fs::read_to_string("/etc/os-release").is_ok_and(|text| text.lines().any(|line| line == "ID=debian"))
}

/// Perl comes along for scripts that nobody runs here.
fn is_needed(archive: &Path) -> bool {
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    archive.extension().is_some_and(|extension| extension == "deb")
        && !["perl", "libperl"].iter().any(|perl| name.starts_with(perl))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_but_perl_is_unpacked() {
        let needed = |name: &str| is_needed(Path::new(name));
        assert!(needed("a/mysql-server-core_9.7.4-2_amd64.deb"));
        assert!(needed("a/libc6_2.43-7_amd64.deb"));
        assert!(!needed("a/perl-base_5.42.3-1_amd64.deb"));
        assert!(!needed("a/libperl5.42_5.42.3-1_amd64.deb"));
        assert!(!needed("a/lock"));
    }
}
