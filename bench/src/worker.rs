//! A second process: one that waits for a name, works, and gives it back when it is told to; or one that holds many names.
//!
//! It is told by lines on its standard input and tells by lines on its standard output.

use std::convert::Infallible;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use lease_core::{Claimed, Lease, Leases, Tenure, Timings};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::engine::{Engine, Place, fresh_name};
use crate::observed::{Notifying, ObservedStore, Renewing};
use crate::rivals::etcd;
use crate::{Outcome, clock, processes};

/// How this program is called to be one.
pub(crate) const SUBCOMMAND: &str = "worker-of-the-benchmark";

/// In the place of an engine's name.
const ETCD: &str = "etcd";

/// Longer than any run.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A worker, killed when this is dropped.
pub(crate) struct Worker {
    child: Child,
    orders: ChildStdin,
    told: BufReader<ChildStdout>,
}

/// What a worker has cost since it was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) statements: u64,
    pub(crate) processor: Duration,
    /// How often its threads went to sleep.
    pub(crate) sleeps: u64,
    /// The bytes of memory that it has now.
    pub(crate) resident: u64,
    /// The tasks that live in its runtime now.
    pub(crate) tasks: u64,
    /// How many of the names that it was told to hold it holds now.
    pub(crate) held: u64,
}

impl Worker {
    /// Starts one for a name, and waits until it has its store.
    pub(crate) fn start(place: &Place, name: &str, timings: &Timings, notifying: Notifying) -> Outcome<Self> {
        Self::launch(place, name, timings, notifying, Renewing::Together)
    }

    /// Starts one that [holds](Self::hold) many names, with the default timings.
    pub(crate) fn start_to_hold(place: &Place, renewing: Renewing) -> Outcome<Self> {
        Self::launch(place, &fresh_name("holding"), &Timings::default(), Notifying::On, renewing)
    }

    fn launch(
        place: &Place,
        name: &str,
        timings: &Timings,
        notifying: Notifying,
        renewing: Renewing,
    ) -> Outcome<Self> {
        let renewing = if renewing == Renewing::Together { "together" } else { "singly" };
        let notifying = if notifying == Notifying::On { "on" } else { "off" };
        let ttl = millis(timings.ttl());
        Self::spawn([place.engine.name(), &place.at, &place.table, name, &ttl, notifying, renewing])
    }

    /// Starts one that does the same with etcd, and knows no cost.
    pub(crate) fn start_etcd(port: u16, name: &str, ttl: Duration) -> Outcome<Self> {
        Self::spawn([ETCD, &port.to_string(), "", name, &millis(ttl), "on", "together"])
    }

