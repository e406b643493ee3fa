//! The beginning: one flight.

use std::sync::atomic::{AtomicU64, Ordering};

use lease_core::guard::{GuardError, Guarding};
use lease_core::store::StoreError;
use lease_core::{ErrorKind, LossReason, Tenure};
use mysql_async::{Conn, Error};

use super::client::{Answered, Held};
use super::guarded::Guarded;
use super::{Guard, verify, watch};
use crate::error::{self, Failure};
use crate::row::integer;
use crate::sql;

pub(super) async fn begin(guard: &Guard, conn: Conn) -> Result<Guarded, GuardError> {
    let (guarding, watcher) = Guarding::begin(&guard.tenure)?;
    let within = guard.tenure.timings().attempt();
    let table = if guard.elsewhere {
        verify(&guard.store, &guard.tenure).await?;
        None
    } else {
        Some(guard.store.qualified_table(within).await.map_err(GuardError::Failed)?)
    };
    let spawner = guard.store.spawner().map_err(GuardError::Failed)?;
    let mark = mark(&guard.tenure);
    // From now on: nobody knows how far a flight comes that is not answered.
    let there = guard.elsewhere.then(|| conn.opts().clone());
    let patience = guard.bounds.total().saturating_add(guard.tenure.timings().ttl());
    spawner.spawn(watch::watch(guard.store.clone(), there, watcher, mark.clone(), patience));
    let mut client = Held::new(conn, spawner);

    let limit = guard.store.limit(within);
    let flight = async {
        let begun = fly(guard, &mut client, &mark, table.as_deref()).await;
        let is_clean = match &begun {
            Ok(()) => true,
            Err(NotBegun { undo, .. }) => *undo && client.undo(&mark).await,
        };
        Ok((begun, is_clean))
    };
    let flown = limit.bound(flight).await.map_err(|error| GuardError::Failed(error.without_effect()));
    match flown? {
        (Ok(()), _) => {
            let transaction = Guarded::new(client, guarding, guard, mark, table);
            transaction.check()?;
            Ok(transaction)
        }
        (Err(NotBegun { error, .. }), is_clean) => {
            // Unless the session is being ended.
            if is_clean && guarding.over().is_ok() {
                drop(client.take());
            }
            Err(error)
        }
    }
}

/// The name of the transaction's savepoint and its session's lock, which no other has.
fn mark(tenure: &Tenure) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("lease_{}_{}", tenure.holder().hex().as_str(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A transaction that is not to go on.
struct NotBegun {
    error: GuardError,
    /// Whether the connection may be made what it was before.
    undo: bool,
}

async fn fly(guard: &Guard, client: &mut Held, mark: &str, table: Option<&str>) -> Result<(), NotBegun> {
    client.read_to_the_end().await.map_err(|error| failed(error, false))?;
    let look = table.map(|table| {
        let Guard { tenure, .. } = guard;
        sql::guard(table, &sql::hex(tenure.name().as_str()), &sql::hex(tenure.holder().hex().as_str()))
    });
    let flight = sql::begin_guarded(guard.isolation, &guard.bounds, mark, look, client.has_snapshot());
    let Answered { answers, error } = client.send(&flight).await;
    match error {
        // Inside somebody's transaction, which is theirs to end.
        Some(Error::Server(error)) if error.code == error::IN_TRANSACTION => {
            let message = "the connection has a transaction open already; commit it or roll it back before";
            let error = StoreError::new(ErrorKind::Invalid, message).with_source(Error::Server(error));
            return Err(NotBegun { error: GuardError::Failed(error.without_effect()), undo: false });
        }
        Some(error) => return Err(failed(error, true)),
        None => {}
    }
    let row = |index: usize| answers.get(index).and_then(|answer| answer.rows.first());
    if row(sql::LOCKED).and_then(|row| integer(row, 0, "", "GET_LOCK").ok()) != Some(1) {
        let message = "the server gives the session no lock of its own";
        let error = StoreError::new(ErrorKind::Unavailable, message).without_effect();
        return Err(NotBegun { error: GuardError::Failed(error), undo: true });
    }
    if table.is_some() && row(sql::LOOKED).is_none() {
        return Err(NotBegun { error: GuardError::Lost(LossReason::Refused), undo: true });
    }
    Ok(())
}

fn failed(error: Error, undo: bool) -> NotBegun {
    let error = StoreError::from(Failure::from(error)).without_effect();
    NotBegun { error: GuardError::Failed(error), undo }
}
