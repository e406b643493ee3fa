//! Whether this database can carry leases.

use std::time::Duration;

use lease_core::store::{Claim, Identifier, StoreError};
use lease_core::{ErrorKind, Holder, Instance, LeaseName};

use crate::connection::Lent;
use crate::opener::{product, takes_writes};
use crate::row::{Flight, claim_values, integer, no_row, string};
use crate::{schema, sql};

/// What a connection does not show already.
pub(crate) async fn look(lent: &mut Lent, table: &Identifier) -> Result<(), StoreError> {
    // A pool of the user's has not been asked yet.
    product(&lent.ask(&Flight::one(sql::SERVER, Vec::new())).await?)?;
    takes_writes(&lent.ask(&Flight::one(sql::READ_ONLY, Vec::new())).await?)?;
    let state = lent.ask(&Flight::one(sql::SERVER_STATE, Vec::new())).await?;
    let state = state.first().and_then(|answer| answer.rows.first()).ok_or_else(no_row)?;
    let number = |index| integer(state, index, "", "of the server's variables");
    let format = string(state, 3, "", "of the server's variables")?;
    is_durable([number(0)?, number(1)?, number(2)?], &format)?;
    let shape = schema::inspect(lent, table).await?;
    shape.problem(table).map_or(Ok(()), Err)?;
    try_to_write(lent, table).await
}

/// Judges `sql::SERVER_STATE`.
fn is_durable([flush, binlog, sync_binlog]: [i64; 3], format: &str) -> Result<(), StoreError> {
    let (kind, message, advice) = if !matches!(flush, 1 | 3) {
        let message = format!("commits would not survive a crash: innodb_flush_log_at_trx_commit is {flush}");
        (ErrorKind::NotDurable, message, "set it to 1")
    } else if binlog != 0 && sync_binlog != 1 {
        let message = format!(
            "commits would not survive a power cut: the binary log is on and sync_binlog is {sync_binlog}"
        );
        (ErrorKind::NotDurable, message, "set it to 1")
    } else if binlog != 0 && format.eq_ignore_ascii_case("STATEMENT") {
        let message = "binlog_format is STATEMENT, which cannot log row locks".to_owned();
        (ErrorKind::Unsupported, message, "set it to ROW or MIXED")
    } else {
        return Ok(());
    };
    Err(StoreError::new(kind, message).with_advice(advice).without_effect())
}

/// A claim, a renewal and a rollback: the rights are there, the server takes writes, the table takes the row, and no trigger
/// is in the way. Of a name that nobody else has, so that nobody waits.
async fn try_to_write(lent: &mut Lent, table: &Identifier) -> Result<(), StoreError> {
    let other = |error: &dyn std::fmt::Display| StoreError::new(ErrorKind::Other, error.to_string());
    let holder = Holder::mint().map_err(|error| other(&error))?;
    let name = LeaseName::new(&format!("check of lease-mysql {holder}")).map_err(|error| other(&error))?;
    let claim = Claim { name, holder, ttl: Duration::from_secs(60), instance: Instance::default() };
    let values = claim_values(&claim)?;
    let mut trial = vec!["START TRANSACTION READ WRITE".to_owned()];
    for sql in [sql::claim(table), sql::claim_new(table), sql::renew(table)] {
        trial.extend(Flight::one(sql, values.clone()).written_out());
    }
    trial.push("ROLLBACK AND NO CHAIN NO RELEASE".to_owned());
    let answers = lent.ask(&Flight::Many(trial)).await.map_err(StoreError::without_effect)?;
    let renewed = answers.iter().rev().nth(1).ok_or_else(no_row)?;
    renewed.id().map_err(StoreError::without_effect)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_forgets_is_refused() {
        let kind = |numbers, format| is_durable(numbers, format).map_err(|error| error.kind());
        assert_eq!(kind([1, 0, 0], "MIXED"), Ok(()));
        assert_eq!(kind([1, 1, 1], "ROW"), Ok(()));
        // MariaDB's 3 flushes at each commit, too.
        assert_eq!(kind([3, 0, 0], "MIXED"), Ok(()));
        assert_eq!(kind([2, 0, 0], "MIXED"), Err(ErrorKind::NotDurable));
        assert_eq!(kind([0, 1, 1], "ROW"), Err(ErrorKind::NotDurable));
        assert_eq!(kind([1, 1, 0], "ROW"), Err(ErrorKind::NotDurable));
        assert_eq!(kind([1, 1, 100], "ROW"), Err(ErrorKind::NotDurable));
        assert_eq!(kind([1, 1, 1], "STATEMENT"), Err(ErrorKind::Unsupported));
        assert_eq!(kind([1, 0, 1], "STATEMENT"), Ok(()));
    }
}
