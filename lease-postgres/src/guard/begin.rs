//! The beginning: one flight.

use std::time::Duration;

use futures_util::future::join;
use lease_core::guard::{GuardError, Guarding};
use lease_core::store::{Limit, StoreError};
use lease_core::{ErrorKind, LossReason};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::client::{Guardable, Held};
use super::guarded::{Guarded, Transaction, roll_back};
use super::{Guard, watch};
use crate::connection::{lock_timeout, of_begin};
use crate::error::{leaves_connection, of_statement};
use crate::row::cell;
use crate::sql;

pub(super) async fn begin<C: Guardable>(guard: &Guard, client: C) -> Result<Guarded<C>, GuardError> {
    let (guarding, watcher) = Guarding::begin(&guard.tenure)?;
    let client = Held::new(client);
    let limit = guard.store.limit(guard.tenure.timings().attempt());
    let failed = match fly(guard, client.client(), &limit).await {
        Ok(transaction) => {
            // Elsewhere, the store's own connection cannot end it.
            if !guard.elsewhere {
                watch::spawn(&guard.store, watcher, transaction, patience(guard));
            }
            return Ok(Guarded::new(client, guarding, guard.store.clone(), transaction, guard.elsewhere));
        }
        Err(failed) => failed,
    };
    if failed.clean && roll_back(client.client(), &limit, None).await.is_ok() {
        drop(client.take());
    }
    // Whatever else has happened, a lease that is lost is the reason.
    guarding.check()?;
    Err(failed.error)
}

/// After this nobody asks any more whether the session has ended.
fn patience(guard: &Guard) -> Duration {
    guard.bounds.total().saturating_add(guard.tenure.timings().ttl())
}

/// A transaction that is not to go on.
struct NotBegun {
    error: GuardError,
    /// Whether a rollback makes the connection what it was before.
    clean: bool,
}

async fn fly(guard: &Guard, client: &Client, limit: &Limit) -> Result<Transaction, NotBegun> {
    let flight = async {
        if guard.elsewhere {
            // Both, so that whichever fails the session's state is known.
            let (begun, verified) = join(unfenced(guard, client), guard.verify()).await;
            Ok(begun.and_then(|transaction| verified.map(|()| transaction).map_err(clean)))
        } else {
            Ok(fenced(guard, client, limit).await)
        }
    };
    limit.bound(flight).await.unwrap_or_else(|error| {
        Err(NotBegun { error: GuardError::Failed(error.without_effect()), clean: false })
    })
}

async fn fenced(guard: &Guard, client: &Client, limit: &Limit) -> Result<Transaction, NotBegun> {
    let beginning = sql::begin_guarded(guard.isolation, &guard.bounds);
    let verify = sql::guard(guard.store.table(), lock_timeout(limit.left()));
    let (name, holder) = (guard.tenure.name().as_str(), guard.tenure.holder().hex());
    let holder = holder.as_str();
    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&name, Type::TEXT), (&holder, Type::TEXT)];
    let (begun, verified) =
        join(client.batch_execute(&beginning), client.query_typed(&verify, &values)).await;
    begun.map_err(not_begun)?;
    let rows = verified.map_err(|error| failed(of_statement(error)))?;
    let row = rows.first().ok_or_else(|| clean(GuardError::Lost(LossReason::Refused)))?;
    cell(row, 1, name, "xid").and_then(Transaction::parse).map_err(failed)
}

async fn unfenced(guard: &Guard, client: &Client) -> Result<Transaction, NotBegun> {
    let beginning = sql::begin_guarded(guard.isolation, &guard.bounds);
    let (begun, told) =
        join(client.batch_execute(&beginning), client.query_typed(sql::TRANSACTION, &[])).await;
    begun.map_err(not_begun)?;
    let rows = told.map_err(|error| failed(of_statement(error)))?;
    let row =
        rows.first().ok_or_else(|| failed(StoreError::new(ErrorKind::Other, "no transaction was told")))?;
    cell(row, 0, "", "xid").and_then(Transaction::parse).map_err(failed)
}

fn not_begun(error: tokio_postgres::Error) -> NotBegun {
    let error = if error.code() == Some(&SqlState::DIVISION_BY_ZERO) {
        let message = "a transaction had been left open on the connection; it was closed";
        StoreError::new(ErrorKind::Unavailable, message).with_source(error)
    } else {
        of_begin(error)
    };
    NotBegun { error: GuardError::Failed(error.without_effect()), clean: false }
}

fn failed(error: StoreError) -> NotBegun {
    let clean = leaves_connection(&error);
    NotBegun { error: GuardError::Failed(error.without_effect()), clean }
}

fn clean(error: GuardError) -> NotBegun {
    NotBegun { error, clean: true }
}
