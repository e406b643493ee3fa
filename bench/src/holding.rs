//! What it costs to hold a thousand names, and ten thousand, in one process with the default timings.

use std::time::{Duration, Instant};

use crate::database::{Database, Told};
use crate::engine::Engine;
use crate::figures::number;
use crate::observed::Renewing;
use crate::party::expect;
use crate::processes::Server;
use crate::report::{Figure, Goal};
use crate::worker::{Cost, Worker};
use crate::{Outcome, Trial};

const FEW: u32 = 1_000;
const MANY: u32 = 10_000;

/// How many are claimed between two words about it.
const STEP: u32 = 500;

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let place = trial.place.apart("holding");
    let mut database = Database::emptied(&place).await?;
    let server = Server::of(&mut database).await?;
    let mut scene = Scene { trial, database, server, clients: 0 };
    scene.clients = scene.database.tell(Told::Connections).await?.unwrap_or_default();

    let idle = scene.measure(None).await?;
    let mut figures = Vec::new();
    let mut worker = Worker::start_to_hold(&place, Renewing::Together)?;
    let before = worker.cost()?;
    let few = scene.hold(&mut worker, 0, FEW, &format!("{FEW}")).await?;
    figures.extend(scene.figures(&few, &before, FEW).await?);
    let many = scene.hold(&mut worker, FEW, MANY, &format!("{MANY}")).await?;
    figures.extend(scene.figures(&many, &before, MANY).await?);
    figures.extend(each_further(&few, &many));
    worker.kill()?;

    let mut worker = Worker::start_to_hold(&place, Renewing::Singly)?;
    let singly = scene.hold(&mut worker, 0, FEW, &format!("{FEW}, singly")).await?;
    worker.kill()?;
    figures.extend(against(trial, &few, &singly, &idle));
    Ok(figures)
}

/// Where it happens.
struct Scene<'a> {
    trial: &'a Trial<'a>,
    database: Database,
    server: Option<Server>,
    /// The connections that were there before.
    clients: u64,
}

/// What was seen while so many were held.
struct Seen {
    /// At the end.
    cost: Option<Cost>,
    statements: f64,
    client: f64,
    /// Per second, as the two before: milliseconds of processor time, and bytes of log.
    server: Option<f64>,
    log: Option<f64>,
}

impl Scene<'_> {
    /// Has it hold that many, waits until the claims are forgotten, and measures.
    async fn hold(&mut self, worker: &mut Worker, from: u32, to: u32, what: &str) -> Outcome<Seen> {
        for claimed in (from..to).step_by(STEP as usize) {
            worker.hold(STEP as usize)?;
            self.trial.progress.step(&format!("{what}: claimed"), (claimed + STEP) as usize, to as usize);
        }
        self.database.tidy().await?;
        tokio::time::sleep(self.settle()).await;
        let seen = self.measure(Some(worker)).await?;
        let held = seen.cost.map(|cost| cost.held);
        expect(held == Some(to.into()), &format!("all of {to} still held"))?;
        Ok(seen)
    }

    /// After a minute a connection that only the claims needed is closed.
    fn settle(&self) -> Duration {
        Duration::from_secs(if self.trial.quick { 2 } else { 65 })
    }

    fn seconds(&self) -> usize {
        self.trial.count(30, 10)
    }

    async fn measure(&mut self, mut worker: Option<&mut Worker>) -> Outcome<Seen> {
        // Little is to be seen where nobody holds anything.
        let seconds = if worker.is_some() { self.seconds() } else { self.trial.count(15, 3) };
        let mut cost = || worker.as_mut().map(|worker| worker.cost()).transpose();
        let log = self.database.tell(Told::LogBytes).await?;
        let (used, before, begun) = (self.server.map(Server::used), cost()?, Instant::now());
        for second in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.trial.progress.step("seconds", second + 1, seconds);
        }
        let (after, took) = (cost()?, begun.elapsed().as_secs_f64());
        let server = self.server.zip(used).map(|(server, before)| server.used().saturating_sub(before));
        let logged = self.database.tell(Told::LogBytes).await?.zip(log).map(|(after, before)| after - before);
        let (statements, client) = after.zip(before).map_or((0, Duration::ZERO), |(after, before)| {
            (after.statements - before.statements, after.processor.saturating_sub(before.processor))
        });
        let per_second = |time: Duration| time.as_secs_f64() * 1000.0 / took;
        Ok(Seen {
            cost: after,
            statements: number(statements) / took,
            client: per_second(client),
            server: server.map(per_second),
            log: logged.map(|bytes| number(bytes) / took),
        })
    }

    async fn figures(&mut self, seen: &Seen, before: &Cost, count: u32) -> Outcome<Vec<Figure>> {
        let what = |what: &str| format!("{count} held: {what}");
        let cost = seen.cost.ok_or("nobody has told what it cost")?;
        let memory = number(cost.resident.saturating_sub(before.resident)) / f64::from(count) / 1024.0;
        let mut figures = vec![
            Figure::new(what("statements"), seen.statements, "/s").goal(Goal::AtMost(25.0)),
            Figure::new(what("memory of a lease"), memory, "KiB").goal(Goal::AtMost(2.0)),
            Figure::new(what("processor, client"), seen.client, "ms/s"),
            Figure::new(what("tasks in its runtime"), number(cost.tasks), ""),
        ];
        figures.extend(seen.server.map(|used| Figure::new(what("processor, server"), used, "ms/s")));
        figures.extend(seen.log.map(|bytes| Figure::new(what("log"), bytes / 1024.0, "KiB/s")));
        if let Some(connections) = self.database.tell(Told::Connections).await? {
            let own = connections.saturating_sub(self.clients);
            let seconds = self.settle().as_secs() + self.seconds() as u64;
            let note = format!("{seconds} s after the claims");
            figures
                .push(Figure::new(what("connections"), number(own), "").goal(Goal::AtMost(1.0)).note(note));
        }
        Ok(figures)
    }
}

/// What is not the same for few and for many: connections, buffers, threads are.
fn each_further(few: &Seen, many: &Seen) -> Option<Figure> {
    let more = many.cost?.resident.saturating_sub(few.cost?.resident);
    let memory = number(more) / f64::from(MANY - FEW) / 1024.0;
    Some(Figure::new(format!("from {FEW} to {MANY} held: memory of a lease"), memory, "KiB"))
}

/// The same thousand renewed together and one by one. Where the engine is in the process, its work is that of the process.
fn against(trial: &Trial<'_>, together: &Seen, singly: &Seen, idle: &Seen) -> Vec<Figure> {
    let (whose, together, singly, idle) = if trial.place.engine == Engine::Sqlite {
        ("client", Some(together.client), Some(singly.client), Some(0.0))
    } else {
        ("server", together.server, singly.server, idle.server)
    };
    let Some(((together, singly), idle)) = together.zip(singly).zip(idle) else { return Vec::new() };
    let what = format!("{FEW} held: processor, {whose}, together over singly");
    vec![
        Figure::new(what.clone(), together / singly, "times").goal(Goal::AtMost(0.1)),
        Figure::new(format!("{what}, beyond idle"), (together - idle) / (singly - idle), "times"),
        Figure::new(format!("{FEW} held: processor, {whose}, singly"), singly, "ms/s"),
        Figure::new(format!("none held: processor, {whose}"), idle, "ms/s"),
    ]
}
