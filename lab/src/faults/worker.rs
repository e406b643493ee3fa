//! What each process under attack does: it holds names, writes guarded transactions and works off instants, beside others
//! that do the same, and says what it believes.

mod names;
mod parent;
mod rounds;
mod work;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_core::{Holder, Instance, LeaseName, Leases, Term, Timings, Transition};
use tokio::time::sleep;

use super::Failure;
use super::order::Order;
use super::place::Store;
use super::random::Random;
use crate::history::{Event, LeaseId, RecordingStore, Sampler, Writer};

pub(crate) use names::{ELECTED, ROUNDS, TAKEN};
pub(crate) use parent::{STOP, Said};

/// The life of a worker: until it is told to stop, and no longer than its parent lives.
pub(crate) async fn serve(order: Order) -> Result<(), Failure> {
    let stop = parent::listen();
    let timings = Timings::from_ttl(order.ttl())?;
    let writer = Writer::create(&order.folder, order.process, order.incarnation)?;
    let backend = order.place.backend.name().to_owned();
    let pid = std::process::id();
    writer.tell(Event::Started { pid, backend, setting: (&timings).into() });
    let sampler = Sampler::start(writer.clone())?;
    let store = open(&order).await;
    let given_back = Arc::new(GivenBack { writer: writer.clone(), holders: Mutex::default() });
    let hook = Arc::clone(&given_back);
    let leases = Leases::builder(RecordingStore::new(store.shared(), writer.clone()))
        .timings(timings)
        .instance(Instance::named(&format!("worker {}", order.process)))
        .on_event(move |event| hook.hear(event))
        .build()?;
    let random = Mutex::new(Random(order.seed));
    let stopping = AtomicBool::new(false);
    let worker = Arc::new(Worker { order, store, leases, writer, sampler, random, stopping, given_back });
    let ended = async {
        stop.await;
        worker.stopping.store(true, Ordering::Relaxed);
        worker.leases.close().await;
    };
    tokio::join!(worker.elects(), worker.takes(), worker.works_off(), ended);
    worker.writer.tell(Event::Done);
    Ok(())
}

/// The place may be out of reach now.
async fn open(order: &Order) -> Store {
    loop {
        match order.place.store().await {
            Ok(store) => return store,
            Err(error) => eprintln!("cannot open: {error}"),
        }
        sleep(order.ttl() / 10).await;
    }
}

struct Worker {
    order: Order,
    store: Store,
    leases: Leases,
    writer: Writer,
    sampler: Sampler,
    random: Mutex<Random>,
    stopping: AtomicBool,
    given_back: Arc<GivenBack>,
}

impl Worker {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// A part of the ttl, in hundredths.
    fn part(&self, hundredths: Range<u64>) -> Duration {
        let part = hundredths.start + self.below(hundredths.end - hundredths.start);
        self.order.ttl() * u32::try_from(part).expect("a few hundredths") / 100
    }

    fn below(&self, bound: u64) -> u64 {
        lock(&self.random).below(bound)
    }
}

/// Says when a name was given back: the event knows no token.
struct GivenBack {
    writer: Writer,
    holders: Mutex<BTreeMap<(LeaseName, Term), Holder>>,
}

impl GivenBack {
    fn expect(&self, lease: &LeaseId) {
        if let Some(term) = Term::new(lease.term) {
            lock(&self.holders).insert((lease.name.clone(), term), lease.holder);
        }
    }

    fn hear(&self, event: &lease_core::Event) {
        if matches!(event.what, Transition::GivenBack)
            && let Some(holder) = lock(&self.holders).remove(&(event.name.clone(), event.term))
        {
            let lease = LeaseId { name: event.name.clone(), term: event.term.get(), holder };
            self.writer.tell(Event::GivenBack(lease));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
