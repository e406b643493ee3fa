//! Connections at hand: lanes of the store's own, or the program's pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool::managed::{self, Manager, Metrics, QueueMode, RecycleError, RecycleResult};
use deadpool_postgres::{Object, Pool, PoolError};
use lease_core::ErrorKind;
use lease_core::store::{Limit, StoreError};
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::connection::{Asked, Connection, ask};
use crate::error::{leaves_connection, of_connecting};
use crate::opener::{Opener, no_answer};
use crate::row::{Question, Row};

/// Where a store's connections come from.
pub(crate) enum Connections {
    Own(Own),
    Program(Pool),
}

/// What a connection is for. Who waits for a row in one lane never keeps another lane waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lane {
    /// Batches of renewals, which wait for no row.
    Batch,
    /// Single renewals, releases and other statements of holders.
    Holder,
    /// Claims and reads.
    Other,
}

/// In the order of [`Lane`].
const SIZES: [usize; 3] = [2, 8, 8];

/// After this time a connection that a rush has left over is closed, and one that nobody has used is not
/// trusted to lead anywhere.
const LEFT_OVER: Duration = Duration::from_secs(60);

impl Connections {
    pub(crate) fn own(opener: &Opener) -> Self {
        let lanes = SIZES.map(|size| {
            managed::Pool::builder(opener.clone())
                .max_size(size)
                .queue_mode(QueueMode::Lifo)
                .build()
                .expect("a pool without timeouts needs no runtime")
        });
        Self::Own(Own { lanes, generation: opener.generation().clone() })
    }

    pub(crate) async fn ask(
        &self,
        lane: Lane,
        limit: &Limit,
        question: &Question,
    ) -> Result<Vec<Row>, StoreError> {
        let mut lent = self.lend(lane, limit).await?;
        let Asked { answer, clean } = match &mut lent {
            Lent::Own(own) => own.connection().ask(limit, question).await,
            Lent::Program(borrowed) => ask(borrowed.client(), limit, question).await,
        };
        if clean {
            lent.give_back();
        }
        answer
    }

    /// A connection to use alone. Unless it is given back it is closed.
    pub(crate) async fn lend(&self, lane: Lane, limit: &Limit) -> Result<Lent<'_>, StoreError> {
        match self {
            Self::Own(own) => own.lend(lane, limit).await.map(Lent::Own),
            Self::Program(pool) => {
                let object = timeout(limit.left(), pool.get()).await.map_err(|_| none_free())?;
                Ok(Lent::Program(Borrowed(Some(object.map_err(of_pool)?))))
            }
        }
    }
}

/// Some connections for each lane, made when they are needed.
pub(crate) struct Own {
    lanes: [managed::Pool<Opener>; 3],
    generation: Generation,
}

impl Own {
    async fn lend(&self, lane: Lane, limit: &Limit) -> Result<InUse<'_>, StoreError> {
        for lane in &self.lanes {
            lane.retain(|connection, metrics| self.generation.may_use(connection, &metrics));
        }
        let lane = &self.lanes[lane as usize];
        let object = match timeout(limit.left(), lane.get()).await {
            Ok(Ok(object)) => object,
            Ok(Err(managed::PoolError::Backend(error))) => return Err(error),
            // While there is room, what took the time was connecting.
            Err(_) if lane.status().size < lane.status().max_size => return Err(no_answer()),
            Ok(Err(_)) | Err(_) => return Err(none_free()),
        };
        Ok(InUse { object: Some(object), generation: &self.generation })
    }
}

/// Counts how often a connection has hung or broken. What has befallen one has mostly befallen all that lay
/// idle, in every lane, and where nothing comes back from the server, a lease does not last until each has been
/// tried: those made before are not used again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Generation(Arc<AtomicU64>);

impl Generation {
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn rise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn may_use(&self, connection: &Connection, metrics: &Metrics) -> bool {
        connection.generation == self.now()
            && metrics.last_used() < LEFT_OVER
            && !connection.client.is_closed()
    }
}

impl Manager for Opener {
    type Type = Connection;
    type Error = StoreError;

