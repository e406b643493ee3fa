//! The front door: claims against one store.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Answer, Wanted};
use crate::client::Client;
use crate::clock::{Clock, Moment};
use crate::driver;
use crate::error::{Error, ErrorKind};
use crate::events::{Event, EventHook, Events};
use crate::meter::Meter;
use crate::randomness::Randomness;
use crate::sighting::{Sighting, Standing};
use crate::state::{Setup, StuckHook};
use crate::store::Inspection;
use crate::takeover::claim_past_the_dead;
use crate::watchdog;
use crate::{
    Instance, InvalidTimings, Lease, LeaseName, LeaseStore, ManualLease, Probe, RunError, Stuck, SystemClock,
    Tenure, Timings,
};

/// The leases of one process in one store: a cheap clone.
///
/// One background task renews all of them. Call [`close`](Self::close) before the program ends, so
/// that names are given back at once rather than when they expire.
#[derive(Clone)]
pub struct Leases(Arc<Client>);

impl Leases {
    /// Leases in `store`, with the default timings, renewed on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// As [`LeasesBuilder::build`].
    pub fn new(store: impl LeaseStore) -> Result<Self, Error> {
        Self::builder(store).build()
    }

    /// Leases in `store`, with settings.
    pub fn builder(store: impl LeaseStore) -> LeasesBuilder {
        Self::builder_shared(Arc::new(store))
    }

    /// As [`builder`](Self::builder), for a store that is shared already.
    pub fn builder_shared(store: Arc<dyn LeaseStore>) -> LeasesBuilder {
        LeasesBuilder {
            store,
            timings: Timings::default(),
            instance: None,
            clock: None,
            on_stuck: Arc::new(abort_process),
            probe: None,
            on_event: None,
            randomness: Randomness::default(),
            own_thread: false,
            #[cfg(feature = "metrics")]
            metric_labels: Vec::new(),
        }
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.0
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn LeaseStore> {
        &self.0.store
    }

    /// The timings.
    pub fn timings(&self) -> &Timings {
        &self.0.setup.timings
    }

    /// The local clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.setup.clock
    }

    /// Claims a name once.
    ///
    /// Dropping the future leaves nothing behind: a claim in flight ends by itself, and a grant
    /// that nobody waits for is given back.
    ///
    /// # Errors
    ///
    /// An invalid name; a failure of the store, after which the name may be held by nobody for a
    /// while (at most a ttl) if the claim was granted without our knowing; [`ErrorKind::Closed`] once
    /// [`shutdown`](Self::shutdown) is called; [`ErrorKind::Runtime`] when the runtime that renews is gone.
    pub async fn claim<N>(&self, name: N) -> Result<Claimed, Error>
    where
        N: TryInto<LeaseName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        let asked = self.clock().now();
        Ok(match claim_past_the_dead(&self.0, name.clone(), Wanted::Name).await? {
            Answer::Granted { lease, .. } => Claimed::Granted(lease),
            Answer::Refused(_) => Claimed::Held(Refusal::new(&self.0, name, asked)),
        })
    }

    /// Claims a name once, to be renewed by hand. Otherwise, errors and a dropped future among it, as [`claim`](Self::claim).
    pub async fn claim_manual<N>(&self, name: N) -> Result<ManualClaimed, Error>
    where
        N: TryInto<LeaseName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        let asked = self.clock().now();
        Ok(match claim_past_the_dead(&self.0, name.clone(), Wanted::Name).await? {
            Answer::Granted { lease, .. } => ManualClaimed::Granted(lease),
            Answer::Refused(_) => ManualClaimed::Held(Refusal::new(&self.0, name, asked)),
        })
    }

    /// Claims a name once and, if it is granted, runs work under it as [`Lease::run`] does.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim) (in [`RunError::Store`]) and [`Lease::run`].
    pub async fn try_run<N, F, Fut, T, E>(&self, name: N, work: F) -> Result<Ran<T>, RunError<T, E>>
    where
        N: TryInto<LeaseName>,
        Error: From<N::Error>,
        F: FnOnce(Tenure) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        match self.claim(name).await.map_err(RunError::Store)? {
            Claimed::Granted(lease) => lease.run(work).await.map(Ran::Done),
            Claimed::Held(refusal) => Ok(Ran::Held(refusal)),
        }
    }

    /// Asks everything to end: no claim is sent any more, waiting ones return, work learns of it by
    /// [`Tenure::stopping`], and leases without work are given up: those under which no tenure is out.
    /// The others are renewed until their last tenure is gone. The [round](crate::SlotLease) of a slot counts as
    /// work for as long as somebody has it in hand.
    pub fn shutdown(&self) {
        self.0.shut_down();
    }

    /// [`shutdown`](Self::shutdown), then waits until all work has ended and every name was given
    /// back or its row has expired.
    ///
    /// Work, and so every [`Tenure`] that is out, is waited for without a bound. After it, this takes at
    /// most a ttl, a margin and three attempts, and more than a moment only if the database does not answer. With rounds
    /// that ran to their end, twice that: their end is told for so long, then the name is given back.
    /// Dropping the future leaves the shutdown going on.
    pub async fn close(&self) {
        self.shutdown();
        tokio::select! {
            biased;
            () = self.0.all_closed() => {}
            () = self.0.driver_gone() => {}
        }
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("database", &self.0.store.describe()).finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) async fn look(&self, name: &LeaseName) -> Result<Sighting, Error> {
        Ok(self.sighting(name.clone(), self.inspect(name).await?))
    }

    pub(crate) fn sighting(&self, name: LeaseName, seen: Inspection) -> Sighting {
        Sighting::new(name, self.store.describe(), seen)
    }

    pub(crate) async fn inspect(&self, name: &LeaseName) -> Result<Inspection, Error> {
        let seen = self.ask(|store, within| store.inspect(name, within)).await;
        seen.map_err(|error| self.store_error("read lease", name, error))
    }
}

