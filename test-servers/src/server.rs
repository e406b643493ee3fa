use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::binaries::Binaries;
use crate::clock::SteppedClock;
use crate::data::{self, as_root, give_to_postgres, option};
use crate::folder::Folder;
use crate::process::{self, Life, command, other_user, send};
use crate::{Error, Product, port, wire};

/// Far beyond what a start or a stop takes on a slow machine under load.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a server is to differ from one that only has the defaults.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Further options of the server, each word by itself: `["-c", "synchronous_commit=off"]`,
    /// `["--sql-mode="]`. A relative path in them is below the data directory.
    pub arguments: Vec<String>,
    /// Further environment variables of the server; those of ours give way (`TZ` is `Europe/Berlin`).
    pub environment: Vec<(String, String)>,
    /// Files to be written into the data directory before the start, by name: certificates and keys,
    /// readable by the server alone.
    pub files: Vec<(String, String)>,
    /// Whether [`Server::step_clock`] and [`Server::set_clock`] work.
    pub stepped_clock: bool,
}

/// A private server on a port of its own, which lives as long as this value and never longer than
/// this process. Its superuser has no password; its data directory is removed on drop.
///
/// Every method panics with the way out when the server does not do what it should: it is for tests.
pub struct Server {
    binaries: Binaries,
    port: u16,
    setup: Setup,
    clock: Option<SteppedClock>,
    child: Option<Child>,
    /// Dropped after the server has ended.
    folder: Folder,
}

