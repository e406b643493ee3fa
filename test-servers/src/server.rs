use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::binaries::Binaries;
use crate::clock::SteppedClock;
use crate::error::wanted;
use crate::folder::Folder;
use crate::instance::{Instance, PATIENCE, tail, within};
use crate::process::{self, send};
use crate::{Error, Product, data, wire};

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
    instance: Instance,
    /// Dropped after the server has ended.
    _folder: Folder,
}

impl Server {
    /// Starts a server and waits until it takes sessions.
    ///
    /// # Panics
    ///
    /// If the product is not installed or does not start; the message says what to do.
    #[track_caller]
    pub fn start(product: Product, setup: Setup) -> Self {
        wanted(Self::try_start(product, setup))
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
        let instance = Instance::start(binaries, folder.path(), setup, true, fill)?;
        Ok(Self { instance, _folder: folder })
    }

    /// The product that it is.
    pub fn product(&self) -> Product {
        self.instance.product()
    }

    /// The product and its version, for people: `MariaDB 10.11.19`.
    pub fn version(&self) -> String {
        self.instance.version()
    }

    /// The URL of the superuser, the same after a restart.
    pub fn url(&self) -> String {
        self.product().url(self.port())
    }

    /// The port on 127.0.0.1, the same after a restart.
    pub fn port(&self) -> u16 {
        self.instance.port
    }

    /// The data directory, in which MySQL leaves its certificates.
    pub fn data(&self) -> PathBuf {
        self.instance.data()
    }

    /// All that the server has logged since its last start.
    pub fn log(&self) -> String {
        self.instance.log()
    }

    /// The first value that a statement answers when the superuser sends it, as text: to change
    /// settings and to look, without a driver. `None` for NULL and for no row.
    #[track_caller]
    pub fn ask(&self, sql: &str) -> Option<String> {
        wanted(self.try_ask(sql))
    }

    /// As [`Server::ask`], but answers why there is no answer.
    pub fn try_ask(&self, sql: &str) -> Result<Option<String>, Error> {
        let answer = wire::ask(self.product(), self.port(), sql);
        answer.map_err(|error| Error::new(format!("{} answers `{sql}` with: {error}", self.version())))
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
        assert!(self.instance.child.is_none(), "{} runs already", self.version());
        wanted(self.instance.launch());
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
        wanted(self.clock().step(seconds));
    }

    /// As [`Server::step_clock`], by milliseconds.
    #[track_caller]
    pub fn step_clock_ms(&mut self, ms: i64) {
        wanted(self.clock().step_ms(ms));
    }

    /// Sets its wall clock to this time since 1970 UTC, from where it goes on.
    #[track_caller]
    pub fn set_clock(&mut self, since_epoch: Duration) {
        wanted(self.clock().set(since_epoch));
    }

    #[track_caller]
    fn clock(&mut self) -> &mut SteppedClock {
        self.instance.clock.as_mut().expect("its clock moves only with `Setup::stepped_clock`")
    }

    #[track_caller]
    fn pid(&self) -> Pid {
        wanted(self.instance.pid().ok_or_else(|| format!("{} does not run", self.version())))
    }

    fn children(&self) -> Vec<Pid> {
        let parent = self.pid();
        process::all_within(&self.data()).into_iter().filter(|pid| *pid != parent).collect()
    }

    #[track_caller]
    fn end(&mut self, signal: Signal) {
        send(self.pid(), signal);
        let gone = self.instance.has_ended_within(PATIENCE);
        assert!(gone, "{} does not end; its log:\n{}", self.version(), tail(&self.log()));
        // What PostgreSQL leaves for a moment when it is killed would keep it from starting again.
        process::end_all_within(&self.data());
    }

    pub(crate) fn binaries(&self) -> &Binaries {
        &self.instance.binaries
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.instance.end_at_once();
    }
}