/// The answer to a claim.
#[derive(Debug)]
#[must_use = "a granted lease that is dropped is given back"]
pub enum Claimed {
    /// The lease is ours.
    Granted(Lease),
    /// The name is held by somebody else.
    Held(Refusal),
}

/// The answer to a claim that is renewed by hand.
#[derive(Debug)]
#[must_use = "a granted lease that is dropped is given back"]
pub enum ManualClaimed {
    /// The lease is ours.
    Granted(ManualLease),
    /// The name is held by somebody else.
    Held(Refusal),
}

/// The outcome of [`Leases::try_run`].
#[derive(Debug)]
pub enum Ran<T> {
    /// The work was run and ended well, the lease held to the end.
    Done(T),
    /// The name is held by somebody else; no work was begun.
    Held(Refusal),
}

/// A name that is held by somebody else.
#[derive(Clone)]
pub struct Refusal {
    client: Arc<Client>,
    name: LeaseName,
    /// When the first claim was asked for.
    asked: Moment,
}

impl Refusal {
    pub(crate) fn new(client: &Arc<Client>, name: LeaseName, asked: Moment) -> Self {
        Self { client: Arc::clone(client), name, asked }
    }

    /// The name.
    pub fn name(&self) -> &LeaseName {
        &self.name
    }

    /// Where it is held, as [`LeaseStore::describe`] says.
    pub fn database(&self) -> String {
        self.client.store.describe()
    }

