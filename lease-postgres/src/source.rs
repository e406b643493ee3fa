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
            Taken::Own { connection, .. } => connection.ask(limit, question).await,
            Taken::Users(object) => ask_in_transaction(object.client(), limit, question).await,
        };
        if clean {
            taken.give_back();
        } else if let Taken::Own { lane, .. } = taken {
            // What has befallen this one has mostly befallen all that lay idle.
            lane.idle().clear();
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
        Ok(Taken::Own { connection, lane: self, room })
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

/// A connection in use.
pub(crate) enum Taken<'a> {
    Own { connection: Connection, lane: &'a Lane, room: SemaphorePermit<'a> },
    Users(Borrowed),
}

impl Taken<'_> {
    pub(crate) fn client(&self) -> &Client {
        match self {
            Self::Own { connection, .. } => connection.client(),
            Self::Users(object) => object.client(),
        }
    }

    pub(crate) fn give_back(self) {
        match self {
            Self::Own { connection, lane, room } => {
                lane.idle().push((Instant::now(), connection));
                drop(room);
            }
            Self::Users(mut object) => drop(object.0.take()),
        }
    }
}

/// A connection of the user's pool, which does not go back there unless it is given back.
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
