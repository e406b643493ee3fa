//! tokio-postgres, each statement a transaction of its own, by the session's defaults.

use async_trait::async_trait;
use tokio_postgres::{Client, NoTls, Statement};

use super::{HOLDER, Names, SOMEBODY_ELSE};
use crate::Outcome;
use crate::party::{Job, Party, Ttls, expect};

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS lease_bench_floor (name text COLLATE \"C\" PRIMARY KEY, holder text, term bigint, expires bigint);
    CREATE TABLE IF NOT EXISTS lease_bench_ledger (name text COLLATE \"C\" PRIMARY KEY, n bigint)";
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

pub(super) struct Floor {
    client: Client,
    claim: Statement,
    first: Statement,
    release: Statement,
    renew: Statement,
    verify: Statement,
    write: Statement,
    names: Names,
    ttls: Ttls,
}

async fn connect(url: &str) -> Outcome<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

pub(super) async fn version(url: &str) -> Outcome<String> {
    let row = connect(url).await?.query_one("SHOW server_version", &[]).await?;
    Ok(row.try_get(0)?)
}

impl Floor {
    pub(super) async fn open(url: &str) -> Outcome<Self> {
        let mut client = connect(url).await?;
        // Of several at once only one makes it.
        let making = client.transaction().await?;
        making.batch_execute(&format!("SELECT pg_advisory_xact_lock(20261130); {TABLE}")).await?;
        making.commit().await?;
        let names = Names::new();
        client.execute("INSERT INTO lease_bench_ledger VALUES ($1, 0)", &[&names.own]).await?;
        let prepare = async |sql: String| client.prepare(&sql).await;
        Ok(Self {
            claim: prepare(format!(
                "UPDATE lease_bench_floor SET holder = $2, term = term + 1, expires = {NOW} + $3
                 WHERE name = $1 AND expires <= {NOW} RETURNING term"
            ))
            .await?,
            first: prepare(format!(
                "INSERT INTO lease_bench_floor VALUES ($1, $2, 1, {NOW} + $3) ON CONFLICT DO NOTHING"
            ))
            .await?,
            release: prepare(
                "UPDATE lease_bench_floor SET expires = 0 WHERE name = $1 AND holder = $2".to_owned(),
            )
            .await?,
            renew: prepare(format!(
                "UPDATE lease_bench_floor SET expires = {NOW} + $3
                 WHERE name = $1 AND holder = $2 AND expires > {NOW}"
            ))
            .await?,
            verify: prepare(format!(
                "SELECT term FROM lease_bench_floor WHERE name = $1 AND holder = $2 AND expires > {NOW}"
            ))
            .await?,
            write: prepare("UPDATE lease_bench_ledger SET n = n + 1 WHERE name = $1".to_owned()).await?,
            client,
            names,
            ttls: Ttls::default(),
        })
    }

    async fn claim(&mut self, holder: &str) -> Outcome<bool> {
        let ttl = i64::from(self.ttls.next());
        let rows = self.client.query(&self.claim, &[&self.names.own, &holder, &ttl]).await?;
        Ok(!rows.is_empty())
    }

    async fn first(&mut self, name: &str, holder: &str) -> Outcome<bool> {
        let ttl = i64::from(self.ttls.next());
        Ok(self.client.execute(&self.first, &[&name, &holder, &ttl]).await? == 1)
    }

    async fn release(&mut self, holder: &str) -> Outcome<bool> {
        Ok(self.client.execute(&self.release, &[&self.names.own, &holder]).await? == 1)
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
                let ttl = i64::from(self.ttls.next());
                let changed = self.client.execute(&self.renew, &[&self.names.own, &HOLDER, &ttl]).await?;
                expect(changed == 1, "renewed")
            }
            Job::Verify => {
                let row = self.client.query_opt(&self.verify, &[&self.names.own, &HOLDER]).await?;
                expect(row.is_some(), "held")
            }
            Job::First => {
                let name = self.names.next();
                expect(self.first(&name, HOLDER).await?, "claimed")
            }
            Job::Lost => expect(!self.claim(HOLDER).await?, "refused"),
            Job::Transaction => {
                let transaction = self.client.transaction().await?;
                transaction.execute(&self.write, &[&self.names.own]).await?;
                Ok(transaction.commit().await?)
            }
        }
    }
}
