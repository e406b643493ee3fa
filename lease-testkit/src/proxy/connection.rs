//! One client's connection and the one to the server behind it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::session::{Message, Session};
use super::shared::{Call, Due, Shared, Side};
use super::{Direction, Wire};

/// How much is read at a time.
const CHUNK: usize = 64 * 1024;

/// Takes clients' connections and serves each on a task of its own.
pub(super) async fn accept(listener: TcpListener, target: Vec<SocketAddr>, wire: Wire, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // That client has gone, or the process is out of files for now.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let faults = shared.faults();
        if !faults.refusing {
            let number = shared.state().opened();
            let link = Link {
                number,
                cuts: faults.cuts,
                strandings: faults.strandings,
                shared: Arc::clone(&shared),
            };
            tokio::spawn(serve(client, target.clone(), wire, link));
        }
    }
}

/// What a connection's two directions share; the connection counts as open as long as it lives.
struct Link {
    number: u64,
    /// How often everything had been cut when this began.
    cuts: u64,
    /// How often all had been left half open when this began.
    strandings: u64,
    shared: Arc<Shared>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.state().open -= 1;
    }
}

/// The way to the server, as long as the server has not ended it.
struct Served(Arc<Shared>);

impl Served {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.state().served += 1;
        Self(Arc::clone(shared))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.state().served -= 1;
    }
}

async fn serve(mut client: TcpStream, target: Vec<SocketAddr>, wire: Wire, link: Link) {
    // Counted before it is there: who has seen the end of the client's connection sees this one.
    let to_the_end = Served::new(&link.shared);
    let Ok(mut server) = TcpStream::connect(&*target).await else { return };
    // A message is on its way when it is written, whatever comes after it.
    if client.set_nodelay(true).and(server.set_nodelay(true)).is_err() {
        return;
    }
    let session = Mutex::new(Session::new(wire));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let is_stranded = tokio::select! {
        () = link.shared.cut_since(link.cuts) => false,
        () = link.shared.stranded_since(link.strandings) => true,
        _ = async {
            tokio::try_join!(
                pump(Direction::ToServer, from_client, to_server, &session, &link),
                pump(Direction::ToClient, from_server, to_client, &session, &link),
            )
        } => false,
    };
    if is_stranded {
        drop(server);
        let mut nowhere = tokio::io::sink();
        tokio::select! {
            () = link.shared.cut_since(link.cuts) => {}
            _ = tokio::io::copy(&mut client, &mut nowhere) => {}
        }
        return;
    }
    drop(client);
    drop(link);
    // Closing with an answer unread would reset the connection, and the server might never read what
    // was forwarded to it: it gets the end, and its words go nowhere.
    if server.shutdown().await.is_ok() {
        let _ = tokio::io::copy(&mut server, &mut tokio::io::sink()).await;
    }
    drop(to_the_end);
}

/// Forwards one way, message by message, until that way ends. An error ends the connection.
async fn pump(
    direction: Direction,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    session: &Mutex<Session>,
    link: &Link,
) -> io::Result<()> {
    let mut come = Vec::new();
    loop {
        come.reserve(CHUNK);
        let read = from.read_buf(&mut come).await;
        if read.is_err() {
            // While this way is held, the other side does not learn that the sender is gone.
            link.shared.free(direction).await;
        }
        let ended = read? == 0;
        let delay = link.shared.faults().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let mut done = 0;
        while let Some(message) = link.next(session, direction, &come[done..]) {
            link.shared.free(direction).await;
            if link.is_cut() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let Due { calls: [before, after], cut } = link.shared.state().due(direction, &message);
            link.call(before);
            // A call may have held this very message.
            link.shared.free(direction).await;
            if cut[Side::Before as usize] || link.is_cut() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            link.shared.state().passes(link.number, direction, &message);
            link.write(direction, &mut to, &come[done..done + message.bytes]).await?;
            link.call(after);
            if cut[Side::After as usize] {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            done += message.bytes;
        }
        come.drain(..done);
        if ended {
            link.shared.free(direction).await;
            // Of a message that has no end the receiver gets what there is.
            link.write(direction, &mut to, &come).await?;
            return to.shutdown().await;
        }
    }
}

impl Link {
    fn next(&self, session: &Mutex<Session>, direction: Direction, bytes: &[u8]) -> Option<Message> {
        let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
        let message = session.next(direction, bytes);
        if let Session::Opaque(why) = *session {
            self.shared.state().lost_sight_of(self.number, why);
        }
        message
    }

    /// Whether everything has been cut since this began.
    fn is_cut(&self) -> bool {
        self.shared.faults().cuts != self.cuts
    }

    /// A call may use the proxy, so nothing is locked meanwhile.
    fn call(&self, calls: Vec<Call>) {
        for call in calls {
            call();
            self.shared.state().called();
        }
    }

    async fn write(
        &self,
        direction: Direction,
        to: &mut (impl AsyncWrite + Unpin),
        bytes: &[u8],
    ) -> io::Result<()> {
        let written = to.write_all(bytes).await;
        if written.is_err() {
            // That the receiver is gone is news that goes the other way.
            self.shared.free(direction.back()).await;
        }
        written
    }
}
