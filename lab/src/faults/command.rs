//! `lab faults`: histories side by side, judged and told.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum as _};
use tokio::task::JoinSet;

use super::Failure;
use super::attack::{Attacked, attack};
use super::backend::Backend;
use super::disks::{self, Disk, Disks};
use super::figures::Figures;
use super::floors::{floors, not_judged};
use super::ground::Ground;
use super::jobs::{self, Job, Tier};
use super::kind::Kind;
use super::report::{Count, Report, Told};
use super::world::{Wanted, World};
use crate::check::{self, check};
use crate::history::History;

/// What is attacked, how and for how long.
#[derive(Debug, Clone, Args)]
pub struct Choice {
    /// Attack this engine only; may be given more than once
    #[arg(long, value_enum)]
    backend: Vec<Backend>,
    /// So many minutes of mixed faults on each engine, in place of a tier
    #[arg(long, conflicts_with_all = ["seconds", "tier"])]
    minutes: Option<u64>,
    /// So many seconds of mixed faults on each engine, in place of a tier
    #[arg(long, conflicts_with = "tier")]
    seconds: Option<u64>,
    /// What all that is random is made from; printed when not given
    #[arg(long)]
    seed: Option<u64>,
    /// These kinds of faults only, separated by commas
    #[arg(long, value_enum, value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// How much is done, and must be
    #[arg(long, value_enum, default_value = "commit")]
    tier: Tier,
    /// The time in so many histories
    #[arg(long)]
    histories: Option<u32>,
    /// Write all figures to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Keep the histories without violations too
    #[arg(long)]
    keep: bool,
}

const ALL: [Backend; 4] = [Backend::Postgres, Backend::Mariadb, Backend::Mysql, Backend::Sqlite];

/// So many mixed histories of a minute each engine has in the nightly tier.
pub(super) const NIGHTLY: u32 = 50;

/// Where histories lie.
const FOLDER: &str = "target/lab/faults";

/// Attacks, judges and tells. `true`: no violation, and what the tier demands was reached.
///
/// # Errors
///
/// The lab itself cannot go on.
pub async fn run(choice: Choice) -> Result<bool, Failure> {
    let since = Instant::now();
    let seed = choice.seed.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs());
    let backends = if choice.backend.is_empty() { ALL.to_vec() } else { choice.backend.clone() };
    let jobs: Vec<(Vec<Job>, usize)> = backends.iter().map(|backend| choice.jobs(*backend, seed)).collect();
    if jobs.iter().flat_map(|(jobs, _)| jobs).any(Job::fills_the_disk) {
        let with_servers = backends.iter().any(|backend| backend.product().is_some());
        disks::have(&Path::new(FOLDER).join("disks"), with_servers)?;
    }
    println!("seed {seed}");
    let folder = Path::new(FOLDER).join(format!("{seed}-{}", std::process::id()));
    let disks = Arc::new(Disks::of_this_process());
    let mut histories = Vec::new();
    let mut lanes = JoinSet::new();
    for (backend, (jobs, at_once)) in backends.iter().zip(jobs) {
        let (folder, disks) = (folder.clone(), Arc::clone(&disks));
        lanes.spawn(lane(*backend, jobs, at_once, choice.keep, folder, disks));
    }
    while let Some(lane) = lanes.join_next().await {
        histories.extend(lane??);
    }
    histories.sort_by_key(|told: &Told| (told.backend, told.number));
    // Only an empty one goes.
    drop(std::fs::remove_dir(&folder));
    let mut below_the_floor = not_judged(&histories, &backends);
    if choice.time().is_none() {
        let wanted = choice.wanted().unwrap_or_else(|| Kind::value_variants().to_vec());
        below_the_floor.extend(floors(choice.tier, &histories, &backends, &wanted));
    }
    let report = Report { histories, below_the_floor, seconds: since.elapsed().as_secs() };
    println!("{report}");
    if let Some(path) = &choice.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
    }
    Ok(report.is_good())
}

impl Choice {
    fn time(&self) -> Option<Duration> {
        let seconds = self.minutes.map(|minutes| minutes * 60).or(self.seconds)?;
        Some(Duration::from_secs(seconds))
    }

    fn wanted(&self) -> Option<Vec<Kind>> {
        (!self.kinds.is_empty()).then(|| self.kinds.clone())
    }

