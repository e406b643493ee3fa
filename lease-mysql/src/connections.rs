//! Connections: in lanes, lent for one flight, and kept only while nothing speaks against them.

use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use deadpool::managed::{self, QueueMode};
use lease_core::ErrorKind;
use lease_core::store::{Identifier, IoThread, Limit, Repeat, StoreError};
use mysql_async::Pool;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use crate::connection::{Lent, Work};
use crate::error;
use crate::opener::{Generation, Opener};
use crate::product::Product;
use crate::row::{Answer, Flight};
use crate::url::Target;

/// A claim whose connection turns out to be dead may be granted without anybody knowing. So one that has been idle
/// for so long is asked first whether it lives, before a claim is sent on it.
const IDLE: Duration = Duration::from_secs(5);

/// How long it may take to answer that it lives, at most.
const PING: Duration = Duration::from_secs(1);

/// Which of the store's own connections a statement takes, so that none waits behind one that is less urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Batches of renewals, which never wait for a row.
    Batch,
    /// What a holder asks of its own row.
    Holder,
    /// Claims, reads, and the rest.
    Other,
}

/// What a store has of connections.
pub(crate) struct Connections {
    source: Source,
    place: String,
    product: Arc<OnceLock<Product>>,
    /// The database of the leases.
    database: OnceLock<String>,
}

enum Source {
    Own {
        io: IoThread,
        lanes: [managed::Pool<Opener>; 3],
    },
    /// The user's. Its connections belong to the user's runtime, so the statements run there.
    Borrowed(Pool),
}

/// Runs what nobody waits for, from anywhere.
pub(crate) enum Spawner {
    Own(IoThread),
    Users(Handle),
}

impl Spawner {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Own(thread) => drop(thread.spawn(task)),
            Self::Users(runtime) => drop(runtime.spawn(task)),
        }
    }
}

impl Connections {
    /// Connections of the store's own; none is opened yet.
    pub(crate) fn own(target: &Target) -> Result<Self, StoreError> {
        let io = IoThread::start("lease-mysql").map_err(|error| {
            let message = format!("no thread can be started: {error}");
            StoreError::new(ErrorKind::Unavailable, message).with_source(error)
        })?;
        let place = target.place();
        let product = Arc::new(OnceLock::new());
        let generation = Generation::default();
        let lane = |size| {
            let (target, generation, product) = (target.clone(), generation.clone(), Arc::clone(&product));
            let opener = Opener { target, generation, product };
            // The last that was given back is lent first, so that those that are not needed come of age.
            managed::Pool::builder(opener).max_size(size).queue_mode(QueueMode::Lifo).build().map_err(
                |error| {
                    StoreError::new(ErrorKind::Other, "no pool of connections can be made").with_source(error)
                },
            )
        };
        let lanes = [lane(2)?, lane(8)?, lane(8)?];
        let database = OnceLock::from(target.opts.db_name().unwrap_or_default().to_owned());
        Ok(Self { source: Source::Own { io, lanes }, place, product, database })
    }

    /// A pool of the user's.
    pub(crate) fn borrowed(pool: Pool) -> Self {
        Self {
            source: Source::Borrowed(pool),
            place: "by a pool of the caller's".to_owned(),
            product: Arc::default(),
            database: OnceLock::new(),
        }
    }

    /// The database of the leases; of a pool of the user's it is known when the first connection has come out of it,
    /// if its configuration names one.
    pub(crate) fn database(&self) -> Option<&str> {
        self.database.get().map(String::as_str)
    }

    /// Remembers what the server has said.
    pub(crate) fn is_in(&self, database: String) {
        let _ = self.database.set(database);
    }

    /// `MariaDB host:3306/database`; before the first connection it is taken for MySQL.
    pub(crate) fn describe(&self) -> String {
        let product = self.product.get().copied().unwrap_or(Product::MySql);
        format!("{} {}", product.name(), self.place)
    }

