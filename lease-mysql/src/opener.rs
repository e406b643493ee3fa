//! Opening the store's own connections: every address is tried, and the first that is logged in, recognized, takes
//! writes and is made ready is taken.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use deadpool::managed::{self, Metrics, RecycleError, RecycleResult};
use lease_core::ErrorKind;
use lease_core::store::StoreError;
use mysql_async::{Conn, DriverError, Error, Opts, OptsBuilder};
use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::send_many;
use crate::error::{Failure, USE_PRIMARY, of_opening};
use crate::product::{Product, recognize};
use crate::row::{Answer, integer, no_row, string};
use crate::sql;
use crate::url::Target;

/// After so long without an answer the next address is tried beside the one before.
const NEXT: Duration = Duration::from_secs(1);

/// A connection that nobody has used for so long is closed.
const OLD: Duration = Duration::from_secs(60);

/// Opens connections for one lane.
pub(crate) struct Opener {
    pub(crate) target: Target,
    pub(crate) generation: Generation,
    pub(crate) product: Arc<OnceLock<Product>>,
}

/// Rises when a connection has hung or broken: whatever befell it has mostly befallen all that lay idle, which are not lent any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Generation(Arc<AtomicU64>);

impl Generation {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection of the store's own.
pub(crate) struct Connection {
    pub(crate) conn: Conn,
    /// The generation at which it was begun.
    born: u64,
    generation: Generation,
    used: Instant,
}

impl Connection {
    /// How long it has not been used.
    pub(crate) fn idle(&self) -> Duration {
        self.used.elapsed()
    }

    /// Its flight has ended well.
    pub(crate) fn rest(&mut self) {
        self.used = Instant::now();
    }

    /// It has hung or broken, and all as old as it are not to be trusted.
    pub(crate) fn condemn(&self) {
        self.generation.0.fetch_max(self.born + 1, Ordering::Relaxed);
    }

    /// Whether it may be lent once more.
    pub(crate) fn is_fresh(&self) -> bool {
        self.born >= self.generation.now() && self.idle() < OLD
    }
}

impl managed::Manager for Opener {
    type Type = Connection;
    type Error = StoreError;

    async fn create(&self) -> Result<Connection, StoreError> {
        // Taken before, for what begins now may hang together with those that are found to hang.
        let born = self.generation.now();
        // Apart in memory: it is large, and the future of every statement would be.
        let (conn, product) = Box::pin(open(&self.target)).await.map_err(StoreError::without_effect)?;
        // A server is one or the other for good.
        let _ = self.product.set(product);
        Ok(Connection { conn, born, generation: self.generation.clone(), used: Instant::now() })
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<StoreError> {
        if connection.is_fresh() { Ok(()) } else { Err(RecycleError::message("stale")) }
    }
}

/// Opens a connection to one of the addresses of the host.
async fn open(target: &Target) -> Result<(Conn, Product), StoreError> {
    let addresses = addresses(&target.opts).await?;
    first_fit(addresses.into_iter().map(|ip| open_at(target.clone(), ip))).await
}

/// The first that goes well. They are tried in turn, since one of a host's addresses often leads nowhere.
async fn first_fit<T: Send + 'static>(
    candidates: impl Iterator<Item = impl Future<Output = Result<T, StoreError>> + Send + 'static>,
) -> Result<T, StoreError> {
    let mut attempts = JoinSet::new();
    let mut failure = None;
    for candidate in candidates {
        attempts.spawn(candidate);
        let ended = timeout(NEXT, attempts.join_next()).await.ok().flatten();
        if let Some(opened) = ended.and_then(|ended| judge(ended, &mut failure)) {
            return Ok(opened);
        }
    }
    while let Some(ended) = attempts.join_next().await {
        if let Some(opened) = judge(ended, &mut failure) {
            return Ok(opened);
        }
    }
    Err(failure.unwrap_or_else(|| unreachable("its name has no address")))
}

/// Keeps of several failures the first that says more than that nobody is there.
fn judge<T>(
    ended: Result<Result<T, StoreError>, tokio::task::JoinError>,
    failure: &mut Option<StoreError>,
) -> Option<T> {
    let error = match ended {
        Ok(Ok(opened)) => return Some(opened),
        Ok(Err(error)) => error,
        Err(ended) => StoreError::new(ErrorKind::Other, "opening a connection panicked").with_source(ended),
    };
    if failure.as_ref().is_none_or(|before| before.kind() == ErrorKind::Unavailable) {
        *failure = Some(error);
    }
    None
}

/// The addresses of the host; `None`: the driver knows where to go.
async fn addresses(opts: &Opts) -> Result<Vec<Option<IpAddr>>, StoreError> {
    if opts.socket().is_some() || opts.resolved_ips().is_some() {
        return Ok(vec![None]);
    }
    let found = lookup_host((opts.ip_or_hostname(), opts.tcp_port())).await;
    let found = found.map_err(|error| unreachable("its name cannot be resolved").with_source(error))?;
    Ok(found.map(|address| Some(address.ip())).collect())
}

fn unreachable(why: &str) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, format!("the server's host is not found: {why}"))
        .with_advice("see the host in the URL, and how this machine resolves names")
}

