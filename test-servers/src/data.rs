//! New data directories: each version's is made once and then copied, which takes a tenth of the time.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use crate::binaries::Binaries;
use crate::folder::{self, Folder};
use crate::process::{Life, command, other_user, run};
use crate::{Error, Product, zones};

/// Makes a new data directory at `data`.
pub(crate) fn create(binaries: &Binaries, data: &Path) -> Result<(), Error> {
    let (product, version) = (binaries.product, &binaries.version);
    let base = folder::base()?;
    let template = base.join(format!("new-{}-{version}-{:x}", product.name(), recipe()));
    let lock = base.join(format!("new-{}.lock", product.name()));
    loop {
        // Many copy it at once, but none while it is removed.
        let copying = folder::lock_with_others(&lock)?;
        if template.exists() {
            let mut copy = Command::new("cp");
            copy.arg("-a").arg(template).arg(data);
            return run(copy).map(drop);
        }
        drop(copying);
        // One makes it, in this process or another, and all others wait for it.
        let _making = folder::lock(&lock)?;
        if !template.exists() {
            remove_older(&base, product);
            make(binaries, &template)?;
        }
    }
}

/// Those of other versions of the product or of this crate.
fn remove_older(base: &Path, product: Product) {
    let beginning = format!("new-{}-", product.name());
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&beginning) {
            // One that another user has made may stay: it only takes room.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Made aside and renamed into place, so that it is never seen half made.
fn make(binaries: &Binaries, template: &Path) -> Result<(), Error> {
    let folder = Folder::new("new")?;
    let data = folder.path().join("data");
    match binaries.product {
        Product::Postgres => initialise_postgres(binaries, folder.path(), &data)?,
        Product::MariaDb => initialise_mariadb(binaries, folder.path())?,
        Product::MySql => initialise_mysql(binaries, folder.path(), &data)?,
    }
    fs::rename(&data, template).map_err(Error::while_doing(format_args!("create {}", template.display())))
}

/// Changes when what fills a template does.
fn recipe() -> u64 {
    let mut hasher = DefaultHasher::new();
    (include_str!("data.rs"), zones::statements()).hash(&mut hasher);
    hasher.finish()
}

fn initialise_postgres(binaries: &Binaries, folder: &Path, data: &Path) -> Result<(), Error> {
    create_for_postgres(data)?;
    let user = other_user()?;
    let initdb = binaries.beside("initdb");
    let mut initdb = command(initdb.as_os_str(), folder, user.as_ref(), Life::Ours(Signal::SIGKILL));
    initdb.arg("-D").arg(data).args([
        "-A",
        "trust",
        "-U",
        "postgres",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
    ]);
    run(initdb)?;
    Ok(())
}

/// An empty folder that belongs to the user who runs PostgreSQL, who alone may read it.
pub(crate) fn create_for_postgres(data: &Path) -> Result<(), Error> {
    let doing = || format!("create {}", data.display());
    fs::create_dir(data).map_err(Error::while_doing(doing()))?;
    fs::set_permissions(data, Permissions::from_mode(0o700)).map_err(Error::while_doing(doing()))?;
    give_to_postgres(data)
}

/// Makes it belong to the user who runs PostgreSQL, if that is not us.
pub(crate) fn give_to_postgres(path: &Path) -> Result<(), Error> {
    let Some(user) = other_user()? else { return Ok(()) };
    let doing = format!("give {} to {}", path.display(), user.name);
    chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(Error::while_doing(doing))
}

fn initialise_mariadb(binaries: &Binaries, folder: &Path) -> Result<(), Error> {
    // Its guests without a name would be chosen before users who may come from any host.
    let no_guests = "DELETE FROM mysql.global_priv WHERE User = '';\n";
    first_statements(folder, no_guests)?;
    let install = crate::binaries::program("mariadb-install-db").ok_or_else(|| {
        Error::new(format!("mariadb-install-db is missing; {}", binaries.product.way_out()))
    })?;
    let mut install = command(install.as_os_str(), folder, None, Life::Ours(Signal::SIGKILL));
    // A shell script that splits paths at spaces: it is given those without, from the folder where it runs.
    install.env("TMPDIR", temporary(folder)?).args([
        // First, and without it the options of the machine's own server count, its directories among them.
        "--no-defaults",
        // The owners of files, those of an installed MariaDB too, stay as they are.
        "--rpm",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
        "--datadir=./data",
        "--extra-file=./first.sql",
    ]);
    install.args(as_root());
    run(install)?;
    Ok(())
}

fn initialise_mysql(binaries: &Binaries, folder: &Path, data: &Path) -> Result<(), Error> {
    let first = first_statements(folder, "")?;
    let words = binaries.words(None);
    let mut initialise = command(&words[0], folder, None, Life::Ours(Signal::SIGKILL));
    initialise.args(&words[1..]).arg("--no-defaults").args(binaries.places()).args(as_root());
    initialise.args(["--initialize-insecure", "--innodb-redo-log-capacity=32M"]);
    initialise.arg(option("--tmpdir=", &temporary(folder)?));
    initialise.arg(option("--datadir=", data)).arg(option("--init-file=", &first));
    run(initialise)?;
    Ok(())
}

/// What a new data directory is told, one statement a line.
fn first_statements(folder: &Path, own: &str) -> Result<PathBuf, Error> {
    let file = folder.join("first.sql");
    let sql = format!("{own}{}CREATE DATABASE test;\n", zones::statements());
    fs::write(&file, sql).map_err(Error::while_doing(format_args!("write {}", file.display())))?;
    Ok(file)
}

/// MariaDB and MySQL run as root when told so, and only then.
pub(crate) fn as_root() -> Option<&'static str> {
    geteuid().is_root().then_some("--user=root")
}

/// The folder in which MariaDB or MySQL has its temporary tables: in a common one each server removes at
/// its start what it takes for left over.
pub(crate) fn temporary(folder: &Path) -> Result<PathBuf, Error> {
    let temporary = folder.join("temporary");
    fs::create_dir_all(&temporary)
        .map_err(Error::while_doing(format_args!("create {}", temporary.display())))?;
    Ok(temporary)
}

/// An option of one word with a path.
pub(crate) fn option(name: &str, path: &Path) -> OsString {
    [OsStr::new(name), path.as_os_str()].into_iter().collect()
}
