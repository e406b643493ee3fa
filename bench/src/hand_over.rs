//! From the start of a release in one process to the work starting in another.

use std::time::Duration;

use lease_core::Timings;

use crate::engine::{Engine, fresh_name};
use crate::figures::{Ratios, millis, percentile};
use crate::observed::Notifying;
use crate::others::{COMMITS_PER_SECOND, beside_commits};
use crate::report::{Figure, Goal};
use crate::rivals::server::{Program, Server};
use crate::worker::Worker;
use crate::{Outcome, Trial};

/// Short, so that who only polls does not take all day.
const TTL: Duration = Duration::from_secs(6);

/// The first open connections and listen.
const WARM_UP: usize = 2;

/// How long who waits has been idle before the release, at least.
const IDLE: Duration = Duration::from_millis(200);

/// How long what a release left behind has until the next is measured beside it.
const SETTLE: Duration = Duration::from_millis(20);

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let timings = Timings::from_ttl(TTL)?;
    let (heard, beside) = heard(trial, &timings).await?;
    let [polled] = {
        let pairs = [Pair::ours(trial, &timings, Notifying::Off)?];
        hand_overs(trial, pairs, timings.renew(), trial.count(40, 8), "polled").await?
    };
    let poll = timings.renew();
    let goal = match trial.place.engine {
        engine if hears(engine) => 10.0,
        _ => millis(poll),
    };
    let polling = format!("polling every {poll:?} or less");
    let mut figures = vec![
        Figure::of_times("hand-over", &heard, 50).goal(Goal::Below(goal)),
        Figure::of_times("hand-over", &heard, 99),
        Figure::of_times(&format!("{polling}:"), &polled, 50),
        Figure::of_times(&format!("{polling}:"), &polled, 99),
    ];
    figures.extend(beside);
    if trial.place.engine == Engine::Sqlite {
        let pairs = [Pair::ours(trial, &timings, Notifying::On)?];
        let busy = hand_overs(trial, pairs, IDLE, trial.count(100, 20), "heard");
        let [busy] = beside_commits(trial.place, busy)?;
        let what = format!("beside {COMMITS_PER_SECOND} commits/s:");
        figures.extend([50, 99].map(|hundredths| Figure::of_times(&what, &busy, hundredths)));
    }
    Ok(figures)
}

/// With notices; on PostgreSQL beside etcd, whose figures come with it.
async fn heard(trial: &Trial<'_>, timings: &Timings) -> Outcome<(Vec<Duration>, Vec<Figure>)> {
    let count = trial.count(400, 40);
    // The release comes at any point between two looks, each as often.
    let range = if hears(trial.place.engine) { IDLE } else { timings.renew() };
    let ours = Pair::ours(trial, timings, Notifying::On)?;
    let etcd = match trial.place.engine {
        Engine::Postgres => Some(Program::Etcd.start(trial).await),
        _ => None,
    };
    let Some(Ok(etcd)) = etcd else {
        let missing = etcd.and_then(Result::err).map(|error| Figure::missing("etcd hand-over", error));
        let [heard] = hand_overs(trial, [ours], range, count, "heard").await?;
        return Ok((heard, missing.into_iter().collect()));
    };
    // Once more tells what is chance.
    let pairs = [ours, Pair::etcd(&etcd)?, Pair::etcd(&etcd)?];
    let [heard, theirs, again] = hand_overs(trial, pairs, range, count, "heard").await?;
    let beside = beside_etcd([&heard, &theirs, &again], trial.count(20, 5), &etcd);
    Ok((heard, beside))
}

/// So many of each make a round, whose medians are compared.
fn beside_etcd(took: [&[Duration]; 3], round: usize, etcd: &Server) -> Vec<Figure> {
    let medians = |took: &[Duration]| -> Vec<f64> {
        took.chunks(round).filter_map(|took| percentile(took, 50)).map(millis).collect()
    };
    let [ours, theirs, again] = took.map(medians);
    let ratios = Ratios::new(&ours, &theirs);
    // Of a ratio far from 1 it is as large a part.
    let chance = Ratios::new(&again, &theirs).chance() * ratios.median();
    vec![
        Figure::of_times("etcd hand-over", took[1], 50).also(&format!("{}, ttl {TTL:?}", etcd.version)),
        Figure::of_times("etcd hand-over", took[1], 99),
        Figure::of_ratios("hand-over over etcd's, p50", &ratios, chance).goal(Goal::Below(1.0)),
    ]
}

/// Whether a store of that engine hears of releases at all.
fn hears(engine: Engine) -> bool {
    matches!(engine, Engine::Sqlite | Engine::Postgres)
}

/// Two processes that hand a name to each other.
struct Pair {
    holder: Worker,
    waiter: Worker,
}

impl Pair {
    fn ours(trial: &Trial<'_>, timings: &Timings, notifying: Notifying) -> Outcome<Self> {
        let name = fresh_name("hand-over");
        Self::begin(|| Worker::start(trial.place, &name, timings, notifying))
    }

    fn etcd(etcd: &Server) -> Outcome<Self> {
        let name = fresh_name("hand-over");
        Self::begin(|| Worker::start_etcd(etcd.port(), &name, TTL))
    }

    fn begin(start: impl Fn() -> Outcome<Worker>) -> Outcome<Self> {
        let (mut holder, waiter) = (start()?, start()?);
        holder.acquire()?;
        holder.started()?;
        Ok(Self { holder, waiter })
    }

    /// From the end of the work in one to the start of the work in the other, which has been waiting.
    fn hand_over(&mut self) -> Outcome<Duration> {
        let released = self.holder.end_work()?;
        let started = self.waiter.started()?;
        std::mem::swap(&mut self.holder, &mut self.waiter);
        Ok(started.saturating_sub(released))
    }
}

/// How long each took, for each of the pairs. All wait at once, from [`IDLE`] to so much longer, and then hand over one after
/// the other.
async fn hand_overs<const N: usize>(
    trial: &Trial<'_>,
    mut pairs: [Pair; N],
    longer: Duration,
    count: usize,
    what: &str,
) -> Outcome<[Vec<Duration>; N]> {
    let mut took = [const { Vec::new() }; N];
    for n in 0..WARM_UP + count {
        for pair in &mut pairs {
            pair.waiter.acquire()?;
        }
        let part = u32::try_from(n * 37 % 100)?;
        tokio::time::sleep(IDLE + longer * part / 100).await;
        // Each comes first, in the middle and last as often as the others.
        for which in (0..N).map(|place| (place + n) % N) {
            took[which].push(pairs[which].hand_over()?);
            if N > 1 {
                tokio::time::sleep(SETTLE).await;
            }
        }
        trial.progress.step(what, n + 1, WARM_UP + count);
    }
    Ok(took.map(|mut took| took.split_off(WARM_UP)))
}
