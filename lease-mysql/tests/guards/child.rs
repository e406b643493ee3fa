//! A process of its own with a guarded transaction of three inserts, to be stopped, killed and cut off.

use std::env;
use std::io::{self, BufRead as _, Write as _};
use std::process::{Stdio, exit};
use std::time::Duration;

use lease_core::guard::GuardError;
use lease_core::{Claimed, Leases, Timings};
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::Error;
use lease_mysql::mysql_async::prelude::Queryable;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::support::{LONG, connect};
use crate::world::NAME;

/// The least there is.
pub(crate) const TTL: Duration = Duration::from_secs(4);

/// The URLs of the store and of the transaction's connection, one behind the other.
const URLS: &str = "LEASE_TEST_GUARDED_CHILD";

/// It begins when it is told to, and says how it ended: `committed`, `lost`, `unknown`, `ended` or `failed`.
pub(crate) struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Started, and its lease claimed.
    pub(crate) async fn start(store: &str, transaction: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["child::the_program_of_the_table", "--exact", "--nocapture"])
            .env(URLS, format!("{store} {transaction}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut program = Self { child, lines };
        assert_eq!(program.says().await.as_deref(), Some("ready"));
        program
    }

    pub(crate) async fn begin(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").await.unwrap();
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().unwrap().try_into().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// How the transaction ended; `None` when the process was killed. Then it is gone.
    pub(crate) async fn ended(mut self) -> Option<String> {
        let answer = self.says().await;
        tokio::time::timeout(LONG, self.child.wait()).await.expect("it does not end").unwrap();
        answer
    }

    async fn says(&mut self) -> Option<String> {
        let line = async {
            loop {
                // The harness has lines of its own.
                let line = self.lines.next_line().await.unwrap()?;
                if let Some((_, said)) = line.split_once("says: ") {
                    return Some(said.to_owned());
                }
            }
        };
        tokio::time::timeout(LONG, line).await.expect("it says nothing")
    }
}

/// What runs in that process; elsewhere it does nothing.
#[test]
fn the_program_of_the_table() {
    let Ok(urls) = env::var(URLS) else { return };
    let (store, transaction) = urls.split_once(' ').unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(program(store, transaction));
    // What is left to be given back expires instead.
    exit(0);
}

async fn program(store: &str, transaction: &str) {
    let store = MysqlStore::open(store).unwrap();
    let timings = Timings::from_ttl(TTL).unwrap();
    let leases = Leases::builder(store.clone()).timings(timings).on_stuck(|_| {}).build().unwrap();
    // On a machine that is slow a claim fails, or was granted without anybody knowing and has to expire.
    let lease = loop {
        match leases.claim(NAME).await {
            Ok(Claimed::Granted(lease)) => break lease,
            Ok(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(error) if error.kind().retry_helps() => {}
            Err(error) => panic!("no claim: {error}"),
        }
    };
    let conn = connect(transaction).await;
    say("ready");
    tokio::task::spawn_blocking(|| io::stdin().lock().read_line(&mut String::new())).await.unwrap().unwrap();
    let run = async {
        let mut tx = store.guard(&lease.tenure()).begin(conn).await?;
        for id in 1..=3 {
            let insert = format!("INSERT INTO work (id) VALUES ({id})");
            tx.query_drop(insert).await.map_err(|error| match error {
                Error::Other(refused) => *refused.downcast::<GuardError>().unwrap(),
                error => GuardError::Failed(lease_core::store::StoreError::new(
                    lease_core::ErrorKind::Other,
                    error.to_string(),
                )),
            })?;
        }
        tx.commit().await
    };
    say(match run.await {
        Ok(_) => "committed",
        Err(GuardError::Lost(_)) => "lost",
        Err(GuardError::Unknown(_)) => "unknown",
        Err(GuardError::Ended(_)) => "ended",
        Err(_) => "failed",
    });
}

fn say(what: &str) {
    println!("\nsays: {what}");
    io::stdout().flush().unwrap();
}
