//! `mysql_async`, each statement a transaction of its own, by the session's defaults.

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Params, Statement, TxOpts};

use super::{HOLDER, Names, SOMEBODY_ELSE};
use crate::Outcome;
use crate::party::{Job, Party, Ttls, expect};

const FLOOR: &str = "
    CREATE TABLE IF NOT EXISTS lease_bench_floor
        (name varbinary(191) PRIMARY KEY, holder char(32) CHARACTER SET ascii, term bigint, expires bigint) ENGINE = InnoDB";
const LEDGER: &str = "
    CREATE TABLE IF NOT EXISTS lease_bench_ledger (name varbinary(191) PRIMARY KEY, n bigint) ENGINE = InnoDB";
const NOW: &str = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)";

pub(super) struct Floor {
    connection: Conn,
    claim: Statement,
    first: Statement,
    release: Statement,
    renew: Statement,
    verify: Statement,
    write: Statement,
    names: Names,
    ttls: Ttls,
}

impl Floor {
    pub(super) async fn open(url: &str) -> Outcome<Self> {
        let mut connection = Conn::new(Opts::from_url(url)?).await?;
        connection.query_drop(FLOOR).await?;
        connection.query_drop(LEDGER).await?;
        let names = Names::new();
        connection.exec_drop("INSERT INTO lease_bench_ledger VALUES (?, 0)", (&names.own,)).await?;
        // The driver knows a text again that it has prepared.
        Ok(Self {
            claim: connection
                .prep(format!(
                    "UPDATE lease_bench_floor SET holder = ?, term = LAST_INSERT_ID(term + 1), expires = {NOW} + ?
                     WHERE name = ? AND expires <= {NOW}"
                ))
                .await?,
            first: connection
                .prep(format!("INSERT IGNORE INTO lease_bench_floor VALUES (?, ?, 1, {NOW} + ?)"))
                .await?,
            release: connection
                .prep("UPDATE lease_bench_floor SET expires = 0 WHERE name = ? AND holder = ?")
                .await?,
            renew: connection
                .prep(format!(
                    "UPDATE lease_bench_floor SET expires = {NOW} + ? WHERE name = ? AND holder = ? AND expires > {NOW}"
                ))
                .await?,
            verify: connection
                .prep(format!(
                    "SELECT term FROM lease_bench_floor WHERE name = ? AND holder = ? AND expires > {NOW}"
                ))
                .await?,
            write: connection.prep("UPDATE lease_bench_ledger SET n = n + 1 WHERE name = ?").await?,
            connection,
            names,
            ttls: Ttls::default(),
        })
    }

    async fn changed(&mut self, statement: &Statement, values: impl Into<Params> + Send) -> Outcome<bool> {
        self.connection.exec_drop(statement, values).await?;
        Ok(self.connection.affected_rows() == 1)
    }

    async fn claim(&mut self, holder: &str) -> Outcome<bool> {
        let (statement, ttl) = (self.claim.clone(), self.ttls.next());
        let values = (holder, ttl, self.names.own.clone());
        let is_granted = self.changed(&statement, values).await?;
        Ok(is_granted && self.connection.last_insert_id().is_some())
    }

    async fn first(&mut self, name: &str, holder: &str) -> Outcome<bool> {
        let (statement, ttl) = (self.first.clone(), self.ttls.next());
        self.changed(&statement, (name, holder, ttl)).await
    }

    async fn release(&mut self, holder: &str) -> Outcome<bool> {
        let (statement, name) = (self.release.clone(), self.names.own.clone());
        self.changed(&statement, (name, holder)).await
    }
}

#[async_trait(?Send)]
impl Party for Floor {
    async fn prepare(&mut self, job: Job) -> Outcome<()> {
        let own = self.names.own.clone();
        self.first(&own, HOLDER).await?;
        let holder = if job == Job::Lost { SOMEBODY_ELSE } else { HOLDER };
        for before in [HOLDER, SOMEBODY_ELSE] {
            self.release(before).await?;
        }
        if job != Job::Pair {
            expect(self.claim(holder).await?, "claimed")?;
        }
        Ok(())
    }

    async fn perform(&mut self, job: Job) -> Outcome<()> {
        match job {
            Job::Pair => {
                expect(self.claim(HOLDER).await?, "claimed")?;
                expect(self.release(HOLDER).await?, "released")
            }
            Job::Renew => {
                let (statement, ttl) = (self.renew.clone(), self.ttls.next());
                let values = (ttl, self.names.own.clone(), HOLDER);
                expect(self.changed(&statement, values).await?, "renewed")
            }
            Job::Verify => {
                let statement = self.verify.clone();
                let values = (self.names.own.clone(), HOLDER);
                let term: Option<i64> = self.connection.exec_first(&statement, values).await?;
                expect(term.is_some(), "held")
            }
            Job::First => {
                let name = self.names.next();
                expect(self.first(&name, HOLDER).await?, "claimed")
            }
            Job::Lost => expect(!self.claim(HOLDER).await?, "refused"),
            Job::Transaction => {
                let mut transaction = self.connection.start_transaction(TxOpts::default()).await?;
                transaction.exec_drop(&self.write, (&self.names.own,)).await?;
                Ok(transaction.commit().await?)
            }
        }
    }
}