    /// The histories of an engine, and how many go on at once.
    fn jobs(&self, backend: Backend, seed: u64) -> (Vec<Job>, usize) {
        let wanted = self.wanted();
        let of = |time, histories| jobs::mixed(backend, wanted.as_deref(), seed, time, histories);
        if let Some(time) = self.time() {
            return (of(time, self.histories), 1);
        }
        match self.tier {
            Tier::Commit => {
                (jobs::commit(backend, &wanted.unwrap_or_else(|| Kind::of(backend)), seed), usize::MAX)
            }
            Tier::Nightly => {
                let histories = self.histories.unwrap_or(NIGHTLY);
                let alone =
                    jobs::one_by_one(backend, &wanted.clone().unwrap_or_else(|| Kind::of(backend)), seed);
                let alone = alone.into_iter().map(|job| Job { number: job.number + histories, ..job });
                let mixed = of(Duration::from_secs(60) * histories, Some(histories));
                (mixed.into_iter().chain(alone).collect(), 2)
            }
            Tier::Release => (of(Duration::from_secs(3_600), self.histories), 1),
        }
    }
}

/// All histories of one engine. Each is a task of its own, for some faults block a thread.
async fn lane(
    backend: Backend,
    jobs: Vec<Job>,
    at_once: usize,
    keep: bool,
    folder: PathBuf,
    disks: Arc<Disks>,
) -> Result<Vec<Told>, Failure> {
    let shared = if jobs.iter().any(|job| !job.server_is_its_own()) {
        Ground::start(backend, false)?.map(Arc::new)
    } else {
        None
    };
    let mut all = Vec::new();
    let mut running = JoinSet::new();
    let mut jobs = jobs.into_iter();
    loop {
        while running.len() < at_once
            && let Some(job) = jobs.next()
        {
            let (shared, folder, disks) = (shared.clone(), folder.clone(), Arc::clone(&disks));
            running.spawn(one(keep, job, shared, folder, disks));
        }
        let Some(told) = running.join_next().await else { break };
        let told = told??;
        let faults: u64 = told.kinds.values().map(|count| count.injected).sum();
        println!(
            "{} history {}: {} s, {faults} faults, {} violations",
            told.backend,
            told.number,
            told.seconds,
            told.violations.len()
        );
        for violation in told.violations.iter().take(5) {
            println!("{violation}");
        }
        all.push(told);
    }
    Ok(all)
}

/// One history, judged.
async fn one(
    keep: bool,
    job: Job,
    shared: Option<Arc<Ground>>,
    folder: PathBuf,
    disks: Arc<Disks>,
) -> Result<Told, Failure> {
    let backend = job.backend;
    let folder = folder.join(format!("{}-{}", backend.name(), job.number));
    let ground = if job.server_is_its_own() {
        Ground::start(backend, job.steps_the_clock())?.map(Arc::new)
    } else {
        shared
    };
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let disk = if job.fills_the_disk() { Some(disks.take().ok_or("there is no disk left")?) } else { None };
    let file = disk.as_ref().map_or(&*folder, Disk::path).join("file");
    let wanted = Wanted {
        backend,
        seed: job.seed,
        folder: &folder,
        file: &file,
        ground,
        stepped_clock: job.steps_the_clock(),
        program: None,
    };
    let world = World::start(wanted).await?;
    let Attacked { done, took, reheld, deaths, problems } = attack(world, &job).await?;
    drop(disk);
    let judged = folder.clone();
    let judging = tokio::task::spawn_blocking(move || -> Result<_, Failure> {
        let history = History::read(&judged)?;
        Ok((Figures::of(&history), check(&history)))
    });
    let (figures, check::Report { violations, summary }) = judging.await??;
    let violations: Vec<String> =
        problems.into_iter().chain(violations.iter().map(ToString::to_string)).collect();
    let kept = keep || !violations.is_empty();
    if !kept {
        std::fs::remove_dir_all(&folder)?;
    }
    let kinds: Vec<_> = job.kinds.iter().map(|kind| kind.name()).collect();
    Ok(Told {
        backend: backend.name(),
        number: job.number,
        seed: job.seed,
        seconds: took.as_secs(),
        kinds: Count::all(&done),
        figures,
        summary,
        reheld_ms: u64::try_from(reheld.as_millis())?,
        deaths,
        violations,
        kept: kept.then(|| folder.display().to_string()),
        replay: format!(
            "cargo xtask faults --backend {} --seed {} --seconds {} --histories 1 --keep --kinds {}",
            backend.name(),
            job.seed,
            took.as_secs(),
            kinds.join(",")
        ),
    })
}
