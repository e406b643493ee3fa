//! The one task per [`Leases`](crate::Leases) that renews and releases all its leases.
//!
//! It plays the [`Renewal`] machines against the store. Leases due in one tick go out as one
//! `renew_many`; each statement is a future of its own, so one that hangs holds up no other.
//! Nothing here decides that a lease is lost by time: the watchdog does, on its own thread. How leases end is in `ends`.

mod ends;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::attempt::{self, attempt};
use crate::client::Open;
use crate::clock::{Moment, sleep_until};
use crate::error::Error;
use crate::give_back::{Finish, Recorded};
use crate::io_thread::runtime_thread;
use crate::meter::Told;
use crate::renewal::{Next, Renewal};
use crate::state::{LeaseState, Settled, Setup};
use crate::store::{FinishAnswer, Holding, RenewAnswer, Renewed, StoreError};
use crate::{ErrorKind, LeaseStore, LossReason};

/// What the handles tell the driver.
pub(crate) enum Command {
    /// A lease was granted. Without a renewal it is renewed by hand.
    Add(Arc<LeaseState>, Option<Renewal>, Open),
    /// The handle of the lease has gone, or was released.
    Ended(u64),
    /// The last tenure of the lease has gone.
    Idle(u64),
    /// The round of a slot ran to its end: that is recorded where otherwise the name would be given back.
    /// [`Ended`](Self::Ended) is not sent any more.
    Finish(Arc<LeaseState>, Finish, Open),
    /// `close` or `shutdown` was called: leases that no work holds are given back.
    ShutDown,
}

/// Starts a driver: on the current runtime, or on a thread with a runtime of its own. The answer is
/// the runtime it is on and the way to it.
pub(crate) fn start(
    store: &Arc<dyn LeaseStore>,
    setup: &Arc<Setup>,
    own_thread: bool,
) -> Result<(Handle, mpsc::UnboundedSender<Command>), Error> {
    let (commands, orders) = mpsc::unbounded_channel();
    let drive = drive(Arc::clone(store), Arc::clone(setup), orders);
    let runtime = if own_thread {
        runtime_thread("lease-driver", drive).map_err(|error| {
            Error::own(ErrorKind::Runtime, format!("cannot start the thread that renews: {error}"))
        })?
    } else {
        let runtime = Handle::try_current()
            .map_err(|_| Error::own(ErrorKind::Runtime, "cannot renew leases: not inside a tokio runtime"))?;
        in_background(&runtime, drive);
        runtime
    };
    Ok((runtime, commands))
}

/// Runs a future as a task of the runtime that renews, whatever becomes of its caller.
pub(crate) fn in_background(runtime: &Handle, future: impl Future<Output = ()> + Send + 'static) {
    drop(runtime.spawn(future));
}

/// Renews and releases until every handle has gone and every lease is settled.
pub(crate) async fn drive(
    store: Arc<dyn LeaseStore>,
    setup: Arc<Setup>,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let mut driver = Driver {
        store,
        setup,
        leases: BTreeMap::new(),
        due: BTreeMap::new(),
        flights: FuturesUnordered::new(),
        to_release: VecDeque::new(),
        releasing: 0,
        shutting_down: false,
    };
    let mut handles_left = true;
    while handles_left || !driver.leases.is_empty() || !driver.flights.is_empty() {
        let next = driver.due.first_key_value().map(|(at, _)| *at);
        let clock = Arc::clone(&driver.setup.clock);
        // What is due comes first, and commands last: of those there may be a flood, of the others no more than leases.
        tokio::select! {
            biased;
            () = sleep_until(&clock, next.unwrap_or_default()), if next.is_some() => driver.tick(),
            Some(landed) = driver.flights.next() => driver.land(landed),
            command = commands.recv(), if handles_left => match command {
                Some(command) => driver.obey(command),
                None => handles_left = false,
            },
            else => return,
        }
    }
}