    async fn create(&self) -> Result<Connection, StoreError> {
        // Apart in memory: it is large, and the future of every statement would be.
        Box::pin(self.open()).await
    }

    /// Without a round trip.
    async fn recycle(&self, connection: &mut Connection, metrics: &Metrics) -> RecycleResult<StoreError> {
        if self.generation().may_use(connection, metrics) {
            return Ok(());
        }
        Err(RecycleError::message("closed, or not to be relied on any more"))
    }
}

const STILL_THERE: &str = "there until it is given back";

/// A connection in use, which is closed unless it is given back.
pub(crate) enum Lent<'a> {
    Own(InUse<'a>),
    Program(Borrowed),
}

impl Lent<'_> {
    pub(crate) fn client(&self) -> &Client {
        match self {
            Self::Own(own) => &own.object.as_ref().expect(STILL_THERE).client,
            Self::Program(borrowed) => borrowed.client(),
        }
    }

    pub(crate) fn give_back(self) {
        match self {
            Self::Own(mut own) => drop(own.object.take()),
            Self::Program(mut borrowed) => drop(borrowed.0.take()),
        }
    }

    /// Hands the answer on, after which the connection goes back, or is closed with what it has left undone.
    pub(crate) fn end<T>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match (&answer, self) {
            (Ok(_), lent) => lent.give_back(),
            // The server is there and says what is wrong: that is nothing about other connections.
            (Err(error), Self::Own(mut own)) if leaves_connection(error) => own.close(),
            (Err(_), lent) => drop(lent),
        }
        answer
    }
}

/// A connection of a lane.
pub(crate) struct InUse<'a> {
    object: Option<managed::Object<Opener>>,
    generation: &'a Generation,
}

impl InUse<'_> {
    fn connection(&mut self) -> &mut Connection {
        self.object.as_mut().expect(STILL_THERE)
    }

    fn close(&mut self) {
        drop(self.object.take().map(managed::Object::take));
    }
}

impl Drop for InUse<'_> {
    /// It hung, or broke.
    fn drop(&mut self) {
        if self.object.is_some() {
            self.generation.rise();
            self.close();
        }
    }
}

/// A connection of the program's pool.
pub(crate) struct Borrowed(Option<Object>);

impl Borrowed {
    fn client(&self) -> &Client {
        self.0.as_ref().expect(STILL_THERE)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        drop(self.0.take().map(Object::take));
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn an_idle_connection_is_used_while_it_is_young_and_none_has_hung() {
        let url = test_servers::shared(test_servers::Product::Postgres);
        let (config, tls) = crate::url::parse(&url).unwrap();
        let opener = Opener::new(&config, tls).unwrap();
        let connection = opener.open().await.unwrap();
        let used_before = |time| {
            let used = Instant::now().checked_sub(time).unwrap();
            Metrics { created: used, recycled: None, ..Metrics::default() }
        };
        let generation = opener.generation();
        assert!(generation.may_use(&connection, &used_before(LEFT_OVER / 2)));
        assert!(!generation.may_use(&connection, &used_before(LEFT_OVER)));
        generation.rise();
        assert!(!generation.may_use(&connection, &used_before(Duration::ZERO)));
    }

    /// No lane is asked to close its own.
    #[tokio::test]
    async fn what_is_left_over_in_one_lane_is_closed_when_another_is_used() {
        let url = test_servers::shared(test_servers::Product::Postgres);
        let (config, tls) = crate::url::parse(&url).unwrap();
        let clock: Arc<dyn lease_core::Clock> = lease_core::SystemClock::shared().unwrap();
        let limit = Limit::new(&clock, Duration::from_secs(120));
        let Connections::Own(own) = Connections::own(&Opener::new(&config, tls).unwrap()) else {
            panic!("it has connections of its own")
        };
        let idle = |lane: Lane| own.lanes[lane as usize].status().size;
        own.lend(Lane::Other, &limit).await.unwrap().object.take();
        assert_eq!(idle(Lane::Other), 1);
        own.generation.rise();
        own.lend(Lane::Batch, &limit).await.unwrap().object.take();
        assert_eq!((idle(Lane::Other), idle(Lane::Batch)), (0, 1));
    }
}
