//! PostgreSQL's advisory locks, prepared, on a session that is kept open, as they end with it.

use std::hash::{BuildHasher, RandomState};

use async_trait::async_trait;
use tokio_postgres::{Client, NoTls, Statement};

use super::only_pairs;
use crate::Outcome;
use crate::party::{Job, Party, expect};

pub(super) struct Advisory {
    client: Client,
    lock: Statement,
    unlock: Statement,
    key: i64,
}

impl Advisory {
    pub(super) async fn open(url: &str) -> Outcome<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok(Self {
            lock: client.prepare("SELECT pg_try_advisory_lock($1)").await?,
            unlock: client.prepare("SELECT pg_advisory_unlock($1)").await?,
            client,
            // One that nobody else has.
            key: RandomState::new().hash_one("rival").cast_signed(),
        })
    }

    async fn is_done(&self, statement: &Statement) -> Outcome<bool> {
        Ok(self.client.query_one(statement, &[&self.key]).await?.try_get(0)?)
    }
}

#[async_trait(?Send)]
impl Party for Advisory {
    async fn prepare(&mut self, job: Job) -> Outcome<()> {
        only_pairs("an advisory lock", job)
    }

    async fn perform(&mut self, job: Job) -> Outcome<()> {
        only_pairs("an advisory lock", job)?;
        expect(self.is_done(&self.lock).await?, "locked")?;
        expect(self.is_done(&self.unlock).await?, "unlocked")
    }
}
