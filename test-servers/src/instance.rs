//! One server program on one data directory: starting it, and seeing that it is ready and that it is gone.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::binaries::Binaries;
use crate::clock::{self, SteppedClock};
use crate::data::{as_root, give_to_postgres, option, temporary};
use crate::process::{self, Life, command, other_user, send};
use crate::{Error, Product, Setup, port, wire};

/// Far beyond what a start or a stop takes on a slow machine under load.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A server that somebody else ends.
pub(crate) struct Instance {
    pub(crate) binaries: Binaries,
    /// Holds the data directory and what stands beside it.
    pub(crate) home: PathBuf,
    pub(crate) port: u16,
    pub(crate) setup: Setup,
    pub(crate) clock: Option<SteppedClock>,
    pub(crate) child: Option<Child>,
    /// Whether it is to end with this process.
    ours: bool,
}

impl Instance {
    /// Starts it on a port that it finds, on a data directory that `fill` makes.
    pub(crate) fn start(
        binaries: Binaries,
        home: &Path,
        setup: Setup,
        ours: bool,
        fill: impl FnOnce(&Binaries, &Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let clock = setup.stepped_clock.then(|| SteppedClock::new(home)).transpose()?;
        let home = home.to_owned();
        let mut instance = Self { binaries, home, port: 0, setup, clock, child: None, ours };
        fill(&instance.binaries, &instance.data())?;
        instance.write_files()?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            instance.port = port::free()?;
            match instance.launch() {
                // Somebody else was faster to take the port.
                Err(_) if attempts < 5 && instance.log().contains("in use") => {}
                outcome => return outcome.map(|()| instance),
            }
        }
    }

    pub(crate) fn product(&self) -> Product {
        self.binaries.product
    }

    pub(crate) fn version(&self) -> String {
        format!("{} {}", self.binaries.product, self.binaries.version)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    pub(crate) fn log(&self) -> String {
        let log = fs::read(self.home.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        self.child.as_ref().map(|child| Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX)))
    }

    /// Starts the program and waits until it is ready; one that does not become ready is ended.
    pub(crate) fn launch(&mut self) -> Result<(), Error> {
        let log =
            File::create(self.home.join("log")).map_err(Error::while_doing("create the server's log"))?;
        let mut server = self.program()?;
        server.stderr(log.try_clone().map_err(Error::while_doing("open the server's log"))?).stdout(log);
        let starting = format!("start {}", self.version());
        self.child = Some(process::spawn(server).map_err(Error::while_doing(starting))?);
        let pid = self.pid();
        let ready = self.becomes_ready();
        if ready.is_err() {
            self.end_at_once();
        }
        if self.clock.is_some() {
            pid.into_iter().for_each(clock::forget_shared_memory);
        }
        ready
    }

    fn becomes_ready(&mut self) -> Result<(), Error> {
        let since = Instant::now();
        loop {
            let failed = if self.has_ended_within(Duration::ZERO) {
                "ended at its start".to_owned()
            } else if self.says_ready() && wire::is_ready(self.product(), self.port) {
                return Ok(());
            } else if since.elapsed() > PATIENCE {
                format!("is not ready after {} s", PATIENCE.as_secs())
            } else {
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            return Err(Error::new(format!("{} {failed}; its log:\n{}", self.version(), tail(&self.log()))));
        }
    }

    /// Whether this very process says that it listens: another's server may answer on the port.
    fn says_ready(&self) -> bool {
        match self.product() {
            Product::Postgres => {
                let status = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
                let mut lines = status.lines();
                let its = lines.next().and_then(|pid| pid.trim().parse().ok()).map(Pid::from_raw);
                its == self.pid() && lines.next_back().is_some_and(|line| line.trim() == "ready")
            }
            Product::MariaDb | Product::MySql => self.log().contains("ready for connections"),
        }
    }

    /// Whether it is gone, or goes within this time.
    pub(crate) fn has_ended_within(&mut self, patience: Duration) -> bool {
        let child = &mut self.child;
        let ended = || child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
        let ended = within(patience, ended);
        if ended {
            self.child = None;
        }
        ended
    }

    /// Ends it and all its processes in the quickest way, paused or not.
    pub(crate) fn end_at_once(&mut self) {
        if let (Product::Postgres, Some(pid)) = (self.product(), self.pid()) {
            // So it gives its shared memory back, which a kill would leave behind.
            send(pid, Signal::SIGQUIT);
            for pid in process::all_within(&self.data()) {
                send(pid, Signal::SIGCONT);
            }
            self.has_ended_within(Duration::from_secs(10));
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        process::end_all_within(&self.data());
    }

    fn write_files(&self) -> Result<(), Error> {
        for (name, text) in &self.setup.files {
            let doing = || format!("write {name} into the data directory");
            write_private(&self.data().join(name), text).map_err(Error::while_doing(doing()))?;
            if self.product() == Product::Postgres {
                give_to_postgres(&self.data().join(name))?;
            }
        }
        Ok(())
    }

    fn program(&self) -> Result<Command, Error> {
        let product = self.product();
        let data = self.data();
        let words = self.binaries.words(self.clock.as_ref().map(SteppedClock::library));
        let (user, signal) = match product {
            // Its children end with it, and its shared memory is given back.
            Product::Postgres => (other_user()?, Signal::SIGQUIT),
            Product::MariaDb | Product::MySql => (None, Signal::SIGKILL),
        };
        let life = if self.ours { Life::Ours(signal) } else { Life::ItsOwn };
        let mut server = command(&words[0], &data, user.as_ref(), life);
        server.args(&words[1..]);
        match product {
            Product::Postgres => {
                server.arg("-D").arg(&data).arg("-p").arg(self.port.to_string());
                server.args(POSTGRES.iter().flat_map(|setting| ["-c", setting]));
            }
            Product::MariaDb | Product::MySql => {
                server.arg("--no-defaults").args(self.binaries.places()).args(as_root());
                let temporary = temporary(&self.home)?;
                server.arg(option("--tmpdir=", &temporary)).arg(option("--datadir=", &data));
                // No statement reads or writes a file of the machine.
                server.arg(option("--secure-file-priv=", &temporary));
                server.arg(format!("--port={}", self.port)).args(MYSQL);
                server.args((product == Product::MySql).then_some("--mysqlx=OFF"));
            }
        }
        if let Some(clock) = &self.clock {
            server.envs(clock.environment());
        }
        server.args(&self.setup.arguments);
        server.envs(self.setup.environment.iter().map(|(name, value)| (name, value)));
        Ok(server)
    }
}

const POSTGRES: &[&str] = &[
    "listen_addresses=127.0.0.1",
    // The path of a socket has 107 bytes, which a clone deep in a tree needs for itself.
    "unix_socket_directories=",
    "max_connections=500",
    // Gone with the data directory, whatever kills the server.
    "dynamic_shared_memory_type=mmap",
];

const MYSQL: &[&str] = &[
    "--bind-address=127.0.0.1",
    // Below the data directory, where the server runs.
    "--socket=socket",
    "--pid-file=pid",
    "--max-connections=500",
];

/// A file that its owner alone may read, as servers demand of keys.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

/// Waits until it is so.
pub(crate) fn within(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if since.elapsed() >= patience {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The last lines of a log.
pub(crate) fn tail(log: &str) -> &str {
    let start = log.trim_end().rmatch_indices('\n').nth(19).map_or(0, |(at, _)| at + 1);
    &log[start..]
}
