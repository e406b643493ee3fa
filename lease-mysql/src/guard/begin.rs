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
use crate::row::{Flight, is_null};
use crate::sql;
use crate::store::held_by;

pub(super) async fn begin(guard: &Guard, conn: Conn) -> Result<Guarded, GuardError> {
    let (guarding, watcher) = Guarding::begin(&guard.tenure)?;
    if guard.elsewhere {
        verify(&guard.store, &guard.tenure).await?;
    }
    let spawner = guard.store.spawner().map_err(GuardError::Failed)?;
    let mark = mark(&guard.tenure);
    // From now on: nobody knows how far a flight comes that is not answered.
    let there = guard.elsewhere.then(|| conn.opts().clone());
    let patience = guard.bounds.total().saturating_add(guard.tenure.timings().ttl());
    spawner.spawn(watch::watch(guard.store.clone(), there, watcher, mark.clone(), patience));
    let mut client = Held::new(conn, spawner);

    let limit = guard.store.limit(guard.tenure.timings().attempt());
    let flight = async {
        let begun = fly(guard, &mut client, &mark).await;
        let is_clean = match &begun {
            Ok(()) => true,
            Err(NotBegun { undo, .. }) => *undo && client.undo(&mark).await,
        };
        Ok((begun, is_clean))
    };
    let flown = limit.bound(flight).await.map_err(|error| GuardError::Failed(error.without_effect()));
    match flown? {
        (Ok(()), _) => {
            let transaction = Guarded::new(client, guarding, guard.store.clone(), mark, guard.elsewhere);
            transaction.check()?;
            Ok(transaction)
        }
        (Err(NotBegun { error, .. }), is_clean) => {
            if is_clean {
                drop(guarding.over());
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

async fn fly(guard: &Guard, client: &mut Held, mark: &str) -> Result<(), NotBegun> {
    client.read_to_the_end().await.map_err(|error| failed(error, false))?;
    let mut flight = sql::begin_guarded(guard.isolation, &guard.bounds, mark);
    let lock = flight.len() - 1;
    if !guard.elsewhere {
        let held = held_by(guard.tenure.name(), &guard.tenure.holder());
        flight.extend(Flight::one(sql::guard(guard.store.table()), held).written_out());
    }
    let Answered { answers, error } = client.send(&flight).await;
    match error {
        // Inside somebody's transaction, which is theirs to end.
        Some(Error::Server(error)) if error.code == error::IN_TRANSACTION => {
            return Err(failed(Error::Server(error), false));
        }
        Some(error) => return Err(failed(error, true)),
        None => {}
    }
    let row = |index: usize| answers.get(index).and_then(|answer| answer.rows.first());
    if row(lock).is_none_or(|row| is_null(row, 0)) {
        let message = "the server gives the session no lock of its own";
        let error = StoreError::new(ErrorKind::Unavailable, message).without_effect();
        return Err(NotBegun { error: GuardError::Failed(error), undo: true });
    }
    if !guard.elsewhere && row(lock + 1).is_none() {
        return Err(NotBegun { error: GuardError::Lost(LossReason::Refused), undo: true });
    }
    Ok(())
}

fn failed(error: Error, undo: bool) -> NotBegun {
    let error = StoreError::from(Failure::from(error)).without_effect();
    NotBegun { error: GuardError::Failed(error), undo }
}
