//! A folder with a database, the program run against it, and an end to every process that was started.

use std::error::Error;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mysql_async::Opts;
use mysql_async::prelude::Queryable;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use test_servers::{Product, shared};
use tokio::time::timeout;
use tokio_postgres::NoTls;

/// By this variable in its environment a process is known as one of a bench.
const MARK: &str = "LEASE_TEST_BENCH";

/// Far longer than anything takes on a machine that is not broken.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Bench {
    folder: TempDir,
    /// The database that `lease` is told in the environment.
    url: String,
    /// On a server: a table of the bench's own, and the server's product.
    table: Option<(String, Product)>,
    runs: AtomicU32,
}

impl Bench {
    /// With a SQLite file that is not there yet.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = folder.path().join("leases.db").to_str().unwrap().to_owned();
        Self::with(folder, url, None)
    }

    /// With a server that others use too, and a table that is not there yet.
    pub(crate) fn on_server(product: Product) -> Self {
        // Random letters make the folder's name, and so the table's: one that a killed run left is another.
        let folder = tempfile::Builder::new().prefix("cli_").rand_bytes(16).tempdir().unwrap();
        let table = folder.path().file_name().unwrap().to_str().unwrap().to_ascii_lowercase();
        Self::with(folder, shared(product), Some((table, product)))
    }

    fn with(folder: TempDir, url: String, table: Option<(String, Product)>) -> Self {
        Self { folder, url, table, runs: AtomicU32::new(0) }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn table(&self) -> &str {
        self.table.as_ref().map_or("leases", |(table, _)| table)
    }

    /// The name of a second table, which goes with the bench too.
    pub(crate) fn other_table(&self) -> String {
        format!("{}_other", self.table())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path("leases.db")
    }

    /// A session on a PostgreSQL server, beside `lease`: what is to be done in it is given the table's name.
    pub(crate) fn in_postgres<F: Future<Output = Result<(), tokio_postgres::Error>>>(
        &self,
        session: impl FnOnce(tokio_postgres::Client, String) -> F,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
            tokio::spawn(connection);
            let done = timeout(PATIENCE, session(client, self.table().to_owned())).await;
            done.expect("what was to be done in PostgreSQL takes too long").unwrap();
        });
    }

    /// Any program, in the bench's folder and against its database.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env("LEASE_DATABASE_URL", &self.url)
            .env("HOME", self.folder.path())
            .env_remove("XDG_STATE_HOME")
            .env_remove("LEASE_LOG")
            .env(MARK, self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// `lease` with these arguments.
    pub(crate) fn lease(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(lease_file());
        let (subcommand, rest) = arguments.split_at(1.min(arguments.len()));
        command.args(subcommand);
        if self.table.is_some() && !arguments.contains(&"--table") {
            command.args(["--table", self.table()]);
        }
        command.args(rest);
        command
    }

    /// `lease` without the rights of root, whom no permission stops.
    pub(crate) fn unprivileged(&self, arguments: &[&str]) -> Command {
        if !rustix::process::geteuid().is_root() {
            return self.lease(arguments);
        }
        // The build folder may be closed to others.
        let program = self.path("lease");
        if !program.exists() {
            // By another process: a file that this one has open for writing cannot be run while some other
            // test's child, just forked, still has it open too.
            let copied = Command::new("cp").arg(lease_file()).arg(&program).status().unwrap();
            assert!(copied.success());
            fs::set_permissions(self.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = self.command("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program).args(arguments);
        command
    }

    /// Runs `lease` to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome {
        self.start(arguments).wait()
    }

    /// Starts `lease`.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        self.spawn(&mut self.lease(arguments))
    }

    /// Starts a command, its output kept in files: a pipe would stay open as long as anything it started.
    pub(crate) fn spawn(&self, command: &mut Command) -> Running {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let (out, err) = (self.path(&format!("out.{run}")), self.path(&format!("err.{run}")));
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let child = command.spawn().unwrap();
        Running { child, out, err }
    }

    /// What `lease status --json` says of a name.
    pub(crate) fn status(&self, name: &str) -> Value {
        let outcome = self.run(&["status", name, "--json"]).expect(0);
        serde_json::from_str(&outcome.out).unwrap()
    }

    /// The term under which a name was last claimed, 0 if never.
    pub(crate) fn term(&self, name: &str) -> i64 {
        self.status(name)["lease"]["term"].as_i64().unwrap_or(0)
    }

    /// The processes of this bench that live, without those that have ended and wait to be reaped.
    pub(crate) fn living(&self) -> Vec<Process> {
        let mark = format!("{MARK}={}", self.folder.path().display());
        let is_ours = |pid: i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| is_ours(*pid)).map(Process::new).filter(Process::lives).collect()
    }

    /// Those of them that are neither `lease` nor a guardian: the command and what it started.
    pub(crate) fn commands(&self) -> Vec<Process> {
        self.living().into_iter().filter(|process| !process.is_lease()).collect()
    }

    /// The command with this command line, once it runs.
    pub(crate) fn await_command(&self, line: &str) -> Process {
        eventually(&format!("the command {line:?}"), || {
            self.commands().into_iter().find(|process| process.line() == line)
        })
    }

    /// The guardian, once it runs.
    pub(crate) fn await_guardian(&self) -> Process {
        eventually("the guardian", || self.guardians().pop())
    }

    pub(crate) fn guardians(&self) -> Vec<Process> {
        self.living().into_iter().filter(Process::is_guardian).collect()
    }

    /// Waits until a file is there and is not empty, and reads it.
    pub(crate) fn await_file(&self, name: &str) -> String {
        let read = || fs::read_to_string(self.path(name)).ok().filter(|text| !text.is_empty());
        eventually(&format!("the file {name}"), read)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for process in self.living() {
            process.signal(Signal::KILL);
        }
        if let Some((table, product)) = &self.table
            && let Err(error) = drop_tables(*product, &self.url, [table, &self.other_table()])
        {
            // The test has its own verdict.
            eprintln!("table {table} is left behind in {product}: {error}");
        }
    }
}

