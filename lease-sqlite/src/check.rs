//! Whether this file can carry leases.

use std::time::Duration;

use lease_core::store::{Claim, StoreError};
use lease_core::{ErrorKind, Holder, Instance, LeaseName};
use rusqlite::{Connection, TransactionBehavior};

use crate::error::Failure;
use crate::options::Table;
use crate::row::{ClaimParams, answer};
use crate::{connection, schema, sql};

/// What opening the file did not show already, and reading shows. May take a while on a large table.
pub(crate) fn look(connection: &Connection, table: &Table) -> Result<(), Failure> {
    connection::is_fit(connection)?;
    if let Some(problem) = schema::inspect(connection, table)?.problem(table) {
        return Err(problem.without_effect().into());
    }
    let found: String = connection.query_row(&sql::quick_check(table), [], |row| row.get(0))?;
    if found != "ok" {
        let message = format!(
            "SQLite finds damage in table {}: {}",
            table.as_str(),
            found.replace(char::is_control, " ")
        );
        return Err(StoreError::new(ErrorKind::Damaged, message).without_effect().into());
    }
    Ok(())
}

/// A claim that is taken back: the write lock can be had, a journal can be made beside the file, and the
/// table takes the row.
pub(crate) fn try_to_write(connection: &mut Connection, table: &Table) -> Result<(), Failure> {
    connection::is_fit(connection)?;
    let trial = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    answer(&trial, &sql::claim(table), &*trial_claim()?.with(&[]), |_| Ok(()))?;
    trial.rollback()?;
    Ok(())
}

fn trial_claim() -> Result<ClaimParams, StoreError> {
    let name = LeaseName::new("check of lease-sqlite")
        .map_err(|error| StoreError::new(ErrorKind::Other, error.to_string()))?;
    ClaimParams::new(&Claim {
        name,
        holder: Holder::from_bytes([0; 16]),
        ttl: Duration::from_secs(1),
        instance: Instance::default(),
    })
}
