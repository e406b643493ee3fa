//! Connections: opened, made ready in one trip, lent for one flight, and kept only when that ended well.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deadpool::managed::{self, Metrics, Object, RecycleError, RecycleResult};
use lease_core::ErrorKind;
use lease_core::store::{Identifier, IoThread, Limit, Repeat, StoreError};
use mysql_async::prelude::{Protocol, Queryable};
use mysql_async::{BinaryProtocol, Conn, DriverError, Error, Params, Pool, QueryResult, TextProtocol, Value};
use tokio::time::timeout;

use crate::error::{self, Failure};
use crate::row::{Answer, Flight};
use crate::server::{Product, recognize};
use crate::sql;
use crate::url::Target;

/// How long the server lets a statement wait for a lock: the least that it can be told. A statement that has waited
/// so long is asked again while there is time for one more such wait.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(1);

/// A claim whose connection turns out to be dead may be granted without anybody knowing. So one that has been idle
/// for so long is asked first whether it lives, before a claim is sent on it.
const IDLE: Duration = Duration::from_secs(5);

/// Which of the store's own connections a statement takes, so that none waits behind one that is less urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Batches of renewals, which never wait for a row.
    Batch,
    /// What a holder asks of its own row; may wait for it.
    Holder,
    /// Claims, reads, and the rest.
    Other,
}

/// What a store has of connections.
pub(crate) struct Connections {
    source: Source,
    place: String,
    product: Arc<OnceLock<Product>>,
}

enum Source {
    Own {
        io: IoThread,
        lanes: [managed::Pool<Opener>; 3],
    },
    /// The user's. Its connections belong to the user's runtime, so the statements run there.
    Borrowed(Pool),
}

/// Opens connections for one lane.
struct Opener {
    target: Target,
    lane: Lane,
    product: Arc<OnceLock<Product>>,
}

impl Connections {
    /// Connections of the store's own; none is opened yet.
    pub(crate) fn own(target: Target) -> Result<Self, StoreError> {
        let io = IoThread::start("lease-mysql").map_err(|error| {
            let message = format!("no thread can be started: {error}");
            StoreError::new(ErrorKind::Unavailable, message).with_source(error)
        })?;
        let place = target.place();
        let product = Arc::new(OnceLock::new());
        let lane = |lane, size| {
            let opener = Opener { target: target.clone(), lane, product: Arc::clone(&product) };
            managed::Pool::builder(opener).max_size(size).build().map_err(|error| {
                StoreError::new(ErrorKind::Other, "no pool of connections can be made").with_source(error)
            })
        };
        let lanes = [lane(Lane::Batch, 2)?, lane(Lane::Holder, 4)?, lane(Lane::Other, 4)?];
        Ok(Self { source: Source::Own { io, lanes }, place, product })
    }

