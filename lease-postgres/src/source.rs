//! Connections at hand: lanes of the store's own, or the user's pool.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{Object, Pool, PoolError};
use lease_core::ErrorKind;
use lease_core::store::{Limit, StoreError};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_postgres::{Client, Row};

use crate::connection::{Asked, Connection, ask_in_transaction};
use crate::error::of_connecting;
use crate::row::Question;
use crate::server::Server;

/// Where a store's connections come from.
pub(crate) enum Source {
    Own(Box<Own>),
    Users(Pool),
}

pub(crate) struct Own {
    server: Server,
    lanes: [Lane; 3],
}

/// What a connection is for. Who waits for a row in one lane never keeps another lane waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum For {
    /// Batches of renewals, which wait for no row.
    Batches,
    /// Single renewals, releases and other statements of holders.
    Holders,
    /// Claims and reads.
    Others,
}

impl Source {
    pub(crate) fn own(server: Server) -> Self {
        Self::Own(Box::new(Own { server, lanes: [Lane::new(2), Lane::new(8), Lane::new(8)] }))
    }

    pub(crate) async fn ask(
        &self,
        purpose: For,
        limit: &Limit,
        question: &Question,
    ) -> Result<Vec<Row>, StoreError> {
        let mut taken = self.take(purpose, limit).await?;
        let Asked { answer, clean } = match &mut taken {
            Taken::Own(own) => own.connection_mut().ask(limit, question).await,
            Taken::Users(borrowed) => ask_in_transaction(borrowed.client(), limit, question).await,
        };
        if clean {
            taken.give_back();
        }
        answer
    }

    /// A connection to use alone. Unless it is given back it is closed.
    pub(crate) async fn take(&self, purpose: For, limit: &Limit) -> Result<Taken<'_>, StoreError> {
        match self {
            Self::Own(own) => own.lanes[purpose as usize].take(&own.server, limit).await,
            Self::Users(pool) => {
                let object = timeout(limit.left(), pool.get()).await.map_err(|_| none_free())?;
                Ok(Taken::Users(Borrowed(Some(object.map_err(of_pool)?))))
            }
        }
    }
}

/// Some connections, made when they are needed.
pub(crate) struct Lane {
    room: Semaphore,
    idle: Mutex<Vec<(Instant, Connection)>>,
}

/// After this time a connection that a rush has left over is closed.
const LEFT_OVER: Duration = Duration::from_secs(60);

impl Lane {
    fn new(connections: usize) -> Self {
        Self { room: Semaphore::new(connections), idle: Mutex::default() }
    }

    async fn take(&self, server: &Server, limit: &Limit) -> Result<Taken<'_>, StoreError> {
        let room = timeout(limit.left(), self.room.acquire()).await.map_err(|_| none_free())?;
        let room = room.map_err(|_| none_free())?;
        let idle = self.idle_one();
        let connection = match idle {
            Some(connection) => connection,
            None => server.connect(limit).await?,
        };
        Ok(Taken::Own(InUse { connection: Some(connection), lane: self, _room: room }))
    }

    /// The one that was used last.
    fn idle_one(&self) -> Option<Connection> {
        let mut idle = self.idle();
        let last = idle.pop()?;
        idle.retain(|(since, _)| since.elapsed() < LEFT_OVER);
        let connection = Some(last.1).filter(|connection| !connection.client().is_closed());
        connection.or_else(|| {
            idle.clear();
            None
        })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, Connection)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use, which is closed unless it is given back.
pub(crate) enum Taken<'a> {
    Own(InUse<'a>),
    Users(Borrowed),
}

impl Taken<'_> {
    pub(crate) fn client(&self) -> &Client {
        match self {
            Self::Own(own) => own.connection().client(),
            Self::Users(borrowed) => borrowed.client(),
        }
    }

    pub(crate) fn give_back(self) {
        match self {
            Self::Own(mut own) => own.give_back(),
            Self::Users(mut borrowed) => drop(borrowed.0.take()),
        }
    }
}

/// A connection of a lane.
pub(crate) struct InUse<'a> {
    connection: Option<Connection>,
    lane: &'a Lane,
    /// Given up after the connection is back among the idle ones.
    _room: SemaphorePermit<'a>,
}

impl InUse<'_> {
    fn give_back(&mut self) {
        let connection = self.connection.take();
        self.lane.idle().extend(connection.map(|connection| (Instant::now(), connection)));
    }

    fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("there until it is given back")
    }

    fn connection_mut(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("there until it is given back")
    }
}

impl Drop for InUse<'_> {
    /// What has befallen this connection has mostly befallen those that lie idle, and where nothing
    /// comes back from the server, a lease does not last until each has been tried.
    fn drop(&mut self) {
        if self.connection.is_some() {
            self.lane.idle().clear();
        }
    }
}

/// A connection of the user's pool.
pub(crate) struct Borrowed(Option<Object>);

impl Borrowed {
    fn client(&self) -> &Client {
        self.0.as_ref().expect("there until it is given back")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

fn none_free() -> StoreError {
    StoreError::new(ErrorKind::Timeout, "no connection was free in the time there was").without_effect()
}

fn of_pool(error: PoolError) -> StoreError {
    let message = match error {
        PoolError::Backend(error) => return of_connecting(error),
        PoolError::Timeout(_) => return none_free(),
        PoolError::Closed => "the pool of connections is closed".to_owned(),
        other => format!("the pool gives no connection: {other}"),
    };
    StoreError::new(ErrorKind::Unavailable, message.replace(char::is_control, " ")).without_effect()
}
