//! How long servers live, and what is left of them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use test_servers::{Product, Server, Setup};

/// Another process, with a server of its own.
struct Holder {
    process: Child,
    data: PathBuf,
}

impl Holder {
    fn of(product: Product, how: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_hold"));
        process.args([product.name(), how]);
        Self::started(process)
    }

    fn started(mut process: Command) -> Self {
        let mut process = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut data = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut data).unwrap();
        Self { process, data: data.trim_end().into() }
    }

    /// Kills it, which it cannot see coming.
    fn kill(mut self) -> PathBuf {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.data
    }
}

/// How many processes work in this folder, be it removed or not.
fn processes_in(folder: &Path) -> usize {
    let folder = folder.to_str().unwrap();
    let is_in = |place: PathBuf| place.to_string_lossy().starts_with(folder);
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter(|pid| fs::read_link(pid.path().join("cwd")).is_ok_and(is_in)).count()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_server_ends_with_the_process_that_is_killed() {
    let holders = Product::ALL.map(|product| Holder::of(product, "running"));
    for holder in holders {
        assert_ne!(processes_in(&holder.data), 0, "{}", holder.data.display());
        let data = holder.kill();
        until("the server is gone", || processes_in(&data) == 0);
    }
}

#[test]
fn the_next_server_removes_what_a_killed_process_left_and_ends_what_it_left_paused() {
    let holder = Holder::of(Product::Postgres, "paused");
    assert_ne!(processes_in(&holder.data), 0);
    let left = holder.kill();
    let next = Server::start(Product::Postgres, Setup::default());
    assert!(!left.exists(), "{}", left.display());
    assert_eq!(processes_in(&left), 0);
    drop(next);
}

#[test]
fn the_next_server_leaves_alone_what_a_living_process_has() {
    let holder = Holder::of(Product::Postgres, "running");
    drop(Server::start(Product::Postgres, Setup::default()));
    assert_ne!(processes_in(&holder.data), 0);
    assert!(holder.data.join("PG_VERSION").exists());
    holder.kill();
}

#[test]
fn nothing_is_left_of_a_server_that_is_dropped() {
    for product in Product::ALL {
        let server = Server::start(product, Setup::default());
        let data = server.data();
        drop(server);
        assert!(!data.exists(), "{}", data.display());
        assert_eq!(processes_in(&data), 0, "{product}");
    }
}

/// A folder with a space in its name and the program in it, which takes it for cargo's target: nothing
/// that this machine has made already is used.
fn new_target(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&target);
    fs::create_dir_all(&target).unwrap();
    fs::write(target.join("CACHEDIR.TAG"), "").unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_hold"), target.join("hold")).unwrap();
    target
}

#[test]
fn a_mariadb_is_made_in_any_folder_and_without_the_options_of_the_user() {
    let target = new_target("a target of MariaDB");
    fs::write(target.join(".my.cnf"), "[mariadbd]\nno-such-option=1\n").unwrap();
    let old = target.join("test-servers/new-mariadb-10.6.1-0");
    fs::create_dir_all(&old).unwrap();
    let mut hold = Command::new(target.join("hold"));
    hold.arg("mariadb").env("HOME", &target);
    let data = Holder::started(hold).kill();
    assert!(data.starts_with(&target), "{}", data.display());
    until("the server is gone", || processes_in(&data) == 0);
    assert!(!old.exists(), "a data directory of another version stays");
    fs::remove_dir_all(target).unwrap();
}

#[test]
fn neither_the_umask_nor_the_variables_of_libpq_keep_a_postgres_and_what_is_around_it_from_running() {
    let target = new_target("a target of PostgreSQL");
    let mut hold = Command::new("sh");
    hold.args(["-c", "umask 077 && exec \"$0\" postgres surrounded"]).arg(target.join("hold"));
    for variable in ["PGOPTIONS", "PGSSLMODE", "PGSERVICE", "PGDATA"] {
        hold.env(variable, "none such");
    }
    let data = Holder::started(hold).kill();
    assert!(data.starts_with(&target), "{}", data.display());
    until("the servers are gone", || processes_in(&target) == 0);
    fs::remove_dir_all(target).unwrap();
}