/// Nobody else removes them from a server that stays.
fn drop_tables(product: Product, url: &str, tables: [&str; 2]) -> Result<(), Box<dyn Error>> {
    let statement = format!("DROP TABLE IF EXISTS {}, {}", tables[0], tables[1]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let drop = async {
        match product {
            Product::Postgres => {
                let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
                let (dropped, _) = tokio::join!(
                    async {
                        let dropped = client.batch_execute(&statement).await;
                        drop(client);
                        dropped
                    },
                    connection
                );
                dropped?;
            }
            Product::MariaDb | Product::MySql => {
                let mut connection = mysql_async::Conn::new(Opts::from_url(url)?).await?;
                connection.query_drop(statement).await?;
                connection.disconnect().await?;
            }
        }
        Ok(())
    };
    runtime.block_on(async { timeout(PATIENCE, drop).await? })
}

#[derive(Debug, Clone)]
pub(crate) struct Process {
    pid: i32,
    words: Vec<String>,
}

impl Process {
    fn new(pid: i32) -> Self {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        Self { pid, words: line.trim_end_matches('\0').split('\0').map(str::to_owned).collect() }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    fn line(&self) -> String {
        self.words.join(" ")
    }

    fn is_lease(&self) -> bool {
        self.words[0].rsplit('/').next() == Some("lease")
    }

    fn is_guardian(&self) -> bool {
        self.is_lease() && self.words.get(1).is_some_and(|word| word == "__guardian")
    }

    pub(crate) fn lives(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_raw(self.pid).unwrap(), signal);
    }
}

/// A command that was started. It is killed when the test ends before it.
pub(crate) struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn take_stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// What standard output holds by now.
    pub(crate) fn shown(&self) -> String {
        read(&self.out)
    }

    /// Whether standard error holds this text by now.
    pub(crate) fn said(&self, text: &str) -> bool {
        read(&self.err).contains(text)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn wait(mut self) -> Outcome {
        let status = eventually("the end of the command", || self.child.try_wait().unwrap());
        Outcome { code: status.code(), out: read(&self.out), err: read(&self.err) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let ended = self.child.try_wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let err = fs::read(&self.err).unwrap_or_default();
            let (ended, err) = (ended.ok().flatten(), String::from_utf8_lossy(&err));
            eprintln!("process {} had ended as {ended:?}, and had said: {err:?}", self.child.id());
        }
    }
}

fn read(file: &Path) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned()
}

/// How a command ended. `code` is `None` after a signal.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }

    /// Asserts the exit code and that standard error holds one line, as every failure has it.
    #[track_caller]
    pub(crate) fn expect_line(self, code: i32) -> String {
        let outcome = self.expect(code);
        assert!(outcome.err.starts_with("lease: "), "{outcome:?}");
        assert!(outcome.err.ends_with('\n') && outcome.err.lines().count() == 1, "{outcome:?}");
        outcome.err
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut is_so: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = is_so() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn lease_file() -> &'static str {
    env!("CARGO_BIN_EXE_lease")
}
