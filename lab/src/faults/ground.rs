//! What histories stand on: a server that several may share, or a file of their own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lease_testkit::{Proxy, Wire};
use test_servers::{Product, Server, Setup};
use tokio::task::block_in_place;

use super::Failure;
use super::backend::Backend;
use super::place::Place;

/// The user of the workers on the MySQL family: one that `read_only` is meant for.
const USER: &str = "lab";

/// A server of the lab's own.
pub(crate) struct Ground {
    backend: Backend,
    server: Mutex<Server>,
    port: u16,
    databases: AtomicU32,
}

impl Ground {
    /// Starts a server of that engine; one without a server has none.
    pub(crate) fn start(backend: Backend, stepped_clock: bool) -> Result<Option<Self>, Failure> {
        let Some(product) = backend.product() else { return Ok(None) };
        let arguments = options(product).iter().map(ToString::to_string).collect();
        let setup = Setup { arguments, stepped_clock, ..Setup::default() };
        let server = block_in_place(|| Server::try_start(product, setup))?;
        let port = server.port();
        Ok(Some(Self { backend, server: Mutex::new(server), port, databases: AtomicU32::new(0) }))
    }

    /// What is done to the server itself. Blocks.
    pub(crate) fn server<T>(&self, act: impl FnOnce(&mut Server) -> T) -> T {
        block_in_place(|| act(&mut self.lock()))
    }

    /// An empty database of a history's own.
    pub(crate) fn database(&self) -> Place {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let database = format!("lab_{number}");
        self.server(|server| {
            server.ask(&format!("CREATE DATABASE {database}"));
            if self.backend != Backend::Postgres {
                server.ask(&format!("CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY ''"));
                server.ask(&format!("GRANT ALL ON {database}.* TO '{USER}'@'%'"));
            }
        });
        self.place(&database, self.port)
    }

    /// A proxy of its own before a database, and the place by way of it.
    pub(crate) fn through(&self, place: &Place) -> Result<(Proxy, Place), Failure> {
        let wire = if self.backend == Backend::Postgres { Wire::Postgres } else { Wire::MySql };
        let proxy = Proxy::start(("127.0.0.1", self.port), wire)?;
        let through = self.place(database_of(place), proxy.port());
        Ok((proxy, through))
    }

    fn place(&self, database: &str, port: u16) -> Place {
        let url = match self.backend {
            Backend::Postgres => format!("postgres://postgres@127.0.0.1:{port}/{database}?sslmode=disable"),
            _ => format!("mysql://{USER}@127.0.0.1:{port}/{database}?ssl-mode=disabled"),
        };
        Place::new(self.backend, url)
    }

    fn lock(&self) -> MutexGuard<'_, Server> {
        // A panic of one history is no other's.
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Small, so that it comes back soon and many go on one machine. What a crash leaves is what a crash of the process leaves.
fn options(product: Product) -> &'static [&'static str] {
    match product {
        Product::Postgres => &["-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=200"],
        Product::MariaDb => &["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"],
        Product::MySql => &[
            "--skip-log-bin",
            "--innodb-buffer-pool-size=32M",
            "--innodb-redo-log-capacity=8M",
            "--innodb-buffer-pool-load-at-startup=OFF",
            "--innodb-buffer-pool-dump-at-shutdown=OFF",
        ],
    }
}

/// The name of the database in a place on a server.
pub(crate) fn database_of(place: &Place) -> &str {
    let path = place.at.rsplit('/').next().unwrap_or_default();
    path.split('?').next().unwrap_or_default()
}

/// An empty file of a history's own, in a folder that is made.
pub(crate) fn file(folder: &Path) -> Result<Place, Failure> {
    std::fs::create_dir_all(folder)?;
    let path: PathBuf = folder.canonicalize()?.join("leases.db");
    Ok(Place::new(Backend::Sqlite, path.to_str().ok_or("the path is no text")?))
}
