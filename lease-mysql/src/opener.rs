//! Opening the store's own connections: logged in, recognized, and made ready in one trip.

use std::sync::{Arc, OnceLock};

use deadpool::managed::{self, Metrics, RecycleError, RecycleResult};
use lease_core::store::StoreError;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error};

use crate::connection::send_many;
use crate::connections::{IDLE, Lane};
use crate::error::Failure;
use crate::product::{Product, recognize};
use crate::row::{Answer, string};
use crate::sql;
use crate::url::Target;

/// Opens connections for one lane.
pub(crate) struct Opener {
    pub(crate) target: Target,
    pub(crate) lane: Lane,
    pub(crate) product: Arc<OnceLock<Product>>,
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
    let text = |index| row.and_then(|row| string(row, index, "", "version").ok()).unwrap_or_default();
    recognize(&text(0), &text(1))
}