impl Server {
    /// Starts a server and waits until it takes sessions.
    ///
    /// # Panics
    ///
    /// If the product is not installed or does not start; the message says what to do.
    #[track_caller]
    pub fn start(product: Product, setup: Setup) -> Self {
        Self::try_start(product, setup).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Server::start`], but answers why there is none.
    pub fn try_start(product: Product, setup: Setup) -> Result<Self, Error> {
        let binaries = Binaries::find(product)?;
        Self::with_data(binaries, setup, data::create)
    }

    /// A server on a data directory that `fill` makes.
    pub(crate) fn with_data(
        binaries: Binaries,
        setup: Setup,
        fill: impl FnOnce(&Binaries, &Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let folder = Folder::new(binaries.product.name())?;
        let clock = setup.stepped_clock.then(|| SteppedClock::new(folder.path())).transpose()?;
        let mut server = Self { binaries, port: 0, setup, clock, child: None, folder };
        fill(&server.binaries, &server.data())?;
        server.write_files()?;
        for _ in 0..4 {
            server.port = port::free()?;
            match server.launch() {
                Err(_) if server.log().contains("in use") => {} // Somebody was faster.
                outcome => return outcome.map(|()| server),
            }
        }
        server.port = port::free()?;
        server.launch().map(|()| server)
    }

    /// The product that it is.
    pub fn product(&self) -> Product {
        self.binaries.product
    }

    /// The product and its version, for people: `MariaDB 10.11.19`.
    pub fn version(&self) -> String {
        format!("{} {}", self.binaries.product, self.binaries.version)
    }

    /// The URL of the superuser, the same after a restart.
    pub fn url(&self) -> String {
        self.product().url(self.port)
    }

    /// The port on 127.0.0.1, the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The data directory, in which MySQL leaves its certificates.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// All that the server has logged since its last start.
    pub fn log(&self) -> String {
        let log = fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The first value that a statement answers when the superuser sends it, as text: to change
    /// settings and to look, without a driver. `None` for NULL and for no row.
    #[track_caller]
    pub fn ask(&self, sql: &str) -> Option<String> {
        wire::ask(self.product(), self.port, sql)
            .unwrap_or_else(|error| panic!("{} answers `{sql}` with: {error}", self.version()))
    }

    /// Stops it as an operator would, sessions or none, and waits until it is gone.
    #[track_caller]
    pub fn stop(&mut self) {
        self.end(match self.product() {
            Product::Postgres => Signal::SIGINT,
            Product::MariaDb | Product::MySql => Signal::SIGTERM,
        });
    }

    /// Kills it as a crash would, and waits until it is gone.
    #[track_caller]
    pub fn kill(&mut self) {
        self.end(Signal::SIGKILL);
    }

    /// Starts it again after [`Server::stop`] or [`Server::kill`], on the same port and data, and
    /// waits until it takes sessions.
    #[track_caller]
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "{} runs already", self.version());
        self.launch().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Stops all its processes where they are: it takes connections no further than the kernel does
    /// and answers nothing.
    #[track_caller]
    pub fn pause(&mut self) {
        let parent = self.pid();
        // The parent first: it begins no process after that, so that all are seen.
        for pid in [parent].into_iter().chain(self.children()) {
            send(pid, Signal::SIGSTOP);
            let stopped = || process::state(pid).is_none_or(|state| matches!(state, 'T' | 'Z'));
            assert!(within(PATIENCE, stopped), "a process of {} does not stop", self.version());
        }
    }

    /// Lets it go on after [`Server::pause`].
    #[track_caller]
    pub fn resume(&mut self) {
        self.children().into_iter().chain([self.pid()]).for_each(|pid| send(pid, Signal::SIGCONT));
    }

    /// Moves its wall clock forward, or back for negative seconds, at once and for good.
    #[track_caller]
    pub fn step_clock(&mut self, seconds: i64) {
        self.clock().step(seconds).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Sets its wall clock to this time since 1970 UTC, from where it goes on.
    #[track_caller]
    pub fn set_clock(&mut self, since_epoch: Duration) {
        self.clock().set(since_epoch).unwrap_or_else(|error| panic!("{error}"));
    }

    #[track_caller]
    fn clock(&mut self) -> &mut SteppedClock {
        self.clock.as_mut().expect("its clock moves only with `Setup::stepped_clock`")
    }

    #[track_caller]
    fn pid(&self) -> Pid {
        let child = self.child.as_ref();
        pid(child.unwrap_or_else(|| panic!("{} does not run", self.version())))
    }

    fn children(&self) -> Vec<Pid> {
        let parent = self.pid();
        process::all_within(&self.data()).into_iter().filter(|pid| *pid != parent).collect()
    }

    #[track_caller]
    fn end(&mut self, signal: Signal) {
        send(self.pid(), signal);
        let gone = self.has_ended_within(PATIENCE);
        assert!(gone, "{} does not end; its log:\n{}", self.version(), tail(&self.log()));
        // What PostgreSQL leaves for a moment when it is killed would keep it from starting again.
        process::end_all_within(&self.data());
    }

    fn has_ended_within(&mut self, patience: Duration) -> bool {
        let child = &mut self.child;
        let ended =
            within(patience, || child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None))));
        if ended {
            self.child = None;
        }
        ended
    }

    pub(crate) fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn write_files(&self) -> Result<(), Error> {
        for (name, text) in &self.setup.files {
            write_private(&self.data().join(name), text)
                .map_err(Error::while_doing(format_args!("write {name} into the data directory")))?;
            if self.product() == Product::Postgres {
                give_to_postgres(&self.data().join(name))?;
            }
        }
        Ok(())
    }

    /// Starts the program and waits until it is ready.
    fn launch(&mut self) -> Result<(), Error> {
        let log = File::create(self.log_file()).map_err(Error::while_doing("create the server's log"))?;
        let mut server = self.program()?;
        server.stderr(log.try_clone().map_err(Error::while_doing("open the server's log"))?).stdout(log);
        let name = self.version();
        self.child = Some(process::spawn(server).map_err(Error::while_doing(format_args!("start {name}")))?);
        let since = Instant::now();
        loop {
            if self.has_ended_within(Duration::ZERO) {
                return Err(Error::new(format!(
                    "{name} ended at its start; its log:\n{}",
                    tail(&self.log())
                )));
            }
            if self.says_ready() && wire::is_ready(self.product(), self.port) {
                return Ok(());
            }
            if since.elapsed() > PATIENCE {
                let waited = PATIENCE.as_secs();
                let log = tail(&self.log()).to_owned();
                return Err(Error::new(format!("{name} is not ready after {waited} s; its log:\n{log}")));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether this very process says that it listens: another's server may answer on the port.
    fn says_ready(&self) -> bool {
        match self.product() {
            Product::Postgres => {
                let status = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
                let mut lines = status.lines();
                let its = lines.next().and_then(|pid| pid.trim().parse().ok()).map(Pid::from_raw);
                its == self.child.as_ref().map(pid)
                    && lines.next_back().is_some_and(|line| line.trim() == "ready")
            }
            Product::MariaDb | Product::MySql => self.log().contains("ready for connections"),
        }
    }

    fn program(&self) -> Result<std::process::Command, Error> {
        let product = self.product();
        let data = self.data();
        let library = self.clock.as_ref().map(SteppedClock::library);
        let words = self.binaries.words(library);
        let user = if product == Product::Postgres { other_user()? } else { None };
        let signal = match product {
            // Its children end with it, and its shared memory is given back.
            Product::Postgres => Signal::SIGQUIT,
            Product::MariaDb | Product::MySql => Signal::SIGKILL,
        };
        let mut server = command(&words[0], &data, user.as_ref(), Life::Ours(signal));
        server.args(&words[1..]);
        match product {
            Product::Postgres => {
                server.arg("-D").arg(&data).arg("-p").arg(self.port.to_string());
                for setting in POSTGRES {
                    server.args(["-c", setting]);
                }
            }
            Product::MariaDb | Product::MySql => {
                server.arg("--no-defaults").args(self.binaries.places()).args(as_root());
                server.arg(option("--datadir=", &data)).arg(format!("--port={}", self.port)).args(MYSQL);
                if product == Product::MySql {
                    server.arg("--mysqlx=OFF");
                }
            }
        }
        if let Some(clock) = &self.clock {
            server.envs(clock.environment());
        }
        server
            .args(&self.setup.arguments)
            .envs(self.setup.environment.iter().map(|(name, value)| (name, value)));
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
    "--secure-file-priv=",
    "--max-connections=500",
];

impl Drop for Server {
    fn drop(&mut self) {
        let Some(child) = &self.child else { return };
        if self.product() == Product::Postgres {
            // Its quickest way to end by itself, paused or not.
            send(pid(child), Signal::SIGQUIT);
            for pid in process::all_within(&self.data()) {
                send(pid, Signal::SIGCONT);
            }
            self.has_ended_within(Duration::from_secs(10));
        }
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        process::end_all_within(self.folder.path());
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

/// A file that its owner alone may read, as servers demand of keys.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

/// Waits until it is so.
fn within(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
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
fn tail(log: &str) -> &str {
    let start = log.trim_end().rmatch_indices('\n').nth(19).map_or(0, |(at, _)| at + 1);
    &log[start..]
}
