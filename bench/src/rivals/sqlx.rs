//! sqlx's advisory locks on PostgreSQL, on a connection that is kept open.

use async_trait::async_trait;
use sqlx::postgres::{PgAdvisoryLock, PgConnection};
use sqlx::{Connection, Either};

use super::only_pairs;
use crate::Outcome;
use crate::engine::fresh_name;
use crate::party::{Job, Party};

pub(super) struct Sqlx {
    connection: PgConnection,
    lock: PgAdvisoryLock,
}

impl Sqlx {
    pub(super) async fn open(url: &str) -> Outcome<Self> {
        let connection = PgConnection::connect(url).await?;
        Ok(Self { connection, lock: PgAdvisoryLock::new(fresh_name("rival")) })
    }
}

#[async_trait(?Send)]
impl Party for Sqlx {
    async fn prepare(&mut self, job: Job) -> Outcome<()> {
        only_pairs("sqlx's lock", job)
    }

    async fn perform(&mut self, job: Job) -> Outcome<()> {
        only_pairs("sqlx's lock", job)?;
        match self.lock.try_acquire(&mut self.connection).await? {
            Either::Left(locked) => {
                locked.release_now().await?;
                Ok(())
            }
            Either::Right(_) => Err("a lock of its own is held".into()),
        }
    }
}
