//! From the expiry of a killed holder's row to the claim of who waits. Nobody probes, and nobody gives anything back.

use std::time::Duration;

use lease_core::{LeaseName, Timings};

use crate::engine::{Engine, fresh_name};
use crate::observed::Notifying;
use crate::report::{Figure, Goal};
use crate::rivals::etcd;
use crate::rivals::server::{Program, Server};
use crate::worker::Worker;
use crate::{Outcome, Trial};

/// Every kill costs one; MySQL takes none below 4 s, and etcd counts whole seconds.
const TTL: Duration = Duration::from_secs(5);

/// How long who waits has been idle before the kill, at least.
const IDLE: Duration = Duration::from_millis(600);

const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let timings = Timings::from_ttl(TTL)?;
    let store = trial.place.store().await?;
    let name = fresh_name("takeover");
    let row_name = LeaseName::new(&name)?;
    let start = || Worker::start(trial.place, &name, &timings, Notifying::On);
    let mut etcd = match trial.place.engine {
        Engine::Postgres => Some(BesideEtcd::begin(trial).await),
        _ => None,
    };
    let mut holder = start()?;
    holder.acquire()?;
    holder.started()?;
    let kills = trial.count(20, 4);
    let (mut took, mut since_kill) = (Vec::new(), Vec::new());
    for n in 0..kills {
        let mut waiter = start()?;
        waiter.acquire()?;
        if let Some(Ok(etcd)) = &mut etcd {
            etcd.wait()?;
        }
        let part = u32::try_from(n * 37 % 100)?;
        tokio::time::sleep(IDLE + IDLE * part / 100).await;
        let killed = holder.kill()?;
        if let Some(Ok(etcd)) = &mut etcd {
            etcd.kill()?;
        }
        // Nobody moves it any more but the next claim, which is seconds away.
        let left = store.inspect(&row_name, PATIENCE).await?.row.ok_or("the row is gone")?;
        since_kill.push(waiter.started()?.saturating_sub(killed));
        let taken = store.inspect(&row_name, PATIENCE).await?.row.ok_or("the row is gone")?;
        if taken.term == left.term {
            return Err("it was taken over before it was looked at".into());
        }
        if taken.claimed_at < left.expires_at {
            return Err("it was taken over before it had expired".into());
        }
        // Both by the database's clock, in whole milliseconds.
        took.push(taken.claimed_at.since(left.expires_at));
        holder = waiter;
        if let Some(Ok(etcd)) = &mut etcd {
            etcd.taken_over()?;
        }
        trial.progress.step("kills", n + 1, kills);
    }
    let mut figures = vec![
        Figure::of_times("after the expiry,", &took, 50),
        Figure::of_times("after the expiry,", &took, 100).goal(Goal::Below(50.0)),
    ];
    if let Some(etcd) = etcd {
        let set_to = format!("ttl {TTL:?}, renewed every {:.2?}", timings.renew());
        figures.extend(
            [50, 100].map(|part| Figure::of_times("from the kill,", &since_kill, part).also(&set_to)),
        );
        figures.extend(BesideEtcd::figures(etcd));
    }
    Ok(figures)
}

/// The same with etcd.
struct BesideEtcd {
    holder: Option<Worker>,
    waiter: Option<Worker>,
    killed: Duration,
    took: Vec<Duration>,
    name: String,
    server: Server,
}

const OUT_OF_TURN: &str = "there is no process of etcd's to do that";

impl BesideEtcd {
    async fn begin(trial: &Trial<'_>) -> Outcome<Self> {
        let (server, name) = (Program::Etcd.start(trial).await?, fresh_name("takeover"));
        let mut beside =
            Self { holder: None, waiter: None, killed: Duration::ZERO, took: Vec::new(), name, server };
        beside.wait()?;
        beside.next_holds()?;
        Ok(beside)
    }

    fn wait(&mut self) -> Outcome<()> {
        let mut waiter = Worker::start_etcd(self.server.port(), &self.name, TTL)?;
        waiter.acquire()?;
        self.waiter = Some(waiter);
        Ok(())
    }

    fn kill(&mut self) -> Outcome<()> {
        self.killed = self.holder.take().ok_or(OUT_OF_TURN)?.kill()?;
        Ok(())
    }

    fn taken_over(&mut self) -> Outcome<()> {
        let started = self.next_holds()?;
        self.took.push(started.saturating_sub(self.killed));
        Ok(())
    }

    /// Waits until who waits has it; answers when that was.
    fn next_holds(&mut self) -> Outcome<Duration> {
        let mut waiter = self.waiter.take().ok_or(OUT_OF_TURN)?;
        let started = waiter.started()?;
        self.holder = Some(waiter);
        Ok(started)
    }

    fn figures(beside: Outcome<Self>) -> Vec<Figure> {
        const WHAT: &str = "etcd, from the kill,";
        match beside {
            Ok(Self { took, server, .. }) => {
                let every = etcd::kept_alive_every(TTL);
                let set_to = format!("{}, ttl {TTL:?}, kept alive every {every:.2?}", server.version);
                [50, 100].map(|part| Figure::of_times(WHAT, &took, part).also(&set_to)).into()
            }
            Err(error) => vec![Figure::missing(WHAT, error)],
        }
    }
}