struct Driver {
    store: Arc<dyn LeaseStore>,
    setup: Arc<Setup>,
    /// By the order in which they were claimed, which is the order in which a shutdown gives them back.
    leases: BTreeMap<u64, Managed>,
    /// Which leases to look at when. A lease that is renewed stands here once, or is in a flight; more than once only
    /// when its end has been told.
    due: BTreeMap<Moment, Vec<u64>>,
    flights: FuturesUnordered<Flight>,
    /// Names to give back as soon as few enough are being given back.
    to_release: VecDeque<(Arc<LeaseState>, Open)>,
    releasing: usize,
    shutting_down: bool,
}

type Flight = Pin<Box<dyn Future<Output = Landed> + Send>>;

struct Managed {
    state: Arc<LeaseState>,
    renewal: Option<Renewal>,
    /// The last batch this lease was in got no answer: it asks alone next time, so that one row
    /// that hangs a batch cannot take the others down with it.
    alone: bool,
    /// The handle has gone, and all that it sent before has been heard: its state says so earlier than that.
    ended: bool,
    /// What is to be recorded of a round once its last tenure has gone, or at the moment named.
    finishes: Vec<(Finish, Open)>,
    record_by: Moment,
    /// How many of them are being recorded.
    recording: usize,
    open: Open,
}

impl Managed {
    /// The machine, told of the renewals that guarded transactions have carried meanwhile.
    fn machine(&mut self, now: Moment) -> Option<&mut Renewal> {
        let renewal = self.renewal.as_mut()?;
        // A deadline that has passed is marked as seen by this: nothing carried from here on revives what the machine gives up.
        self.state.check();
        renewal.carried(self.state.good(), now);
        Some(renewal)
    }

    /// Its round ran to its end, and that is not on record yet.
    fn is_finishing(&self) -> bool {
        !self.finishes.is_empty() || self.recording > 0
    }

    /// Whether the row is to be kept from expiring. That of a round that ran to its end is, until that is on record:
    /// somebody else could run it again before.
    fn is_renewed(&self) -> bool {
        if self.state.is_ended() {
            return false;
        }
        match self.state.reason() {
            None => true,
            Some(LossReason::Released) => self.is_finishing(),
            Some(_) => false,
        }
    }
}

/// A statement that came back.
enum Landed {
    Batch { started: Moment, ids: Vec<u64>, answer: Result<Vec<Option<Renewed>>, StoreError> },
    Single { started: Moment, id: u64, answer: Result<RenewAnswer, StoreError> },
    Released { state: Arc<LeaseState>, is_free: bool, open: Open },
    Recorded { state: Arc<LeaseState>, recorded: Recorded, open: Open },
    Announced,
}

/// Leases whose renewal goes out now.
#[derive(Default)]
struct Outgoing {
    together: Vec<u64>,
    alone: Vec<u64>,
}

impl Driver {
    fn obey(&mut self, command: Command) {
        match command {
            Command::Add(state, renewal, open) => {
                let id = state.id;
                let managed = Managed {
                    state,
                    renewal,
                    alone: false,
                    ended: false,
                    finishes: Vec::new(),
                    record_by: Moment::default(),
                    recording: 0,
                    open,
                };
                self.leases.insert(id, managed);
                if self.shutting_down {
                    self.give_up(id);
                }
                self.look_at_all([id]);
            }
            Command::Ended(id) => {
                if let Some(managed) = self.leases.get_mut(&id) {
                    managed.ended = true;
                }
                self.settle(id);
            }
            Command::Idle(id) => {
                if self.shutting_down {
                    self.give_up(id);
                }
                self.record_finishes(id);
                self.settle(id);
            }
            Command::Finish(state, finish, open) => self.finish(state, finish, open),
            Command::ShutDown => {
                self.shutting_down = true;
                let ids: Vec<u64> = self.leases.keys().copied().collect();
                for id in ids {
                    self.give_up(id);
                }
            }
        }
    }

