//! Two replicas in one process, on a store in memory, with a clock that the test moves: minutes pass in milliseconds, and always alike.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lease_core::clock::sleep_until;
use lease_core::{Clock, ErrorKind, Leases, Moment, RunError, Term};
use lease_testkit::{Fault, FaultStore, ManualClock, MemoryStore};
use test_your_code::{Office, bill};
use tokio::task::JoinHandle;

const SECOND: Duration = Duration::from_secs(1);

/// To send an invoice takes so long.
const SENDING: Duration = Duration::from_millis(1_500);

/// What the replicas share.
struct World {
    clock: Arc<ManualClock>,
    start: Moment,
    database: MemoryStore,
    invoices: Arc<Mutex<Invoices>>,
}

#[derive(Default)]
struct Invoices {
    due: VecDeque<u32>,
    sent: Vec<Sent>,
    office_is_closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    by: &'static str,
    term: i64,
    invoice: u32,
    at: Duration,
}

impl World {
    fn with_due(invoices: u32) -> Self {
        let clock = ManualClock::new();
        let invoices = Invoices { due: (1..=invoices).collect(), ..Invoices::default() };
        Self {
            start: clock.now(),
            database: MemoryStore::with_clock(clock.clone()),
            clock,
            invoices: Arc::new(Mutex::new(invoices)),
        }
    }

    /// Another replica begins.
    fn replica(&self, name: &'static str) -> Replica {
        // Each has its own way to the database, which can fail.
        let store = FaultStore::new(self.database.clone(), self.clock.clone());
        let leases = Leases::builder(store.clone()).clock(self.clock.clone()).build().unwrap();
        let desk =
            Desk { name, clock: self.clock.clone(), start: self.start, invoices: Arc::clone(&self.invoices) };
        let billing = {
            let leases = leases.clone();
            tokio::spawn(async move { bill(&leases, Arc::new(desk)).await })
        };
        Replica { store, leases, billing }
    }

    async fn pass(&self, time: Duration) {
        self.clock.play(time).await;
    }

    fn sent(&self) -> Vec<Sent> {
        self.invoices.lock().unwrap().sent.clone()
    }
}

struct Replica {
    store: FaultStore,
    leases: Leases,
    billing: JoinHandle<Result<(), RunError<(), io::Error>>>,
}

impl Replica {
    /// The database cannot be reached any more, until `store.heal()`.
    fn is_cut_off(&self) {
        self.store.plan(|_| Some(Fault::FailBefore(ErrorKind::Unavailable)));
    }
}

/// The office as one replica sees it.
struct Desk {
    name: &'static str,
    clock: Arc<dyn Clock>,
    start: Moment,
    invoices: Arc<Mutex<Invoices>>,
}

#[async_trait]
impl Office for Desk {
    async fn next_due(&self) -> io::Result<Option<u32>> {
        let invoices = self.invoices.lock().unwrap();
        if invoices.office_is_closed {
            return Err(io::Error::other("the office is closed"));
        }
        Ok(invoices.due.front().copied())
    }

    async fn send(&self, invoice: u32, term: Term) -> io::Result<()> {
        sleep_until(&self.clock, self.clock.now() + SENDING).await;
        let mut invoices = self.invoices.lock().unwrap();
        invoices.due.retain(|due| *due != invoice);
        let at = self.clock.now().since(self.start);
        invoices.sent.push(Sent { by: self.name, term: term.get(), invoice, at });
        Ok(())
    }
}

/// Each once, in order.
#[track_caller]
fn each_is_sent_once(sent: &[Sent], invoices: u32) {
    let seen: Vec<u32> = sent.iter().map(|sent| sent.invoice).collect();
    assert_eq!(seen, (1..=invoices).collect::<Vec<_>>(), "{sent:#?}");
}

fn by<'a>(sent: &'a [Sent], name: &str) -> Vec<&'a Sent> {
    sent.iter().filter(|sent| sent.by == name).collect()
}

