//! The beginning: one flight.

use futures_util::future::join;
use lease_core::guard::{GuardError, Guarding};
use lease_core::store::{Limit, StoreError};
use lease_core::{ErrorKind, LossReason};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::client::{Guardable, Held};
use super::guarded::{Guarded, Transaction, roll_back};
use super::{Guard, verify, watch};
use crate::connection::{is_standby, lock_timeout};
use crate::error::{leaves_connection, of_statement};
use crate::sql;

pub(super) async fn begin<C: Guardable>(guard: &Guard, client: C) -> Result<Guarded<C>, GuardError> {
    let (guarding, watcher) = Guarding::begin(&guard.tenure)?;
    let client = Held::new(client);
    let limit = guard.store.limit(guard.tenure.timings().attempt());
    let failed = match fly(guard, client.client(), &limit).await {
        Ok(transaction) => {
            // Elsewhere, the store's own connection cannot end it.
            if !guard.elsewhere {
                watch::spawn(&guard.store, watcher, transaction, guard.patience());
            }
            return Ok(Guarded::new(client, guarding, guard, transaction));
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
            let (begun, verified) =
                join(unfenced(guard, client, limit), verify(&guard.store, &guard.tenure)).await;
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
    let (name, holder) = (guard.tenure.name().as_str(), guard.tenure.holder().hex());
    let verify = sql::guard(guard.store.table(), name, holder.as_str());
    ask(guard, client, limit, &verify).await?.ok_or_else(|| clean(GuardError::Lost(LossReason::Refused)))
}

async fn unfenced(guard: &Guard, client: &Client, limit: &Limit) -> Result<Transaction, NotBegun> {
    let no_row = || StoreError::new(ErrorKind::Other, "PostgreSQL did not tell the transaction's number");
    ask(guard, client, limit, &sql::unfenced()).await?.ok_or_else(|| failed(no_row()))
}

/// Begins and asks, in one message. One that is cut in two by a pause is waited for within the idle bound; of several, as
/// the extended protocol has them, the server waits for the next without any bound.
async fn ask(
    guard: &Guard,
    client: &Client,
    limit: &Limit,
    statement: &str,
) -> Result<Option<Transaction>, NotBegun> {
    let beginning = sql::begin_guarded(guard.isolation, &guard.bounds, lock_timeout(limit.left()));
    let messages = client.simple_query(&format!("{beginning}; {statement}")).await.map_err(refused)?;
    // Without a row of the last statement's, another's end or its columns come before its end.
    let [.., SimpleQueryMessage::Row(row), SimpleQueryMessage::CommandComplete(_)] = &messages[..] else {
        return Ok(None);
    };
    let transaction = Transaction::read(row).map_err(failed)?;
    let own = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|index| row.get(index))),
        _ => None,
    });
    if let Some(keep_own) = own.and_then(|own| sql::keep_own(own, &guard.bounds)) {
        client.batch_execute(&keep_own).await.map_err(|error| failed(of_statement(error)))?;
    }
    Ok(Some(transaction))
}

fn refused(error: tokio_postgres::Error) -> NotBegun {
    let left_open =
        [SqlState::DIVISION_BY_ZERO, SqlState::ACTIVE_SQL_TRANSACTION, SqlState::IN_FAILED_SQL_TRANSACTION];
    let error = match error.code() {
        Some(code) if left_open.contains(code) => {
            let message = "a transaction had been left open on the connection, which was closed";
            StoreError::new(ErrorKind::Invalid, message)
                .with_advice("end it before a guarded transaction begins")
                .with_source(error)
        }
        Some(&SqlState::INVALID_PARAMETER_VALUE) => {
            let words = of_statement(error);
            let message = format!("a bound cannot be set: {words}");
            StoreError::new(ErrorKind::Unsupported, message)
                .with_advice("leave it out of Bounds")
                .with_source(words)
        }
        // What a standby says to READ WRITE.
        Some(&SqlState::FEATURE_NOT_SUPPORTED) => is_standby().with_source(error),
        _ => return failed(of_statement(error)),
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

#[cfg(test)]
mod tests {
    use tokio_postgres::NoTls;

    use super::*;

    #[tokio::test]
    async fn a_bound_that_the_server_refuses_is_named_as_one() {
        let url = test_servers::shared(test_servers::Product::Postgres);
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        // As where the system cannot look at a connection.
        let refusal = "SELECT set_config('client_connection_check_interval', '-1', true)";
        let NotBegun { error, .. } = refused(client.batch_execute(refusal).await.unwrap_err());
        assert_eq!(error.kind(), Some(ErrorKind::Unsupported));
        let text = error.to_string();
        assert!(text.contains("Bounds") && text.contains("client_connection_check_interval"), "{text}");
    }
}
