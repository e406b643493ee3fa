//! An etcd or a Redis of one node, on the loopback, with its data beside the benchmark's other files, as long as a question takes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::party::{Job, Who};
use crate::{Outcome, Trial};

/// What is run, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// As it comes: flushed before it answers.
    Etcd,
    /// Flushed before it answers.
    DurableRedis,
    /// As it comes: what it answered last is lost in a crash.
    Redis,
}

/// It ends with this value, and with the thread that started it, in whatever way.
pub(crate) struct Server {
    pub(crate) program: Program,
    pub(crate) version: String,
    port: u16,
    child: Child,
    /// Dropped after the program has ended.
    folder: TempDir,
}

/// How long it may take until it serves.
const START: Duration = Duration::from_secs(30);

/// Another may take the port between the look for one that is free and the start.
const TRIES: usize = 3;

impl Program {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::DurableRedis => "Redis that flushes always",
            Self::Redis => "Redis that flushes later",
        }
    }

    /// What it is set to.
    pub(super) fn settings(self) -> &'static str {
        match self {
            Self::Etcd => "its defaults, flushed with each answer",
            Self::DurableRedis => "appendonly yes, appendfsync always",
            Self::Redis => "its defaults: not durable",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::DurableRedis | Self::Redis => "redis-server",
        }
    }

    fn way_out(self) -> &'static str {
        match self {
            Self::Etcd => "on Debian and Ubuntu `sudo apt-get install etcd-server`",
            Self::DurableRedis | Self::Redis => "on Debian and Ubuntu `sudo apt-get install redis-server`",
        }
    }

    fn arguments(self, folder: &Path, port: u16) -> Outcome<Vec<OsString>> {
        let words: Vec<String> = match self {
            Self::Etcd => {
                let clients = format!("http://127.0.0.1:{port}");
                // It wants to be reached by others, though there are none.
                let peers = format!("http://127.0.0.1:{}", test_servers::free_port()?);
                let initial = format!("default={peers}");
                [
                    ["--listen-client-urls", &clients],
                    ["--advertise-client-urls", &clients],
                    ["--listen-peer-urls", &peers],
                    ["--initial-advertise-peer-urls", &peers],
                    ["--initial-cluster", &initial],
                ]
                .concat()
                .into_iter()
                .map(str::to_owned)
                .collect()
            }
            Self::DurableRedis | Self::Redis => {
                let port = port.to_string();
                let mut words = vec!["--bind", "127.0.0.1", "--port", &port];
                if self == Self::DurableRedis {
                    words.extend(["--appendonly", "yes", "--appendfsync", "always"]);
                }
                words.into_iter().map(str::to_owned).collect()
            }
        };
        let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        words.push(if self == Self::Etcd { "--data-dir".into() } else { "--dir".into() });
        words.push(folder.into());
        Ok(words)
    }

    /// What it says of itself.
    fn version(self) -> Outcome<String> {
        let said = Command::new(self.file()).arg("--version").stdin(Stdio::null()).output();
        let said = match said {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(format!("{} is not installed; {}", self.file(), self.way_out()).into());
            }
            said => String::from_utf8_lossy(&said?.stdout).into_owned(),
        };
        version_in(&said).ok_or_else(|| format!("{} does not say its version: {said:?}", self.file()).into())
    }

    /// Starts it and waits until it does what it will be asked for.
    pub(crate) async fn start(self, trial: &Trial<'_>) -> Outcome<Server> {
        let version = self.version()?;
        let mut failure = None;
        for _ in 0..TRIES {
            let mut server = self.launch(trial.scratch, &version)?;
            match server.serves(trial).await {
                Ok(()) => return Ok(server),
                Err(error) => failure = Some(format!("{error}; its last words: {}", server.last_words())),
            }
        }
        Err(format!("{} does not start: {}", self.file(), failure.unwrap_or_default()).into())
    }

    fn launch(self, scratch: &Path, version: &str) -> Outcome<Server> {
        let folder = tempfile::tempdir_in(scratch)?;
        let port = test_servers::free_port()?;
        let said = File::create(folder.path().join("said"))?;
        // The kernel sees to it that it does not outlive us, be we killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", self.file()]);
        command.args(self.arguments(&folder.path().join("data"), port)?).current_dir(folder.path());
        fs::create_dir(folder.path().join("data"))?;
        // From there etcd takes settings too.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"ETCD_"))
        {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        let child = command.spawn().map_err(|error| format!("cannot run setpriv of util-linux: {error}"))?;
        Ok(Server { program: self, version: version.to_owned(), port, child, folder })
    }
}

impl Server {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its client.
    pub(super) fn who(&self) -> Who {
        match self.program {
            Program::Etcd => Who::Etcd { port: self.port },
            Program::DurableRedis | Program::Redis => Who::Redis { port: self.port },
        }
    }

    async fn serves(&mut self, trial: &Trial<'_>) -> Outcome<()> {
        let since = Instant::now();
        loop {
            let attempt = async { self.who().join(trial.place).await?.perform(Job::Pair).await };
            let failure = match timeout(START, attempt).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error,
                Err(late) => late.into(),
            };
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("it has ended, {status}").into());
            }
            if since.elapsed() > START {
                return Err(failure);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn last_words(&self) -> String {
        let said = fs::read(self.folder.path().join("said")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("none").to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop((self.child.kill(), self.child.wait()));
    }
}

/// `3.4.23` of `etcd Version: 3.4.23`, `7.0.15` of `Redis server v=7.0.15 sha=0`.
fn version_in(said: &str) -> Option<String> {
    let words = said.split([' ', '=', '\n']);
    words
        .into_iter()
        .find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_says_its_version_in_its_own_way() {
        let etcd = "etcd Version: 3.4.23\nGit SHA: Not provided (use ./build instead of go build)\nGo Version: go1.19.8\n";
        let redis =
            "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1f1c7f2b0a4bd4fa\n";
        assert_eq!(version_in(etcd).as_deref(), Some("3.4.23"));
        assert_eq!(version_in(redis).as_deref(), Some("7.0.15"));
        assert_eq!(version_in("none\n"), None);
    }
}