async fn open_at(target: Target, ip: Option<IpAddr>) -> Result<(Conn, Product), StoreError> {
    let at = |opts: &Opts| match ip {
        // The host stays, for TLS.
        Some(ip) => OptsBuilder::from_opts(opts.clone()).resolved_ips(Some([ip])).into(),
        None => opts.clone(),
    };
    let conn = match (Conn::new(at(&target.opts)).await, &target.plain) {
        (Err(Error::Driver(DriverError::NoClientSslFlagFromServer)), Some(plain)) => {
            Conn::new(at(plain)).await
        }
        (conn, _) => conn,
    };
    let with_tls = target.opts.ssl_opts().is_some();
    let mut conn = conn.map_err(|error| of_opening(error, with_tls))?;
    let product = greet(&mut conn).await?;
    Ok((conn, product))
}

/// Learns who the server is, and prepares the session.
async fn greet(conn: &mut Conn) -> Result<Product, StoreError> {
    let flight = sql::SESSION.map(str::to_owned);
    match send_many(conn, &flight).await {
        Ok(answers) => {
            let product = product(&answers)?;
            takes_writes(&answers[1..])?;
            Ok(product)
        }
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
    let text = |index| row.and_then(|row| string(row, index, "", "version").ok()).unwrap_or_default();
    recognize(&text(0), &text(1))
}

/// Judges the answer to `sql::READ_ONLY`.
pub(crate) fn takes_writes(answers: &[Answer]) -> Result<(), StoreError> {
    let row = answers.first().and_then(|answer| answer.rows.first()).ok_or_else(no_row)?;
    if integer(row, 0, "", "of the server's variables")? == 0 {
        return Ok(());
    }
    let message = "the server is read-only: a replica, or a primary that was demoted";
    Err(StoreError::new(ErrorKind::ReadOnly, message).with_advice(USE_PRIMARY).without_effect())
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    type Candidate = Pin<Box<dyn Future<Output = Result<u8, StoreError>> + Send>>;

    fn silent() -> Candidate {
        Box::pin(std::future::pending())
    }

    fn fit(number: u8) -> Candidate {
        Box::pin(async move { Ok(number) })
    }

    fn fails(kind: ErrorKind) -> Candidate {
        Box::pin(async move { Err(StoreError::new(kind, "no")) })
    }

    #[tokio::test]
    async fn an_address_that_is_silent_or_fails_is_passed_over() {
        for candidates in [
            vec![silent(), fit(1)],
            vec![fails(ErrorKind::ReadOnly), fit(1), fit(2)],
            vec![silent(), fails(ErrorKind::Unavailable), fit(1)],
        ] {
            assert_eq!(first_fit(candidates.into_iter()).await.unwrap(), 1);
        }
    }

    #[tokio::test]
    async fn one_that_is_slow_still_wins_when_those_after_it_fail() {
        let slow: Candidate = Box::pin(async {
            tokio::time::sleep(NEXT * 2).await;
            Ok(1)
        });
        let candidates = [slow, fails(ErrorKind::Unavailable)];
        assert_eq!(first_fit(candidates.into_iter()).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn of_several_failures_the_one_that_says_most_is_told() {
        use ErrorKind::{Denied, ReadOnly, Unavailable};
        for (kinds, told) in [
            (vec![], Unavailable),
            (vec![Unavailable, ReadOnly, Denied], ReadOnly),
            (vec![Denied, Unavailable], Denied),
        ] {
            let error = first_fit(kinds.into_iter().map(fails)).await.unwrap_err();
            assert_eq!(error.kind(), told);
        }
    }
}
