//! What claim and release cost beside what people would use instead.

pub(crate) mod etcd;
pub(crate) mod server;

mod advisory;
mod redis;
mod sqlx;

use std::time::Duration;

use crate::crews::{Crews, Measured};
use crate::engine::{Engine, Place};
use crate::figures::{Ratios, median};
use crate::party::{Job, Party, Who};
use crate::report::{Figure, Goal};
use crate::{Outcome, Trial};
use server::{Program, Server};

const WHAT: &str = "claim and release";

const SIZES: [usize; 2] = [1, 16];

/// Longer than anything takes that goes well.
const PATIENCE: Duration = Duration::from_secs(30);

/// Somebody whom the store is compared with.
struct Rival {
    who: Who,
    name: &'static str,
    /// What is to be known of it.
    note: String,
}

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let (mut figures, mut rivals, mut running) = (Vec::new(), Vec::new(), Vec::new());
    for program in [Program::Etcd, Program::DurableRedis, Program::Redis] {
        match program.start(trial).await {
            Ok(server) => {
                rivals.push(Rival::at(&server));
                running.push(server);
            }
            Err(error) => figures.push(Figure::missing(format!("{WHAT}, {}", program.name()), error)),
        }
    }
    if trial.place.engine == Engine::Postgres {
        rivals.extend([
            Rival::on_postgres(Who::Advisory, "advisory lock", "tokio-postgres"),
            Rival::on_postgres(Who::Sqlx, "sqlx's PgAdvisoryLock", "sqlx"),
        ]);
    }
    for size in SIZES {
        figures.extend(compare(trial, &rivals, size)?);
    }
    drop(running);
    Ok(figures)
}

impl Rival {
    fn at(server: &Server) -> Self {
        let Server { program, version, .. } = server;
        Self { who: server.who(), name: program.name(), note: format!("{version}, {}", program.settings()) }
    }

    fn on_postgres(who: Who, name: &'static str, driver: &str) -> Self {
        Self { who, name, note: format!("{driver}; ends with its session, nothing is written") }
    }

    /// What the store may cost over it, one after another.
    fn most(&self, engine: Engine) -> Option<f64> {
        match (self.who, engine) {
            (Who::Etcd { .. }, Engine::Postgres | Engine::Mariadb) => Some(0.4),
            (Who::Etcd { .. }, Engine::Sqlite) => Some(0.2),
            _ => None,
        }
    }
}

fn compare(trial: &Trial<'_>, rivals: &[Rival], size: usize) -> Outcome<Vec<Figure>> {
    // The store once more tells what is chance.
    let mut who = vec![Who::Store, Who::Store];
    who.extend(rivals.iter().map(|rival| rival.who));
    let measured = Crews::gather(trial, &who, size).measure(trial, Job::Pair, WHAT)?;
    let [ours, again, theirs @ ..] = &measured[..] else { return Err("nobody was measured".into()) };
    let at = format!("{WHAT} at {size}");
    // One after another they differ in time, many at once in how much is done.
    let (what, numbers): (_, fn(&Measured) -> &[f64]) =
        if size == 1 { ("p50", |one| &one.medians) } else { ("rate", |one| &one.rates) };
    let chance = Ratios::new(numbers(again), numbers(ours)).chance();
    let mut figures = Vec::new();
    for (rival, measured) in rivals.iter().zip(theirs) {
        let ratios = Ratios::new(numbers(ours), numbers(measured));
        // Of a ratio far from 1 it is as large a part.
        let chance = chance * ratios.median();
        let mut over = Figure::of_ratios(format!("{at} over {}, {what}", rival.name), &ratios, chance);
        if let Some(most) = rival.most(trial.place.engine).filter(|_| size == 1) {
            over = over.goal(Goal::AtMost(most));
        }
        figures.push(over);
    }
    figures.extend(speed(&at, ours, ""));
    for (rival, measured) in rivals.iter().zip(theirs) {
        figures.extend(speed(&format!("{at}, {}", rival.name), measured, &rival.note));
    }
    Ok(figures)
}

fn speed(what: &str, measured: &Measured, note: &str) -> [Figure; 3] {
    [
        Figure::of_micros(what, &measured.times, 50).also(note),
        Figure::of_micros(what, &measured.times, 99),
        Figure::new(what, median(&measured.rates), "/s"),
    ]
}

pub(crate) async fn join_etcd(port: u16) -> Outcome<Box<dyn Party>> {
    Ok(Box::new(etcd::Etcd::connect(port).await?))
}

pub(crate) async fn join_redis(port: u16) -> Outcome<Box<dyn Party>> {
    Ok(Box::new(redis::Redis::connect(port).await?))
}

pub(crate) async fn join_advisory(place: &Place) -> Outcome<Box<dyn Party>> {
    Ok(Box::new(advisory::Advisory::open(&place.at).await?))
}

pub(crate) async fn join_sqlx(place: &Place) -> Outcome<Box<dyn Party>> {
    Ok(Box::new(sqlx::Sqlx::open(&place.at).await?))
}

/// Their names are locked and unlocked; there is nothing else to compare.
fn only_pairs(who: &str, job: Job) -> Outcome<()> {
    if job == Job::Pair { Ok(()) } else { Err(format!("{who} is not compared in {job:?}").into()) }
}
