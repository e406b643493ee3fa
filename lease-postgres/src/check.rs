//! Whether this database can carry leases.

use std::time::Duration;

use lease_core::store::{Claim, Limit, StoreError, ttl_ms};
use lease_core::{ErrorKind, Holder, Instance, LeaseName};
use tokio_postgres::Client;

use crate::connection::{begin, tell};
use crate::connections::{Connections, Lane};
use crate::error::{USE_UTF8, of_statement};
use crate::options::Table;
use crate::row::{Question, Row, cell, claim_values};
use crate::{product, schema, sql};

/// The server, then the table, then the rights. Connecting has shown the rest.
pub(crate) async fn check(connections: &Connections, limit: &Limit, table: &Table) -> Result<(), StoreError> {
    let facts = connections.ask(Lane::Other, limit, &Question::seldom(sql::FACTS.to_owned(), [])).await?;
    facts.first().map_or(Ok(()), can_be_relied_on)?;
    if let Some(problem) = schema::inspect(connections, limit, table).await?.problem(table) {
        return Err(problem);
    }
    let rights = Question::seldom(sql::MISSING_RIGHTS.to_owned(), table.values());
    let missing = connections.ask(Lane::Other, limit, &rights).await?;
    let missing =
        missing.iter().map(|row| cell(row, 0, "", "privilege")).collect::<Result<Vec<String>, _>>()?;
    if !missing.is_empty() {
        let advice = format!("have the owner GRANT {} to the role", missing.join(" and GRANT "));
        return Err(StoreError::new(ErrorKind::Denied, "the role lacks rights").with_advice(advice));
    }
    let trial = trial_claim()?;
    let lent = connections.lend(Lane::Other, limit).await?;
    let tried = try_to_hold(lent.client(), limit, table, &trial).await;
    lent.end(tried)
}

fn can_be_relied_on(facts: &Row) -> Result<(), StoreError> {
    let text = |index| cell::<String>(facts, index, "", "the settings");
    product::is_supported(&text(0)?)?;
    let encoding = text(1)?;
    if encoding != "UTF8" {
        let message = format!("the database's encoding is {encoding}, not UTF8");
        return Err(StoreError::new(ErrorKind::Unsupported, message).with_advice(USE_UTF8));
    }
    is_durable(&text(2)?, &text(3)?)
}

fn is_durable(fsync: &str, synchronous_commit: &str) -> Result<(), StoreError> {
    let (problem, advice) = if fsync != "on" {
        (
            format!("fsync is {fsync} on the server, so a crash can damage the database"),
            "set fsync to on in the server's configuration",
        )
    } else if synchronous_commit != "on" {
        (
            format!(
                "synchronous_commit is {synchronous_commit} whatever the session says, so a crash forgets claims"
            ),
            "find what sets it (a pooler, say), and leave it on for this user",
        )
    } else {
        return Ok(());
    };
    Err(StoreError::new(ErrorKind::NotDurable, problem).with_advice(advice))
}

/// A claim, a renewal and a release that are taken back: no trigger, policy, rule or column of somebody else's stands
/// in their way, or swallows them and lets it look as if there were no row.
async fn try_to_hold(client: &Client, limit: &Limit, table: &Table, trial: &Claim) -> Result<(), StoreError> {
    let (name, holder) = (&trial.name, &trial.holder);
    let renewal = [name.into(), holder.into(), ttl_ms(trial.ttl)?.into()];
    begin(client, limit).await?;
    for (what, question) in [
        ("claim", Question::new(sql::claim(table), claim_values(trial, [])?)),
        ("renewal", Question::new(sql::renew(table), renewal)),
        ("release", Question::new(sql::release(table), [name.into(), holder.into()])),
    ] {
        if tell(client, &question).await?.is_empty() {
            let message = format!(
                "a trigger or a rule on table {} swallows writes: a {what} on trial changed nothing",
                table.shown()
            );
            return Err(StoreError::new(ErrorKind::Schema, message).with_advice("remove it"));
        }
    }
    client.batch_execute(sql::ROLLBACK).await.map_err(of_statement)
}

/// Of a name of its own, so that two checks at once do not wait for each other.
fn trial_claim() -> Result<Claim, StoreError> {
    let no_name = |error: &dyn std::fmt::Display| StoreError::new(ErrorKind::Other, error.to_string());
    let holder = Holder::mint().map_err(|error| no_name(&error))?;
    let name =
        LeaseName::new(&format!("check of lease-postgres {holder}")).map_err(|error| no_name(&error))?;
    // It does not expire while it is tried.
    Ok(Claim { name, holder, ttl: Duration::from_secs(3600), instance: Instance::default() })
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
