//! A proxy that knows where the messages of a database's wire protocol begin and end.

mod connection;
mod mysql;
mod postgres;
mod session;
mod shared;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::{self, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::Builder;

use shared::{Act, Shared, Side, State};

/// A TCP proxy on loopback between a store and its server: it counts round trips, and breaks
/// connections at message boundaries.
///
/// It answers nothing itself. It lives on an OS thread of its own, so a test that blocks its runtime
/// does not hold it up, and ends with all its connections when dropped.
///
/// A client that asks for TLS (or on MySQL for compression) gets it if the server has it, and from then on
/// only bytes are forwarded: nothing more is counted, logged or cut at a boundary. So let the client
/// ask for none: [`trips`](Proxy::trips) and whatever waits for the `n`th message
/// ([`cut_before`](Proxy::cut_before), [`call_before`](Proxy::call_before) and the like) panic once that has happened to any
/// connection.
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The protocol spoken through a [`Proxy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// PostgreSQL, version 3 of the protocol.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
}

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// A message that a [`Proxy`] has forwarded: `#2 -> Query` came on the second connection.
///
/// Only what kind of message it was: no statement, no password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// The connection, counted from 1 since the proxy started.
    pub connection: u64,
    /// Which way it went.
    pub direction: Direction,
    /// The protocol's name for it. Of a MySQL answer only the first message is told apart.
    pub kind: &'static str,
}

impl Proxy {
    /// Starts a proxy on a free port of 127.0.0.1 for a server at `target`.
    ///
    /// # Errors
    ///
    /// `target` names no address, or the system gives no port or thread. A server that is not there is
    /// no error: the client's connection is closed, as often as it tries.
    pub fn start(target: impl ToSocketAddrs, wire: Wire) -> io::Result<Self> {
        let target: Vec<SocketAddr> = target.to_socket_addrs()?.collect();
        let listener = net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let shared = Arc::new(Shared::new());
        let thread = thread::Builder::new().name("proxy".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = shared.stopped() => {}
                        () = connection::accept(listener, target, wire, Arc::clone(&shared)) => {}
                    }
                });
            }
        })?;
        Ok(Self { addr, shared, thread: Some(thread) })
    }

    /// Where clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The port on 127.0.0.1 that clients connect to.
    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    /// The round trips since the last reset, over all connections, those of connecting and logging in
    /// left out.
    ///
    /// A round trip begins when a client sends while nothing is owed to it, and ends with the whole
    /// answer; whatever else it sends before that belongs to the same one. What asks for no answer (the
    /// end of a connection, on MySQL the closing of a statement) is none. On PostgreSQL an answer ends
    /// with `ReadyForQuery`; on MySQL the client is taken at its word: it is done with an answer when it sends again.
    ///
    /// # Panics
    ///
    /// A connection was encrypted, compressed or not understood since the proxy started.
    #[track_caller]
    pub fn trips(&self) -> u64 {
        self.state_that_counts().trips
    }

    /// The connections that clients have opened since the last reset; not those refused.
    pub fn connections(&self) -> u64 {
        self.shared.state().connections
    }

    /// The connections that are open now.
    pub fn open(&self) -> u64 {
        self.shared.state().open
    }

    /// The connections to the server that the server has not ended yet. What came through the proxy has had all its effect when
    /// its clients are gone and this is 0: a server closes a connection when it is done with what was sent on it.
    pub fn served(&self) -> u64 {
        self.shared.state().served
    }

    /// Waits until the server has done all that it will do of what came through, the clients being gone. `false`: it has not in
    /// this time, and [`open`](Self::open) and [`served`](Self::served) say what is left.
    pub async fn is_over(&self, within: Duration) -> bool {
        let give_up = Instant::now() + within;
        while self.open() > 0 || self.served() > 0 {
            if Instant::now() >= give_up {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        true
    }

    /// From now on a plan for the `n`th message counts those of connecting and logging in as well.
    pub fn count_logins(&self) {
        self.shared.state().counts_logins = true;
    }

    /// The messages forwarded since the last reset, oldest first; of very many the last thousand.
    pub fn log(&self) -> Vec<Passed> {
        self.shared.state().log.iter().copied().collect()
    }

    /// Counts and logs from nothing again. Faults stay.
    pub fn reset(&self) {
        self.shared.state().reset();
    }

    /// Closes all connections now. A message that is not yet on its way is not forwarded any more.
    pub fn cut(&self) {
        self.shared.change(|faults| faults.cuts += 1);
    }

    /// Leaves all connections of now half open: the server's side is closed at once, the client's stays, and on it nothing comes
    /// any more, not even the end, before the client itself closes it or [`cut`](Self::cut) is called. New connections are not concerned.
    pub fn strand(&self) {
        self.shared.change(|faults| faults.strandings += 1);
    }

    /// Closes a connection when the `n`th message from now, over all connections, is about to go this
    /// way: it is not forwarded. Messages of connecting and logging in are not counted.
    ///
    /// # Panics
    ///
    /// `n` is 0, or messages cannot be counted, see [`trips`](Self::trips).
    #[track_caller]
    pub fn cut_before(&self, n: u64, direction: Direction) {
        self.plan(n, direction, Side::Before, Act::Cut);
    }

    /// Closes a connection when the `n`th message from now, over all connections, has been forwarded this
    /// way: the receiver has all of it and nothing after it. Messages of connecting and logging in are not counted.
    ///
    /// # Panics
    ///
    /// `n` is 0, or messages cannot be counted, see [`trips`](Self::trips).
    #[track_caller]
    pub fn cut_after(&self, n: u64, direction: Direction) {
        self.plan(n, direction, Side::After, Act::Cut);
    }

    /// Calls `f` when the `n`th message from now, over all connections, is about to go this way, and forwards the
    /// message when `f` has returned: to stop the process that sent it, or that it is for. Messages of
    /// connecting and logging in are not counted.
    ///
    /// `f` runs on the proxy's thread: nothing is forwarded on any connection meanwhile. What it does to the proxy counts
    /// for the message itself: after [`hold`](Self::hold) it is not forwarded before it is released, after [`cut`](Self::cut) never.
    /// One that panics ends the connection and stays [`planned`](Self::planned).
    ///
    /// # Panics
    ///
    /// `n` is 0, or messages cannot be counted, see [`trips`](Self::trips).
    #[track_caller]
    pub fn call_before(&self, n: u64, direction: Direction, f: impl FnOnce() + Send + 'static) {
        self.plan(n, direction, Side::Before, Act::Call(Box::new(f)));
    }

    /// As [`call_before`](Self::call_before), when the message has been forwarded: the receiver's system has all of it,
    /// and nothing after it before `f` has returned. It is not called when the message is cut.
    ///
    /// # Panics
    ///
    /// `n` is 0, or messages cannot be counted, see [`trips`](Self::trips).
    #[track_caller]
    pub fn call_after(&self, n: u64, direction: Direction, f: impl FnOnce() + Send + 'static) {
        self.plan(n, direction, Side::After, Act::Call(Box::new(f)));
    }

    /// How many cuts are yet to be made that [`cut_before`](Self::cut_before) and [`cut_after`](Self::cut_after) have
    /// planned, and how many calls of [`call_before`](Self::call_before) and [`call_after`](Self::call_after) have yet to
    /// return. A test that plans one asserts in the end that none is left: a cut that was never made tests nothing.
    pub fn planned(&self) -> usize {
        self.shared.state().planned()
    }

    /// Gives up what is still [`planned`](Self::planned), but for a call that is under way. Answers how many plans that were.
    pub fn forget_planned(&self) -> usize {
        self.shared.state().forget_planned()
    }

    #[track_caller]
    fn plan(&self, n: u64, direction: Direction, side: Side, act: Act) {
        assert!(n > 0, "messages are counted from 1");
        self.state_that_counts().plan(n, direction, side, act);
    }

    #[track_caller]
    fn state_that_counts(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state();
        if let Some(blindness) = state.blindness() {
            drop(state);
            panic!("{blindness}");
        }
        state
    }

    /// Forwards nothing this way any more, not even the end of a connection, until
    /// [`release`](Self::release): nothing is lost, nothing comes. Both ways held are a partition.
    pub fn hold(&self, direction: Direction) {
        self.shared.change(|faults| faults.held[direction as usize] = true);
    }

    /// Forwards what was held this way, and what comes.
    pub fn release(&self, direction: Direction) {
        self.shared.change(|faults| faults.held[direction as usize] = false);
    }

    /// Forwards everything this much later, each way: a round trip takes twice as much longer, at least.
    pub fn delay(&self, time: Duration) {
        self.shared.change(|faults| faults.delay = time);
    }

    /// Closes new connections as soon as they are made, as if no server were there. Those open stay.
    pub fn refuse(&self) {
        self.shared.change(|faults| faults.refusing = true);
    }

    /// Takes new connections again.
    pub fn accept(&self) {
        self.shared.change(|faults| faults.refusing = false);
    }
}

impl Direction {
    fn back(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|faults| faults.stopped = true);
        if let Some(thread) = self.thread.take() {
            // A panic of its own has been printed; the test that sees its connections gone fails.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, served) = (self.open(), self.served());
        let mut proxy = f.debug_struct("Proxy");
        proxy.field("addr", &self.addr).field("open", &open).field("served", &served).finish_non_exhaustive()
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrow = match self.direction {
            Direction::ToServer => "->",
            Direction::ToClient => "<-",
        };
        write!(f, "#{} {arrow} {}", self.connection, self.kind)
    }
}