    /// A pool of the user's.
    pub(crate) fn borrowed(pool: Pool) -> Result<Self, StoreError> {
        Ok(Self {
            source: Source::Borrowed(pool),
            place: "by a pool of the caller's".to_owned(),
            product: Arc::default(),
        })
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
            let waited = AtomicBool::new(false);
            limit.insist(repeat, || this.once(lane, &limit, &flight, &waited)).await
        })
        .await
    }

    /// Runs several flights on one connection, again from the start when asking again may help. After an error the connection is
    /// closed, whatever state the work left it in.
    pub(crate) async fn hold(
        self: &Arc<Self>,
        limit: Limit,
        table: Identifier,
        work: Work,
    ) -> Result<(), StoreError> {
        let this = Arc::clone(self);
        self.run(async move {
            let once = || async {
                let mut lent = this.lend(Lane::Other, &limit).await?;
                work(&mut lent, &table).await?;
                lent.give_back();
                Ok(())
            };
            limit.insist(Repeat::Always, once).await
        })
        .await
    }

    /// Runs where the connections live.
    async fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        match &self.source {
            Source::Own { io, .. } => io.run(call).await,
            Source::Borrowed(_) => tokio::spawn(call).await.unwrap_or_else(|ended| {
                let message = "the runtime of the pool's owner has ended";
                Err(StoreError::new(ErrorKind::Runtime, message).with_source(ended))
            }),
        }
    }

    async fn once(
        &self,
        lane: Lane,
        limit: &Limit,
        flight: &Flight,
        waited: &AtomicBool,
    ) -> Result<Vec<Answer>, StoreError> {
        if waited.load(Ordering::Relaxed) && limit.left() < LOCK_WAIT {
            // The server would still be waiting when the caller has left.
            let message = "another transaction kept the row or the table locked for the whole attempt";
            return Err(StoreError::new(ErrorKind::Busy, message).without_effect());
        }
        let mut lent = self.lend(lane, limit).await?;
        let answer = lent.ask(flight).await;
        match &answer {
            Ok(_) => lent.give_back(),
            Err(error) => {
                waited.store(error::number(error) == Some(error::LOCK_WAIT_TIMEOUT), Ordering::Relaxed);
                lent.give_back_after(error);
            }
        }
        answer
    }

    /// A connection that is ready, within the time there is.
    async fn lend(&self, lane: Lane, limit: &Limit) -> Result<Lent, StoreError> {
        let had = match &self.source {
            Source::Own { lanes, .. } => {
                let pool = &lanes[lane as usize];
                timeout(limit.left(), pool.get()).await.map(|had| had.map(Lent::own).map_err(of_pool))
            }
            Source::Borrowed(pool) => timeout(limit.left(), pool.get_conn())
                .await
                .map(|had| had.map(Lent::borrowed).map_err(|error| StoreError::from(Failure::from(error)))),
        };
        let had = had.unwrap_or_else(|_| {
            Err(StoreError::new(ErrorKind::Timeout, "no connection could be had in time"))
        });
        // Nothing has been sent.
        had.map_err(StoreError::without_effect)
    }
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

impl managed::Manager for Opener {
    type Type = Conn;
    type Error = StoreError;

    async fn create(&self) -> Result<Conn, StoreError> {
        let mut conn = self.connect().await.map_err(Failure::from)?;
        let product = greet(&mut conn).await?;
        // A server is one or the other for good.
        let _ = self.product.set(product);
        Ok(conn)
    }

    async fn recycle(&self, conn: &mut Conn, metrics: &Metrics) -> RecycleResult<StoreError> {
        if self.lane == Lane::Other && metrics.last_used() >= IDLE {
            conn.ping().await.map_err(|error| RecycleError::Backend(Failure::from(error).into()))?;
        }
        Ok(())
    }
}

impl Opener {
    async fn connect(&self) -> Result<Conn, Error> {
        match (Conn::new(self.target.opts.clone()).await, &self.target.plain) {
            (Err(Error::Driver(DriverError::NoClientSslFlagFromServer)), Some(plain)) => {
                Conn::new(plain.clone()).await
            }
            (conn, _) => conn,
        }
    }
}

/// Learns who the server is, and prepares the session.
async fn greet(conn: &mut Conn) -> Result<Product, StoreError> {
    let flight = sql::SESSION.map(str::to_owned);
    match send_many(conn, &flight).await {
        Ok(answers) => product(&answers),
        // Some that are no MySQL take no such flight; then this says who they are.
        Err(error) => {
            let error = StoreError::from(Failure::from(error));
            match send_many(conn, &[sql::SERVER.to_owned()]).await {
                Ok(answers) => product(&answers).and(Err(error)),
                Err(_) => Err(error),
            }
        }
    }
}

/// Judges the answer to `sql::SERVER`.
pub(crate) fn product(answers: &[Answer]) -> Result<Product, StoreError> {
    let row = answers.first().and_then(|answer| answer.rows.first());
    let text =
        |index| row.and_then(|row| crate::row::string(row, index, "", "version").ok()).unwrap_or_default();
    recognize(&text(0), &text(1))
}

