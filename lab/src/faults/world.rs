//! All that a history has: a database, workers on it, and what stands between them.

use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use lease_core::LeaseStore;
use lease_testkit::Proxy;
use test_servers::ProcessClock;

use super::Failure;
use super::backend::Backend;
use super::crew::Crew;
use super::ground::{self, Ground};
use super::ledger;
use super::place::Place;
use super::spawn::Life;
use crate::history::{Sampler, Writer};

/// So many workers a history has.
pub(crate) const WORKERS: u32 = 3;

/// A history's own.
pub(crate) struct World {
    pub(crate) ttl: Duration,
    pub(crate) seed: u64,
    /// The database, by no proxy.
    pub(crate) direct: Place,
    pub(crate) ground: Option<Arc<Ground>>,
    /// Before each worker.
    pub(crate) proxies: Vec<Proxy>,
    /// That of the workers, where the database's clock is theirs.
    pub(crate) clock: Option<Mutex<ProcessClock>>,
    pub(crate) crew: Crew,
    pub(crate) writer: Writer,
    /// Says when this very process stood still: the proxies do then, and all that a busy machine has no time for.
    _sampler: Sampler,
    /// How many faults are on.
    pub(crate) faults: Mutex<u32>,
    /// Sees whether the database answers.
    pub(crate) store: Arc<dyn LeaseStore>,
}

/// How a world is to be.
pub(crate) struct Wanted<'a> {
    pub(crate) backend: Backend,
    pub(crate) seed: u64,
    /// The folder of the history.
    pub(crate) folder: &'a Path,
    /// The folder of the file, where there is no server.
    pub(crate) file: &'a Path,
    pub(crate) ground: Option<Arc<Ground>>,
    /// The file is used by processes whose clock can be set.
    pub(crate) stepped_clock: bool,
    /// The program of the workers, if not this one.
    pub(crate) program: Option<&'a Path>,
}

impl World {
    /// A database with the tables, and workers on it.
    pub(crate) async fn start(wanted: Wanted<'_>) -> Result<Self, Failure> {
        let Wanted { backend, seed, folder, file, ground, stepped_clock, program } = wanted;
        std::fs::create_dir_all(folder)?;
        let writer = Writer::create(folder, 0, 0)?;
        let ttl = backend.ttl();
        let direct = match &ground {
            Some(ground) => ground.database(),
            None => ground::file(file)?,
        };
        ledger::create(&direct).await?;
        let mut life =
            Life { program: program.map(Into::into), heeds_modes: ground.is_none(), ..Life::default() };
        let mut clock = None;
        if stepped_clock && ground.is_none() {
            let own = ProcessClock::new(file)?;
            life.environment = own.environment();
            clock = Some(Mutex::new(own));
        }
        let (mut proxies, mut places) = (Vec::new(), Vec::new());
        for _ in 0..WORKERS {
            match &ground {
                Some(ground) => {
                    let (proxy, place) = ground.through(&direct)?;
                    proxies.push(proxy);
                    places.push(place);
                }
                None => places.push(direct.clone()),
            }
        }
        let crew = Crew::start(places, ttl, seed, folder, &writer, life)?;
        let store = direct.store().await?.shared();
        let faults = Mutex::new(0);
        let sampler = Sampler::start(writer.clone())?;
        Ok(Self { ttl, seed, direct, ground, proxies, clock, crew, writer, _sampler: sampler, faults, store })
    }
}
