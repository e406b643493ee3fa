//! The sweep over the messages of a server's wire protocol.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use lease_core::LeaseStore;

use super::case::{Case, LONG};
use super::extent::Extent;
use super::mishap::{Mishap, Place};
use super::operation::{Operation, Told};
use super::program::Program;
use crate::{Direction, Proxy, Wire};

/// For what cannot be answered. On most machines long enough to come to the point; where it is not, it gets more.
const SHORT: Duration = Duration::from_millis(250);

/// About so many dear points are in a part of the sweep, if there are more.
const DEAR: usize = 250;

/// So many points at once: most of them wait.
const AT_ONCE: usize = 24;

/// A server, and ways to it.
pub struct Server {
    /// Where it is.
    pub addr: SocketAddr,
    /// What it speaks.
    pub wire: Wire,
    /// A store with a table of its own, by the straight way.
    pub beside: Arc<dyn LeaseStore>,
    /// Opens a store on the same table that has made no connection yet and makes all of them, without TLS, at this port of
    /// 127.0.0.1.
    pub open: Box<dyn Fn(u16) -> Arc<dyn LeaseStore> + Send + Sync>,
    /// A process that opens such a store and calls [`ask_as_told`](super::ask_as_told).
    pub program: Box<dyn Fn(u16) -> Command + Send + Sync>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addr, wire, .. } = self;
        f.debug_struct("Server").field("addr", addr).field("wire", wire).finish_non_exhaustive()
    }
}

const MISHAPS: [Mishap; 5] = [Mishap::Cut, Mishap::Away, Mishap::Silent, Mishap::Late, Mishap::Killed];

/// A point of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    operation: Operation,
    mishap: Mishap,
    /// Otherwise it begins with connecting, whose messages count.
    is_open: bool,
    is_after: bool,
    to_client: bool,
    /// The message, counted from 1.
    n: u64,
    /// There are so many; at one more nothing happens.
    last: u64,
}

/// What is known when a point is through.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    points: u64,
    /// The caller was not told that it took place: it did not, and it did.
    untold: [u64; 2],
}

/// Sweeps over all operations: each message, in both directions, before and after it, with each mishap.
///
/// How many messages there are is counted with an operation that nothing disturbs, and that there is none more is seen in
/// the sweep: at the one behind the last nothing happens. Cuts of connections that are open are made at each message; of the
/// rest the [`Extent`] says how many: all, or a few hundred.
///
/// # Panics
///
/// When a row is in a state that it may not be in, or is so although something else was told; when what comes next is not
/// granted; and when the sweep has not come to so many points as `at_least`.
pub async fn sweep(server: &Server, at_least: usize) {
    let (extent, since) = (Extent::told(), Instant::now());
    println!("{extent:?}");
    let mut points = Vec::new();
    for operation in Operation::ALL {
        points.extend(points_of(server, operation, true, &MISHAPS).await);
    }
    // Connections are made in one way, whatever is asked on them: with a claim, which is never sent twice, and with a
    // release, which is sent until it is answered.
    for operation in [Operation::ClaimNew, Operation::Release] {
        let mishaps = [Mishap::Cut, Mishap::Silent, Mishap::Late, Mishap::Killed];
        points.extend(points_of(server, operation, false, &mishaps).await);
    }
    let dear = points.iter().filter(|point| !point.is_cheap()).count();
    let one_in = dear.div_ceil(DEAR);
    let points = points.into_iter().enumerate();
    let points = points.filter(|(place, point)| point.is_cheap() || extent.has(*place, one_in));
    let points: Vec<_> = points.map(|(_, point)| point).collect();
    let ran: Vec<(Point, Count)> =
        stream::iter(points).map(|point| point.run(server)).buffer_unordered(AT_ONCE).collect().await;
    let mut counts: BTreeMap<_, Count> = BTreeMap::new();
    for (Point { operation, mishap, is_open, .. }, count) in &ran {
        let sum = counts.entry((*operation, *mishap, *is_open)).or_default();
        sum.points += count.points;
        sum.untold[0] += count.untold[0];
        sum.untold[1] += count.untold[1];
    }
    for ((operation, mishap, is_open), Count { points, untold: [without, with] }) in &counts {
        let open = if *is_open { "open" } else { "connecting" };
        println!(
            "{operation:?}, {mishap:?}, {open}: {points} points; untold: {without} without effect, {with} with it"
        );
    }
    let swept: u64 = counts.values().map(|count| count.points).sum();
    println!("{swept} points in {:?}", since.elapsed());
    assert!(swept >= at_least as u64, "the sweep has come to {swept} points");
    for operation in Operation::ALL {
        let of_it = counts.iter().filter(|((swept, ..), _)| *swept == operation);
        let untold =
            of_it.fold([0, 0], |sum, (_, count)| [sum[0] + count.untold[0], sum[1] + count.untold[1]]);
        // Else the points were not where it matters.
        assert!(untold[0] > 0, "{operation:?}: nothing kept it from taking place");
        assert!(untold[1] > 0, "{operation:?}: nothing took the answer to what took place");
    }
}

/// All the points of an operation, and for each row of them one behind the last.
async fn points_of(server: &Server, operation: Operation, is_open: bool, mishaps: &[Mishap]) -> Vec<Point> {
    let messages = messages(server, operation, is_open).await;
    let mut points = Vec::new();
    for mishap in mishaps {
        for is_after in [false, true] {
            for to_client in [false, true] {
                let last = messages[usize::from(to_client)];
                assert!(last > 0, "{operation:?}: no message goes by");
                let point = |n| Point { operation, mishap: *mishap, is_open, is_after, to_client, n, last };
                points.extend((1..=last + 1).map(point));
            }
        }
    }
    points
}

