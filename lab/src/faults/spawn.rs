//! Processes that do not outlive us, however we end.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Sender};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

/// How workers are started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Life {
    /// The program, if not this one: a test's own has other subcommands.
    pub(crate) program: Option<PathBuf>,
    /// What they have in their environment.
    pub(crate) environment: Vec<(&'static str, PathBuf)>,
    /// Whether the modes of files count for them though they may be root.
    pub(crate) heeds_modes: bool,
}

impl Life {
    /// The program, to be called with its arguments. The process that is started becomes it, and is killed when we end.
    pub(crate) fn command(&self) -> Command {
        // Not by its path: the file there may be another one by now, when all is built anew while a long run goes on.
        let own = || PathBuf::from(format!("/proc/{}/exe", std::process::id()));
        let program = self.program.clone().unwrap_or_else(own);
        let mut words: Vec<std::ffi::OsString> = Vec::new();
        words.extend(["setpriv", "--pdeathsig", "KILL"].map(Into::into));
        if self.heeds_modes && rustix::process::geteuid().is_root() {
            let dropped = "-dac_override,-dac_read_search";
            words.extend(["--inh-caps", dropped, "--bounding-set", dropped].map(Into::into));
        }
        words.push("--".into());
        words.push(program.into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Starts it from the one thread that ends with this process: the kernel takes the end of the thread that started a child for
/// the end of the parent.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    type Wish = (Command, Sender<io::Result<Child>>);
    static WISHES: LazyLock<Mutex<Sender<Wish>>> = LazyLock::new(|| {
        let (wishes, heard) = mpsc::channel::<Wish>();
        thread::spawn(move || {
            for (mut command, answer) in heard {
                drop(answer.send(command.spawn()));
            }
        });
        Mutex::new(wishes)
    });
    let (answer, child) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts workers is gone");
    WISHES.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}
