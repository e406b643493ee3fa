//! Programs that die with us, and the processes of a folder.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};

use crate::Error;
use crate::instance::tail;

/// How long a process may outlive us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It is sent this signal when this process ends, in whatever way.
    Ours(Signal),
    /// Until somebody stops it.
    ItsOwn,
}

/// The user for programs that refuse to run as root; `None` when we are not root.
pub(crate) fn other_user() -> Result<Option<User>, Error> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let known = ["postgres", "nobody"].into_iter().find_map(|name| User::from_name(name).ok().flatten());
    known.map(Some).ok_or_else(|| {
        Error::new(
            "this runs as root, PostgreSQL refuses to, and there is no user postgres or nobody to run it",
        )
    })
}

/// A command that runs `program` in `folder`, as `user` if one is given, and lives as long as `life` says.
///
/// It is in a process group of its own, so that an interrupt typed at the terminal reaches the tests alone.
pub(crate) fn command(program: &OsStr, folder: &Path, user: Option<&User>, life: Life) -> Command {
    let mut command = match life {
        Life::Ours(signal) => {
            let mut command = Command::new("setpriv");
            command.process_group(0);
            // setpriv knows signals by the name without SIG.
            command.args(["--pdeathsig", signal.as_str().trim_start_matches("SIG")]);
            command
        }
        Life::ItsOwn => {
            let mut command = Command::new("setsid");
            command.arg("setpriv");
            command
        }
    };
    if let Some(user) = user {
        let (uid, gid) = (user.uid.to_string(), user.gid.to_string());
        command.args(["--reuid", &uid, "--regid", &gid, "--clear-groups"]);
        if is_closed_to(user, folder) {
            // A clone below root's home, say: the one right that lets this user enter it all the same.
            command.args(["--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"]);
        }
    }
    command.arg("--").arg(program).current_dir(folder).stdin(Stdio::null());
    command.env("TZ", "Europe/Berlin").env("LC_ALL", "C");
    // Libpq, and PostgreSQL's own programs, take servers, options and directories from there.
    for (name, _) in env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    command
}

fn is_closed_to(user: &User, folder: &Path) -> bool {
    let closed = |found: fs::Metadata| found.mode() & 0o001 == 0 && found.uid() != user.uid.as_raw();
    folder.ancestors().any(|folder| fs::metadata(folder).is_ok_and(closed))
}

/// Starts it from the one thread that ends with this process: the kernel takes the end of the thread
/// that started a child for the end of the parent.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, Sender<io::Result<Child>>);
    static ORDERS: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
        let (orders, receiver) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in receiver {
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let (answer, child) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts servers is gone");
    ORDERS.lock().map_err(|_| gone())?.send((command, answer)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

/// Runs it to its end; a failure comes with what it printed.
pub(crate) fn run(mut command: Command) -> Result<Output, Error> {
    let name = format!("{command:?}");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = spawn(command).map_err(Error::while_doing(format_args!("start {name}")))?;
    let output = child.wait_with_output().map_err(Error::while_doing(format_args!("run {name}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    Err(Error::new(format!(
        "{name} failed, {}: {}",
        output.status,
        tail(String::from_utf8_lossy(&said).trim_end())
    )))
}

/// Sends a signal; a process that is gone already is as good as told.
pub(crate) fn send(pid: Pid, signal: Signal) {
    let _ = kill(pid, signal);
}

/// The servers whose current folder is this one or below, each with all its processes; also when the
/// folder has been removed from under them.
pub(crate) fn all_within(folder: &Path) -> Vec<Pid> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_server_in(*pid, folder)).map(Pid::from_raw).collect()
}

/// A shell that looks around in the folder is no server.
fn is_server_in(pid: i32, folder: &Path) -> bool {
    let link = |name: &str| fs::read_link(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let program = link("exe");
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    let names = ["postgres", "mariadbd", "mysqld", "pgbouncer", LOADER];
    names.iter().any(|name| program.starts_with(name)) && link("cwd").starts_with(folder)
}

/// How the program begins that runs an unpacked MySQL.
const LOADER: &str = "ld-linux";

/// Kills all servers in this folder, and waits until it is gone.
pub(crate) fn end_all_within(folder: &Path) {
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(10) {
        let left = all_within(folder);
        if left.is_empty() {
            return;
        }
        for pid in left {
            send(pid, Signal::SIGKILL);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The state letter of a process, `T` for one that is stopped.
pub(crate) fn state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}