    /// Reads who holds it, with one statement. It may have changed hands or been released since the refusal.
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// A failure of the store.
    pub async fn holder(&self) -> Result<Sighting, Error> {
        let seen = self.client.inspect(&self.name).await?;
        let mut sighting = self.client.sighting(self.name.clone(), seen);
        let waited = self.client.setup.clock.now().since(self.asked);
        // The database's clock was read twice, in whole milliseconds.
        let waited = waited + Duration::from_millis(1);
        let row = sighting.row().filter(|_| sighting.standing() == Standing::Held);
        // One whose claim the clock has not reached was claimed before the clock went back.
        sighting.raced = row.is_some_and(|row| {
            let now = sighting.inspection().now;
            row.claimed_at <= now && now.since(row.claimed_at) <= waited
        });
        Ok(sighting)
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Settings of a [`Leases`].
#[must_use = "build it"]
pub struct LeasesBuilder {
    store: Arc<dyn LeaseStore>,
    timings: Timings,
    instance: Option<Instance>,
    clock: Option<Arc<dyn Clock>>,
    on_stuck: StuckHook,
    probe: Option<Arc<dyn Probe>>,
    on_event: Option<EventHook>,
    randomness: Randomness,
    own_thread: bool,
    #[cfg(feature = "metrics")]
    metric_labels: Vec<metrics::Label>,
}

impl LeasesBuilder {
    /// The timings; the default is a ttl of 15 s.
    pub fn timings(mut self, timings: Timings) -> Self {
        self.timings = timings;
        self
    }

    /// Who this process says it is; the default is [`Instance::current`].
    pub fn instance(mut self, instance: Instance) -> Self {
        self.instance = Some(instance);
        self
    }

    /// The local clock; the default is [`SystemClock::shared`]. For tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The failing hook: called, on a thread of its own, when work runs on after its lease was lost and
    /// the grace has ended. The default writes a line to standard error and aborts the process. A
    /// hook that returns leaves the work running beside a successor, unless it ends it by other means;
    /// one that panics aborts the process.
    pub fn on_stuck(mut self, hook: impl Fn(&Stuck) + Send + Sync + 'static) -> Self {
        self.on_stuck = Arc::new(hook);
        self
    }

    /// Takes a name at once from a holder whose process is proven dead by this; [`HostProbe`](crate::HostProbe) looks on this host.
    /// Without it a name stays taken for the ttl of a holder that has crashed. Not for machines that were cloned while they ran; and
    /// statements that the dead process had sent, or processes that it had started, may run on beside its successor.
    pub fn probe(mut self, probe: impl Probe) -> Self {
        self.probe = Some(Arc::new(probe));
        self
    }

    /// Called with every [`Event`] in order, on a thread of its own: one that blocks is behind, and holds up nothing
    /// else; one that panics is not called again. [`close`](Leases::close) does not wait for it.
    pub fn on_event(mut self, hook: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Arc::new(hook));
        self
    }

    /// A label on every figure of this client, where one process has several: for another database, or another candidate for
    /// the same names. Figures without a recorder go nowhere; the front page, "Metrics", lists them.
    #[cfg(feature = "metrics")]
    pub fn metric_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metric_labels.push(metrics::Label::new(key.into(), value.into()));
        self
    }

    /// Where the tokens of claims and the jitter of waits come from; the default is the system's random source. For
    /// simulations that a seed repeats: two claims with one token on one database are one holder to it.
    pub fn randomness(mut self, fill: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Self {
        self.randomness = Randomness::supplied(fill);
        self
    }

    /// Renews on a runtime thread of its own, so that work that blocks the caller's runtime does not
    /// starve renewals. Without it, renewals run on the runtime that [`build`](Self::build) is called in.
    pub fn own_thread(mut self) -> Self {
        self.own_thread = true;
        self
    }

    /// Starts renewing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Runtime`] outside a tokio runtime (without [`own_thread`](Self::own_thread)) or
    /// when the operating system refuses a thread; [`ErrorKind::Invalid`] for a ttl below the
    /// store's least.
    pub fn build(self) -> Result<Leases, Error> {
        let least = self.store.min_ttl();
        if self.timings.ttl() < least {
            return Err(InvalidTimings::below(self.timings.ttl(), least, &self.store.describe()).into());
        }
        let clock = match self.clock {
            Some(clock) => clock,
            None => SystemClock::shared().map_err(|error| {
                Error::own(ErrorKind::Runtime, format!("cannot start the watchdog thread: {error}"))
            })?,
        };
        let events = self.on_event.map_or_else(|| Ok(Events::default()), Events::start).map_err(|error| {
            Error::own(ErrorKind::Runtime, format!("cannot start the thread of the event hook: {error}"))
        })?;
        let (timings, on_stuck) = (self.timings, self.on_stuck);
        let randomness = self.randomness;
        #[cfg(feature = "metrics")]
        let meter = {
            let period = timings.renew() / 2;
            Meter::start(period, self.metric_labels).map_err(|error| {
                Error::own(ErrorKind::Runtime, format!("cannot start the thread of the metrics: {error}"))
            })?
        };
        #[cfg(not(feature = "metrics"))]
        let meter = Meter::default();
        let setup = Arc::new(Setup { timings, clock, on_stuck, events, meter, randomness });
        let (runtime, commands) = driver::start(&self.store, &setup, self.own_thread)?;
        let instance = self.instance.unwrap_or_else(Instance::current);
        Ok(Leases(Arc::new(Client::new(self.store, setup, instance, self.probe, (runtime, commands)))))
    }
}

impl fmt::Debug for LeasesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasesBuilder").field("timings", &self.timings).finish_non_exhaustive()
    }
}

/// The failing hook unless another is set: beside a successor, no process is better than one that works on.
fn abort_process(stuck: &Stuck) {
    watchdog::say_and_abort(format!(
        "lease: work under lease {:?} (term {}) runs on {:?} after the lease was lost ({}); aborting the process, for a successor may begin",
        stuck.name, stuck.term, stuck.lost_for, stuck.reason
    ))
}