    /// Ends a lease whose handle somebody still has, unless work may run under it.
    fn give_up(&mut self, id: u64) {
        let Some(managed) = self.leases.get_mut(&id) else { return };
        if managed.state.lose_if_idle() {
            managed.state.end();
            managed.ended = true;
            self.settle(id);
        }
    }

    /// Looks at every lease that is due.
    fn tick(&mut self) {
        let now = self.setup.clock.now();
        let mut ids = Vec::new();
        while let Some(entry) = self.due.first_entry().filter(|entry| *entry.key() <= now) {
            ids.append(&mut entry.remove());
        }
        self.look_at_all(ids);
    }

    /// Asks the machines what to do now, and does it.
    fn look_at_all(&mut self, ids: impl IntoIterator<Item = u64>) {
        let now = self.setup.clock.now();
        let mut outgoing = Outgoing::default();
        for id in ids {
            self.record_finishes(id);
            self.look(id, now, &mut outgoing);
        }
        for id in outgoing.alone {
            self.send_single(id, now);
        }
        match outgoing.together[..] {
            [] => {}
            [id] => self.send_single(id, now),
            _ => self.send_batch(outgoing.together, now),
        }
    }

    fn look(&mut self, id: u64, now: Moment, outgoing: &mut Outgoing) {
        let Some(managed) = self.leases.get_mut(&id) else { return };
        if managed.state.is_ended() && !managed.is_finishing() {
            // Tenures are left, and nothing but the row's expiry ends their lease.
            let expired_by = managed.state.row_expired_by();
            if now >= expired_by {
                managed.state.settled(Settled::Done);
                self.leases.remove(&id);
            } else {
                self.due.entry(expired_by).or_default().push(id);
            }
            return;
        }
        // The watchdog or a handle may have marked a loss of which this machine knows nothing.
        if !managed.is_renewed() {
            return;
        }
        match managed.machine(now).map(|renewal| renewal.poll(now)) {
            None | Some(Next::Lost(_)) => {}
            Some(Next::Wait(until)) => self.due.entry(until).or_default().push(id),
            // The flight always lands, at the latest when it has timed out; then we look again.
            Some(Next::Renew { timeout_at }) => {
                managed.state.sent(now);
                // A batch is waited for as long as an attempt may last: a lease that has not so much
                // time left goes alone.
                let short = timeout_at < now + self.setup.timings.attempt();
                let alone = std::mem::take(&mut managed.alone) || short;
                if alone { &mut outgoing.alone } else { &mut outgoing.together }.push(id);
            }
        }
    }