    /// Sends a flight until it is answered, on the thread of the store's own, so that a dropped
    /// caller leaves no connection in the middle of an answer.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        lane: Lane,
        repeat: Repeat,
        limit: Limit,
        flight: Flight,
    ) -> Result<Vec<Answer>, StoreError> {
        let this = Arc::clone(self);
        self.run(async move {
            let before = Mutex::new(None);
            // Apart in memory: it is large, and what is around it is moved several times on its way to the thread.
            limit.insist(repeat, || Box::pin(this.once(lane, &limit, &flight, &before))).await
        })
        .await
    }

    /// Runs several flights on one connection, again from the start when asking again may help. After an error the
    /// connection is closed, whatever state the work left it in.
    pub(crate) async fn hold(
        self: &Arc<Self>,
        limit: Limit,
        table: Identifier,
        work: Work,
    ) -> Result<(), StoreError> {
        let this = Arc::clone(self);
        self.run(Box::pin(async move {
            limit.insist(Repeat::Always, || this.hold_once(&limit, &table, work)).await
        }))
        .await
    }

    /// The same without insisting: what is wrong now is what is to be said. Only a connection that has
    /// died in its pool is no news, and a lock, which is waited for.
    pub(crate) async fn look(
        self: &Arc<Self>,
        limit: Limit,
        table: Identifier,
        work: Work,
    ) -> Result<(), StoreError> {
        let this = Arc::clone(self);
        self.run(Box::pin(async move {
            let looking = async {
                let mut answer = this.hold_once(&limit, &table, work).await;
                if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
                    answer = this.hold_once(&limit, &table, work).await;
                }
                // Somebody else's lock says nothing about the database either, while there is time.
                while answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Busy)
                    && !limit.left().is_zero()
                {
                    answer = this.hold_once(&limit, &table, work).await;
                }
                answer
            };
            limit.bound(Box::pin(looking)).await
        }))
        .await
    }

    /// Runs where the connections live.
    async fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        match &self.source {
            Source::Own { io, .. } => io.run(call).await,
            Source::Borrowed(_) => match current_runtime()?.spawn(call).await {
                Ok(answer) => answer,
                Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
                Err(ended) => {
                    let message = "the runtime that the store was used on has ended";
                    Err(StoreError::new(ErrorKind::Runtime, message).with_source(ended))
                }
            },
        }
    }

    /// Where the store's statements run, for what nobody waits for.
    pub(crate) fn spawner(&self) -> Result<Spawner, StoreError> {
        match &self.source {
            Source::Own { io, .. } => Ok(Spawner::Own(io.clone())),
            Source::Borrowed(_) => current_runtime().map(Spawner::Users),
        }
    }

    async fn once(
        &self,
        lane: Lane,
        limit: &Limit,
        flight: &Flight,
        before: &Mutex<Option<Failed>>,
    ) -> Result<Vec<Answer>, StoreError> {
        let before = || before.lock().unwrap_or_else(PoisonError::into_inner);
        // After a wait for a lock that took longer than there is time left, the server would still be waiting when the
        // caller has left.
        if let Some(failed) = before().as_ref().filter(|failed| limit.left() < failed.waited) {
            return Err(failed.again());
        }
        let mut sent = Instant::now();
        let lent = match self.lend(lane, limit).await {
            Some(lent) => lent.map_err(StoreError::without_effect),
            // What has kept the call from its answer until now says more than that time is up.
            None => Err(before().as_ref().map_or_else(no_connection, Failed::again)),
        };
        let answer = match lent {
            Ok(mut lent) => {
                sent = Instant::now();
                let answer = lent.ask(flight).await;
                lent.give_back();
                answer
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &answer {
            let is_wait = error::number(error) == Some(error::LOCK_WAIT_TIMEOUT);
            let waited = if is_wait { sent.elapsed() } else { Duration::ZERO };
            *before() = Some(Failed { error: error.clone(), waited });
        }
        answer
    }

    async fn hold_once(&self, limit: &Limit, table: &Identifier, work: Work) -> Result<(), StoreError> {
        let lent = self.lend(Lane::Other, limit).await.unwrap_or_else(|| Err(no_connection()));
        let mut lent = lent.map_err(StoreError::without_effect)?;
        work(&mut lent, table).await?;
        lent.give_back();
        Ok(())
    }

    /// A connection that is ready; `None` when there was none within the time there is.
    async fn lend(&self, lane: Lane, limit: &Limit) -> Option<Result<Lent, StoreError>> {
        match &self.source {
            Source::Own { lanes, .. } => {
                close_what_is_stale(lanes);
                timeout(limit.left(), lend_own(lane, &lanes[lane as usize], limit)).await.ok()
            }
            Source::Borrowed(pool) => {
                let had = timeout(limit.left(), pool.get_conn()).await.ok()?;
                if let Some(database) = had.as_ref().ok().and_then(|conn| conn.opts().db_name()) {
                    self.is_in(database.to_owned());
                }
                Some(had.map(Lent::borrowed).map_err(|error| error::of_opening(error, true)))
            }
        }
    }
}

fn current_runtime() -> Result<Handle, StoreError> {
    Handle::try_current().map_err(|missing| {
        let message = "a store on a pool of yours can only be used on a tokio runtime";
        StoreError::new(ErrorKind::Runtime, message).with_source(missing).without_effect()
    })
}

/// A connection of the store's own that is ready for a flight.
async fn lend_own(lane: Lane, pool: &managed::Pool<Opener>, limit: &Limit) -> Result<Lent, StoreError> {
    loop {
        let object = pool.get().await.map_err(of_pool)?;
        let idle = object.idle();
        let mut lent = Lent::own(object);
        if lane != Lane::Other || idle < IDLE || lent.lives(PING.min(limit.left() / 5)).await {
            return Ok(lent);
        }
        // Then none as old as it is lent any more: the next is one that was just used, or a new one.
    }
}

/// Closes what lies idle and would not be lent any more, in every lane.
fn close_what_is_stale(lanes: &[managed::Pool<Opener>]) {
    for lane in lanes {
        drop(lane.retain(|connection, _| connection.is_fresh()));
    }
}

/// How the last try of a call failed.
struct Failed {
    error: StoreError,
    /// How long it had waited for a lock.
    waited: Duration,
}

impl Failed {
    /// The same error of a try that sent nothing.
    fn again(&self) -> StoreError {
        self.error.clone().without_effect()
    }
}

fn no_connection() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "no connection to the server could be had in time")
        .without_effect()
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

fn of_pool(error: managed::PoolError<StoreError>) -> StoreError {
    match error {
        managed::PoolError::Backend(error) => error,
        error => StoreError::new(ErrorKind::Other, "the pool of connections failed").with_source(error),
    }
}