    fn spawn(words: [&str; 7]) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(SUBCOMMAND)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(orders), Some(told)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a worker has no pipes".into());
        };
        let mut worker = Self { child, orders, told: BufReader::new(told) };
        worker.hear("ready")?;
        Ok(worker)
    }

    /// Has it claim the name, waiting if need be, and work. Answers at once.
    pub(crate) fn acquire(&mut self) -> Outcome<()> {
        self.order("acquire")
    }

    /// Waits until its work starts; answers when that was.
    pub(crate) fn started(&mut self) -> Outcome<Duration> {
        Ok(Duration::from_nanos(self.hear("started")?.parse()?))
    }

    /// Has its work end, and waits until the name is given back; answers when the work ended.
    pub(crate) fn end_work(&mut self) -> Outcome<Duration> {
        self.order("end")?;
        Ok(Duration::from_nanos(self.hear("ended")?.parse()?))
    }

    /// Has it claim so many more names, each of its own, and keep them.
    pub(crate) fn hold(&mut self, more: usize) -> Outcome<()> {
        self.order(&format!("hold {more}"))?;
        self.hear("holding").map(drop)
    }

    pub(crate) fn cost(&mut self) -> Outcome<Cost> {
        self.order("cost")?;
        let line = self.hear("cost")?;
        let mut numbers = line.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next().ok_or("a worker told less than it should");
        let (statements, processor) = (next()??, Duration::from_nanos(next()??));
        let (sleeps, resident, tasks, held) = (next()??, next()??, next()??, next()??);
        Ok(Cost { statements, processor, sleeps, resident, tasks, held })
    }

    /// Kills it as a crash would; answers when that began.
    pub(crate) fn kill(mut self) -> Outcome<Duration> {
        let killed = clock::now();
        self.child.kill()?;
        self.child.wait()?;
        Ok(killed)
    }

    fn order(&mut self, order: &str) -> Outcome<()> {
        Ok(writeln!(self.orders, "{order}")?)
    }

    /// The rest of the next line, which begins with this word.
    fn hear(&mut self, word: &str) -> Outcome<String> {
        let mut line = String::new();
        self.told.read_line(&mut line)?;
        match line.trim_end().strip_prefix(word) {
            Some(rest) => Ok(rest.trim_start().to_owned()),
            None => Err(format!("a worker should have said {word:?} and said {line:?}").into()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop((self.child.kill(), self.child.wait()));
    }
}

fn millis(ttl: Duration) -> String {
    ttl.as_millis().to_string()
}

/// By what a worker has its name.
#[derive(Clone)]
enum Locks {
    Ours { leases: Leases, statements: Arc<AtomicU64> },
    Etcd { client: etcd::Client, ttl: Duration },
}

/// The life of a worker: until its standard input is closed.
pub(crate) async fn serve(words: Vec<String>) -> Outcome<()> {
    let [engine, at, table, name, ttl, notifying, renewing] = &words[..] else {
        return Err("a worker wants engine, place, table, name, ttl in milliseconds, `on` or `off`, and how it renews".into());
    };
    let ttl = Duration::from_millis(ttl.parse()?);
    let locks = if engine == ETCD {
        Locks::Etcd { client: etcd::Client::connect(at.parse()?).await?, ttl }
    } else {
        let place = Place { engine: Engine::from_str(engine, false)?, at: at.clone(), table: table.clone() };
        let notifying = if notifying == "on" { Notifying::On } else { Notifying::Off };
        let renewing = if renewing == "together" { Renewing::Together } else { Renewing::Singly };
        let store = ObservedStore::new(place.store().await?, notifying).renewing(renewing);
        let statements = store.count();
        let leases = Leases::builder(store).timings(Timings::from_ttl(ttl)?).build()?;
        Locks::Ours { leases, statements }
    };
    let end = Arc::new(Notify::new());
    let mut orders = orders();
    let mut held = Vec::new();
    println!("ready");
    while let Some(order) = orders.recv().await {
        match (order.as_str(), &locks) {
            ("acquire", locks) => {
                let (locks, name, end) = (locks.clone(), name.clone(), Arc::clone(&end));
                tokio::spawn(async move {
                    match locks.hold_once(&name, work(end)).await {
                        Ok(ended) => println!("ended {}", ended.as_nanos()),
                        Err(error) => println!("failed {error}"),
                    }
                });
            }
            ("end", _) => end.notify_one(),
            ("cost", Locks::Ours { statements, .. }) => {
                let (asked, used) = (statements.load(Ordering::Relaxed), clock::used().as_nanos());
                let tasks = Handle::current().metrics().num_alive_tasks();
                let still = held.iter().filter(|lease: &&Lease| lease.check()).count();
                println!("cost {asked} {used} {} {} {tasks} {still}", sleeps(), processes::resident());
            }
            (order, Locks::Ours { leases, .. }) if order.starts_with("hold ") => {
                let more = order.trim_start_matches("hold ").parse()?;
                hold_more(leases, name, &mut held, more).await?;
                println!("holding {}", held.len());
            }
            (other, _) => return Err(format!("a worker knows no {other:?}").into()),
        }
    }
    Ok(())
}

/// Answers when it ended.
async fn work(end: Arc<Notify>) -> Duration {
    println!("started {}", clock::now().as_nanos());
    end.notified().await;
    // Told later: the pipe is not part of what is measured.
    clock::now()
}

impl Locks {
    /// Waits for the name, works, and gives it back.
    async fn hold_once(
        &self,
        name: &str,
        work: impl Future<Output = Duration> + Send + 'static,
    ) -> Outcome<Duration> {
        match self {
            Self::Ours { leases, .. } => {
                let Claimed::Granted(lease) = leases.acquire(name, DAY).await? else {
                    return Err("a day was too short".into());
                };
                let work = |_: Tenure| async move { Ok::<_, Infallible>(work.await) };
                Ok(lease.run(work).await.map_err(|error| error.to_string())?)
            }
            Self::Etcd { client, ttl } => client.hold(name, *ttl, work).await,
        }
    }
}

/// How many claims of a rush are under way at once.
const AT_ONCE: usize = 64;

async fn hold_more(leases: &Leases, name: &str, held: &mut Vec<Lease>, more: usize) -> Outcome<()> {
    let (mut next, end) = (held.len(), held.len() + more);
    let mut claims = JoinSet::new();
    while held.len() < end {
        while next < end && claims.len() < AT_ONCE {
            let (leases, name) = (leases.clone(), format!("{name} {next}"));
            claims.spawn(async move { leases.claim(name).await });
            next += 1;
        }
        match claims.join_next().await {
            Some(claimed) => match claimed?? {
                Claimed::Granted(lease) => held.push(lease),
                Claimed::Held(_) => return Err("a name of its own is held".into()),
            },
            None => return Err("a claim is lost".into()),
        }
    }
    Ok(())
}

/// The lines of standard input, read on a thread that may block.
fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// How often the threads of this process have gone to sleep; 0 where `/proc` does not tell.
fn sleeps() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |thread: std::fs::DirEntry| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    threads.filter_map(of).sum()
}