/// What is done on one connection, about one table.
pub(crate) type Work = for<'a> fn(
    &'a mut Lent,
    &'a Identifier,
) -> Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send + 'a>>;

/// A connection that is out for a flight or more. Dropped before it is given back, it is closed.
pub(crate) struct Lent(Option<Out>);

enum Out {
    Own(Object<Opener>),
    Borrowed(Conn),
}

impl Lent {
    fn own(object: Object<Opener>) -> Self {
        Self(Some(Out::Own(object)))
    }

    fn borrowed(conn: Conn) -> Self {
        Self(Some(Out::Borrowed(conn)))
    }

    /// Sends one flight; the answers, one for each statement.
    pub(crate) async fn ask(&mut self, flight: &Flight) -> Result<Vec<Answer>, StoreError> {
        self.send(flight).await.map_err(|error| Failure::from(error).into())
    }

    async fn send(&mut self, flight: &Flight) -> Result<Vec<Answer>, Error> {
        match (&mut self.0, flight) {
            (Some(Out::Own(conn)), Flight::One { sql, values }) => {
                let values = values.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.clone()));
                let params: std::collections::HashMap<Vec<u8>, Value> = values.collect();
                let params = if params.is_empty() { Params::Empty } else { Params::Named(params) };
                let result: QueryResult<'_, '_, BinaryProtocol> =
                    conn.exec_iter(sql.as_str(), params).await?;
                collect(result, 1).await
            }
            (Some(Out::Own(conn)), Flight::Many(statements)) => send_many(conn, statements).await,
            (Some(Out::Borrowed(conn)), flight) => {
                let ours = flight.written_out();
                let before = sql::BORROW.len();
                let mut all: Vec<String> = sql::BORROW.map(str::to_owned).into();
                all.extend(ours);
                all.extend(sql::RETURN.map(str::to_owned));
                let mut answers = send_many(conn, &all).await?;
                answers.truncate(answers.len() - sql::RETURN.len());
                Ok(answers.split_off(before))
            }
            (None, _) => Err(DriverError::ConnectionClosed.into()),
        }
    }

    /// For a flight that ended well.
    fn give_back(mut self) {
        self.0 = None;
    }

    /// For one that the server refused. In a transaction of our own, and with our settings, a connection of
    /// the user's does not go back.
    fn give_back_after(mut self, error: &StoreError) {
        let is_sound = error::number(error).is_some()
            && !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::ReadOnly | ErrorKind::Timeout);
        if is_sound && matches!(self.0, Some(Out::Own(_))) {
            self.0 = None;
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        match self.0.take() {
            // Out of its pool the connection is closed by the driver, when the server has answered.
            Some(Out::Own(object)) => drop(Object::take(object)),
            // Without a runtime nothing can be sent on it any more.
            Some(Out::Borrowed(conn)) => {
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(conn.disconnect());
                }
            }
            None => {}
        }
    }
}

/// Sends statements without parameters, in one trip.
async fn send_many(conn: &mut Conn, statements: &[String]) -> Result<Vec<Answer>, Error> {
    let result: QueryResult<'_, '_, TextProtocol> = conn.query_iter(statements.join(";\n")).await?;
    collect(result, statements.len()).await
}

/// Reads the answers to so many statements. What an answer says beside its rows has come when the
/// one before it has been read.
async fn collect<P: Protocol>(
    mut result: QueryResult<'_, '_, P>,
    statements: usize,
) -> Result<Vec<Answer>, Error> {
    let mut answers = Vec::with_capacity(statements);
    for _ in 0..statements {
        let (id, made) = (result.last_insert_id().unwrap_or(0), result.affected_rows());
        answers.push(Answer { rows: result.collect().await?, id, made });
    }
    result.drop_result().await?;
    Ok(answers)
}