#[tokio::test]
async fn of_two_replicas_one_sends_each_invoice_once() {
    let world = World::with_due(10);
    let (_a, _b) = (world.replica("a"), world.replica("b"));
    world.pass(SECOND * 30).await;
    let sent = world.sent();
    each_is_sent_once(&sent, 10);
    assert!(sent.iter().all(|sent| sent.term == 1), "{sent:#?}");
}

#[tokio::test]
async fn a_replica_that_is_cut_off_stops_at_its_deadline_and_the_other_goes_on_behind_it() {
    let world = World::with_due(40);
    let a = world.replica("a");
    let _b = world.replica("b");
    // Right behind a renewal. When the lease is lost, an invoice is in hand.
    world.pass(a.leases.timings().renew() * 2 + SECOND / 4).await;
    let (cut_off, deadline) = (world.clock.now().since(world.start), a.leases.timings().deadline());
    a.is_cut_off();
    world.pass(SECOND * 90).await;

    let sent = world.sent();
    each_is_sent_once(&sent, 40);
    let (by_a, by_b) = (by(&sent, "a"), by(&sent, "b"));
    let last_of_a = by_a.last().unwrap().at;
    assert!(last_of_a > cut_off, "it gave up at once: {last_of_a:?}");
    assert!(last_of_a <= cut_off + deadline, "it went on without the lease: {last_of_a:?}");
    assert!(by_b[0].at > last_of_a, "the two sent at once: {sent:#?}");
    assert!(by_b.iter().all(|sent| sent.term == 2), "{sent:#?}");
}

#[tokio::test]
async fn an_outage_shorter_than_the_deadline_interrupts_nothing() {
    let world = World::with_due(40);
    let (a, b) = (world.replica("a"), world.replica("b"));
    world.pass(SECOND * 5).await;
    for replica in [&a, &b] {
        replica.is_cut_off();
    }
    // A renew interval may have passed since the last renewal, and one passes until the next.
    let timings = *a.leases.timings();
    world.pass(timings.deadline().saturating_sub(timings.renew() * 2)).await;
    for replica in [&a, &b] {
        replica.store.heal();
    }
    world.pass(SECOND * 60).await;

    let sent = world.sent();
    each_is_sent_once(&sent, 40);
    for (sent, number) in sent.iter().zip(1..) {
        assert_eq!((sent.term, sent.at), (1, SENDING * number), "{sent:?}");
    }
}

#[tokio::test]
async fn at_a_shutdown_the_invoice_in_hand_is_sent_and_the_other_goes_on_at_once() {
    let world = World::with_due(10);
    let a = world.replica("a");
    let _b = world.replica("b");
    // In the middle of the fourth.
    world.pass(SENDING * 3 + SENDING / 2).await;
    let closing = {
        let leases = a.leases.clone();
        tokio::spawn(async move { leases.close().await })
    };
    world.pass(SECOND * 20).await;

    assert!(closing.is_finished() && a.billing.is_finished());
    assert!(a.billing.await.unwrap().is_ok());
    let sent = world.sent();
    each_is_sent_once(&sent, 10);
    assert_eq!(by(&sent, "a").len(), 4, "{sent:#?}");
    // A look of a waiter, far less than the ttl.
    assert!(sent[4].at < sent[3].at + SENDING + SECOND, "{sent:#?}");
}

#[tokio::test]
async fn an_error_of_the_office_ends_the_billing_and_frees_the_name() {
    let world = World::with_due(10);
    let a = world.replica("a");
    world.pass(SECOND * 3).await;
    world.invoices.lock().unwrap().office_is_closed = true;
    world.pass(SENDING).await;
    assert!(a.billing.is_finished());
    let error = a.billing.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the office is closed");

    world.invoices.lock().unwrap().office_is_closed = false;
    let _b = world.replica("b");
    world.pass(SECOND * 20).await;
    each_is_sent_once(&world.sent(), 10);
}