/// How many messages of an undisturbed operation go each way.
async fn messages(server: &Server, operation: Operation, is_open: bool) -> [u64; 2] {
    let (proxy, store) = server.wired();
    if is_open {
        warm(server, &*store, operation).await;
    }
    let case = Case::before(&server.beside, operation).await;
    proxy.reset();
    let told = case.request.ask(&*store, LONG).await;
    let log = proxy.log();
    assert!(case.judge("undisturbed", &told).await.iter().all(|is| *is), "{operation:?}: {told:?}");
    let count = |way| log.iter().filter(|passed| passed.direction == way).count() as u64;
    [count(Direction::ToServer), count(Direction::ToClient)]
}

/// Has the connections made that the operation takes.
async fn warm(server: &Server, store: &dyn LeaseStore, operation: Operation) {
    let before = Case::before(&server.beside, operation).await;
    let told = before.request.ask(store, LONG).await;
    assert!(matches!(told, Told::Done | Told::Partly(_)), "{told:?}");
}

impl Server {
    pub(super) fn wired(&self) -> (Proxy, Arc<dyn LeaseStore>) {
        let proxy = self.proxy();
        let store = (self.open)(proxy.port());
        (proxy, store)
    }

    fn proxy(&self) -> Proxy {
        Proxy::start(self.addr, self.wire).expect("a port")
    }
}

impl Point {
    async fn run(self, server: &Server) -> (Self, Count) {
        let cell = self.to_string();
        let mut within = if matches!(self.mishap, Mishap::Cut | Mishap::Killed) { LONG } else { SHORT };
        let (case, is_there, told) = loop {
            let case = Case::before(&server.beside, self.operation).await;
            let (is_there, told) = match self.mishap {
                Mishap::Killed => self.kill(server, &case).await,
                _ => self.disturb(server, &case, within).await,
            };
            match told {
                // On a slow machine there was no time for it, or time was up when there was nothing to wait for.
                Told::Failed { .. } if (!is_there || self.n > self.last) && within < LONG => within *= 4,
                told => break (case, is_there, told),
            }
        };
        // When its client has died a server may say something more.
        let is_counted = is_there == (self.n <= self.last) || (is_there && self.mishap == Mishap::Killed);
        assert!(is_counted, "{cell}: {} messages were counted, and {told:?}", self.last);
        let took_place = case.judge(&cell, &told).await;
        if self.mishap == Mishap::Cut && self.operation.is_repeated() {
            assert!(
                !matches!(told, Told::Failed { .. }),
                "{cell}: the server was there all the time, and {told:?}"
            );
        }
        case.goes_on(&cell, &took_place).await;
        let mut count = Count { points: u64::from(is_there), untold: [0, 0] };
        if is_there && !matches!(told, Told::Done | Told::Partly(_)) {
            count.untold[usize::from(took_place.contains(&true))] += 1;
        }
        (self, count)
    }

    /// Whether it is in every part of the sweep: cuts of an open connection, and for each operation a question that does not
    /// come through, and an answer.
    fn is_cheap(self) -> bool {
        let is_first = self.mishap == Mishap::Silent && self.n == 1 && !self.is_after;
        self.is_open && (self.mishap == Mishap::Cut || is_first)
    }

    fn place(self) -> Place {
        let direction = if self.to_client { Direction::ToClient } else { Direction::ToServer };
        Place { mishap: self.mishap, is_after: self.is_after, direction, n: self.n }
    }

    /// Whether it came to the point, and what was told. Nothing of it is under way any more.
    async fn disturb(self, server: &Server, case: &Case, within: Duration) -> (bool, Told) {
        let (proxy, store) = server.wired();
        let proxy = Arc::new(proxy);
        if self.is_open {
            warm(server, &*store, self.operation).await;
        } else {
            proxy.count_logins();
        }
        if self.mishap == Mishap::Away {
            proxy.refuse();
        }
        let planned = self.place().plan(&proxy);
        let told = case.request.ask(&*store, within).await;
        let is_there = self.has_come(&proxy, &told).await;
        planned.is_through();
        drop(store);
        planned.ends(&proxy);
        assert!(proxy.is_over(LONG).await, "{self}: connections do not end: {proxy:?}");
        (is_there, told)
    }

    async fn kill(self, server: &Server, case: &Case) -> (bool, Told) {
        let proxy = server.proxy();
        let before = Case::before(&server.beside, self.operation).await;
        let (command, request) = ((server.program)(proxy.port()), case.request);
        let before = self.is_open.then_some(before.request);
        let start = move || Program::start(command, before.as_ref(), &request);
        let mut program = tokio::task::spawn_blocking(start).await.expect("a program");
        if !self.is_open {
            proxy.count_logins();
        }
        self.place().call(&proxy, program.killer());
        program.go();
        let told = tokio::task::spawn_blocking(|| program.told()).await.expect("what it was told");
        let is_there = self.has_come(&proxy, &told).await;
        assert!(proxy.is_over(LONG).await, "{self}: connections do not end: {proxy:?}");
        (is_there, told)
    }

    /// Whether it has come to the point.
    async fn has_come(self, proxy: &Proxy, told: &Told) -> bool {
        // The answer may be there before what happens behind it has happened. One that failed may never have come so far.
        let patience = if matches!(told, Told::Failed { .. }) || self.n > self.last { 20 } else { 60_000 };
        let until = Instant::now() + Duration::from_millis(patience);
        while proxy.planned() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        proxy.planned() == 0
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, mishap, is_open, is_after, to_client, n, .. } = self;
        let side = if *is_after { "after" } else { "before" };
        let way = if *to_client { "to the client" } else { "to the server" };
        let open = if *is_open { "" } else { " with connecting" };
        write!(f, "{operation:?}, {mishap:?} {side} message {n}{open} {way}")
    }
}
