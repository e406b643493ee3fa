use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::error::wanted;
use crate::folder::{Folder, write_for_all};
use crate::process::{self, Life, command, other_user};
use crate::{Error, Product, Server, binaries, port, wire};

/// A PgBouncer in transaction mode before a PostgreSQL server, which knows that server's users and
/// wants no password. It lives as long as this value and never longer than this process.
pub struct PgBouncer {
    port: u16,
    child: Child,
    /// Dropped after the program has ended.
    _folder: Folder,
}

impl PgBouncer {
    /// Starts it and waits until it reaches the server.
    ///
    /// # Panics
    ///
    /// If it is not installed or does not start; the message says what to do.
    #[track_caller]
    pub fn start(server: &Server) -> Self {
        assert_eq!(server.product(), Product::Postgres, "PgBouncer stands before PostgreSQL");
        wanted(Self::try_start(server))
    }

    fn try_start(server: &Server) -> Result<Self, Error> {
        let folder = Folder::new("pgbouncer")?;
        for _ in 0..4 {
            let port = port::free()?;
            let mut child = launch(folder.path(), server.port(), port)?;
            if reaches(&mut child, port) {
                return Ok(Self { port, child, _folder: folder });
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        Err(Error::new(format!("PgBouncer does not start; its log:\n{log}")))
    }

    /// The URL of the superuser through it.
    pub fn url(&self) -> String {
        Product::Postgres.url(self.port)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(folder: &Path, server: u16, port: u16) -> Result<Child, Error> {
    let program = binaries::program("pgbouncer").ok_or_else(|| {
        Error::new(
            "PgBouncer is not installed; run `cargo xtask test`, which installs it where it may; or on Debian and \
             Ubuntu `sudo apt-get install pgbouncer`",
        )
    })?;
    let write = |name: &str, text: &str| {
        write_for_all(&folder.join(name), text).map_err(Error::while_doing(format_args!("write {name}")))
    };
    let said = Command::new(&program)
        .arg("--version")
        .output()
        .map_err(Error::while_doing("ask PgBouncer's version"))?;
    let renames = renames_statements(&String::from_utf8_lossy(&said.stdout));
    write("pgbouncer.ini", &settings(server, port, renames))?;
    write("users", "\"postgres\" \"\"\n")?;
    let log = File::create(folder.join("log")).map_err(Error::while_doing("create PgBouncer's log"))?;
    // It refuses to run as root, as PostgreSQL does.
    let user = other_user()?;
    let mut start = command(program.as_os_str(), folder, user.as_ref(), Life::Ours(Signal::SIGKILL));
    start.arg("pgbouncer.ini").stdout(Stdio::null()).stderr(log);
    process::spawn(start).map_err(Error::while_doing("start PgBouncer"))
}

/// Whether it can give prepared statements names of its own, and from 1.24 on does: what is to be seen here is what goes wrong without.
fn renames_statements(version: &str) -> bool {
    let number = version.split_whitespace().nth(1).unwrap_or_default();
    let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(1), Some(21))
}

fn settings(server: u16, port: u16, renames: bool) -> String {
    let renaming = if renames { "max_prepared_statements = 0\n" } else { "" };
    format!(
        "[databases]\n\
         * = host=127.0.0.1 port={server}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         pool_mode = transaction\n\
         {renaming}\
         max_client_conn = 500\n\
         auth_type = trust\n\
         auth_file = users\n\
         auth_user = postgres\n"
    )
}

/// Waits until a statement comes through, or the program ends.
fn reaches(child: &mut Child, port: u16) -> bool {
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(60) && matches!(child.try_wait(), Ok(None)) {
        if wire::ask(Product::Postgres, port, "SELECT 1").is_ok() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_which_version_gives_names_of_its_own() {
        for (version, renames) in [
            ("PgBouncer 1.18.0\nlibevent 2.1.12", false),
            ("PgBouncer 1.21.0", true),
            ("PgBouncer 1.24.1", true),
            ("PgBouncer 2.0", true),
            ("", false),
        ] {
            assert_eq!(renames_statements(version), renames, "{version}");
        }
        assert!(settings(1, 2, true).contains("transaction\nmax_prepared_statements = 0\n"));
        assert!(!settings(1, 2, false).contains("prepared"));
    }
}
