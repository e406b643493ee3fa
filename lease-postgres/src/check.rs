//! Whether this database can carry leases.

use std::time::Duration;

use lease_core::store::{Claim, Limit, StoreError};
use lease_core::{ErrorKind, Holder, Instance, LeaseName};
use tokio_postgres::Row;

use crate::connection::begin;
use crate::error::of_statement;
use crate::options::Table;
use crate::row::{Question, cell, claim_values};
use crate::source::{For, Source};
use crate::{product, schema, sql};

/// The server, then the table, then the rights. Connecting has shown the rest.
pub(crate) async fn check(source: &Source, limit: &Limit, table: &Table) -> Result<(), StoreError> {
    let facts = source.ask(For::Others, limit, &Question::new(sql::FACTS.to_owned(), [])).await?;
    facts.first().map_or(Ok(()), can_be_relied_on)?;
    if let Some(problem) = schema::inspect(source, limit, table).await?.problem(table) {
        return Err(problem);
    }
    let rights = Question::new(sql::MISSING_RIGHTS.to_owned(), table.values());
    let missing = source.ask(For::Others, limit, &rights).await?;
    let missing =
        missing.iter().map(|row| cell(row, 0, "", "privilege")).collect::<Result<Vec<String>, _>>()?;
    if !missing.is_empty() {
        let message = format!("the role lacks rights; GRANT {}", missing.join("; GRANT "));
        return Err(StoreError::new(ErrorKind::Denied, message));
    }
    try_to_claim(source, limit, table).await
}

fn can_be_relied_on(facts: &Row) -> Result<(), StoreError> {
    let text = |index| cell::<String>(facts, index, "", "the settings");
    product::is_supported(&text(0)?)?;
    let encoding = text(1)?;
    if encoding != "UTF8" {
        let message = format!("the database's encoding is {encoding}; leases need UTF8");
        return Err(StoreError::new(ErrorKind::Unsupported, message));
    }
    is_durable(&text(2)?, &text(3)?)
}

fn is_durable(fsync: &str, synchronous_commit: &str) -> Result<(), StoreError> {
    let problem = if fsync != "on" {
        format!("fsync is {fsync} on the server, so a crash can damage the database; set it to on")
    } else if synchronous_commit != "on" {
        format!(
            "synchronous_commit is {synchronous_commit} whatever the session says, so a crash forgets claims"
        )
    } else {
        return Ok(());
    };
    Err(StoreError::new(ErrorKind::NotDurable, problem))
}

/// A claim that is taken back: no trigger, policy or column of somebody else's stands in its way.
async fn try_to_claim(source: &Source, limit: &Limit, table: &Table) -> Result<(), StoreError> {
    let trial = Question::new(sql::claim(table), trial_claim()?);
    let taken = source.take(For::Others, limit).await?;
    let client = taken.client();
    client.batch_execute(&begin(limit)).await.map_err(of_statement)?;
    client.query_typed(&trial.sql, &trial.typed()).await.map_err(of_statement)?;
    client.batch_execute(sql::ROLLBACK).await.map_err(of_statement)?;
    taken.give_back();
    Ok(())
}

/// Of a name of its own, so that two checks at once do not wait for each other.
fn trial_claim() -> Result<Vec<crate::row::Value>, StoreError> {
    let no_name = |error: &dyn std::fmt::Display| StoreError::new(ErrorKind::Other, error.to_string());
    let holder = Holder::mint().map_err(|error| no_name(&error))?;
    let name =
        LeaseName::new(&format!("check of lease-postgres {holder}")).map_err(|error| no_name(&error))?;
    let claim = Claim { name, holder, ttl: Duration::from_secs(1), instance: Instance::default() };
    claim_values(&claim, [])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_forgets_what_it_acknowledged_is_refused() {
        assert!(is_durable("on", "on").is_ok());
        for (fsync, synchronous_commit, says) in
            [("off", "on", "fsync is off"), ("on", "off", "synchronous_commit is off")]
        {
            let error = is_durable(fsync, synchronous_commit).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotDurable);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