    fn send_batch(&mut self, ids: Vec<u64>, started: Moment) {
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.setup.clock));
        let (ttl, within) = (self.setup.timings.ttl(), self.setup.timings.attempt());
        let leases: Vec<Holding> = ids
            .iter()
            .filter_map(|id| self.leases.get(id))
            .map(|Managed { state, .. }| Holding { name: state.name.clone(), holder: state.holder })
            .collect();
        self.flights.push(Box::pin(async move {
            let renewal = store.renew_many(&leases, ttl, within);
            let answer = attempt(&clock, started + within, renewal).await;
            Landed::Batch { started, ids, answer }
        }));
    }

    /// Sends the renewal of one lease as part of the attempt begun at `started`.
    fn send_single(&mut self, id: u64, started: Moment) {
        // Ended or lost since the batch was sent: nothing is to move its expiry any more.
        let Some(managed) = self.leases.get(&id).filter(|managed| managed.is_renewed()) else { return };
        let (store, state) = (Arc::clone(&self.store), Arc::clone(&managed.state));
        self.flights.push(Box::pin(async move {
            let answer = attempt::renew(&*store, &state, started).await;
            Landed::Single { started, id, answer }
        }));
    }

    fn land(&mut self, landed: Landed) {
        match landed {
            Landed::Batch { started, ids, answer } => self.land_batch(started, ids, answer),
            Landed::Single { started, id, answer } => {
                match answer {
                    Ok(RenewAnswer::Renewed(renewed)) => self.renewed(id, started, renewed),
                    Ok(RenewAnswer::Lost) => self.refused(id),
                    Err(error) => {
                        if let Some(Managed { state, .. }) = self.leases.get(&id) {
                            tracing::warn!(lease = %state.name, term = %state.term, %error, "renewal failed");
                        }
                        self.failed(id, started, &Arc::new(error));
                    }
                }
                self.look_at_all([id]);
            }
            Landed::Released { state, is_free, open } => {
                self.releasing -= 1;
                self.send_releases();
                if is_free {
                    self.announce(state, open);
                }
            }
            Landed::Recorded { state, recorded, open } => {
                let is_free = matches!(recorded.answer, Ok(FinishAnswer::Finished));
                if is_free {
                    state.given_back();
                }
                self.land_recorded(state.id, recorded.answer.is_ok());
                recorded.tell();
                if is_free {
                    self.announce(state, open);
                }
            }
            Landed::Announced => {}
        }
    }

    fn land_batch(
        &mut self,
        started: Moment,
        ids: Vec<u64>,
        answer: Result<Vec<Option<Renewed>>, StoreError>,
    ) {
        let answer = answer.and_then(|rows| {
            let message = format!("the store answered for {} leases of a batch of {}", rows.len(), ids.len());
            if rows.len() == ids.len() { Ok(rows) } else { Err(StoreError::new(ErrorKind::Other, message)) }
        });
        match answer {
            Ok(rows) => {
                self.measure(started, rows.iter().flatten().count(), "renewed");
                let mut answered = Vec::with_capacity(ids.len());
                for (id, row) in ids.into_iter().zip(rows) {
                    if let Some(renewed) = row {
                        self.renewed(id, started, renewed);
                        answered.push(id);
                    } else {
                        self.send_single(id, started);
                    }
                }
                self.look_at_all(answered);
            }
            Err(error) => {
                self.measure(started, ids.len(), "failed");
                // One line for all: an outage must not write ten thousand.
                tracing::warn!(leases = ids.len(), %error, "renewal failed");
                // Unless the whole database is away, the failure may be one row's.
                let alone = !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::ReadOnly);
                let error = Arc::new(error);
                for &id in &ids {
                    self.failed(id, started, &error);
                    if let Some(managed) = self.leases.get_mut(&id) {
                        managed.alone = alone;
                    }
                }
                self.look_at_all(ids);
            }
        }
    }

    /// Records the answer to a batch.
    fn measure(&self, started: Moment, leases: usize, answer: &'static str) {
        let now = || self.setup.clock.now();
        self.setup.meter.tell(|| Told::Renewal { leases, answer, took: now().since(started) });
    }

    fn renewed(&mut self, id: u64, started: Moment, renewed: Renewed) {
        let now = self.setup.clock.now();
        let Some(managed) = self.leases.get_mut(&id) else { return };
        let Some(renewal) = managed.machine(now) else { return };
        renewal.renewed(started, now);
        let state = &managed.state;
        if managed.state.reason().is_some() {
            state.kept(started);
        } else if state.renewed(started) {
            tracing::debug!(lease = %state.name, term = %state.term, "renewed");
        }
        if renewed.step_down {
            state.ask_step_down();
        }
    }

    fn failed(&mut self, id: u64, started: Moment, error: &Arc<StoreError>) {
        let now = self.setup.clock.now();
        let Some(managed) = self.leases.get_mut(&id) else { return };
        let Some(renewal) = managed.machine(now) else { return };
        renewal.failed(started, now);
        managed.state.renewal_failed(error);
    }

    fn refused(&mut self, id: u64) {
        let now = self.setup.clock.now();
        let Some(managed) = self.leases.get_mut(&id) else { return };
        let Some(renewal) = managed.machine(now) else { return };
        renewal.refused(now);
        managed.state.lose(&LossReason::Refused);
    }
}
