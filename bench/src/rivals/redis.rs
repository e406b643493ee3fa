//! The lock of one Redis: a key that is set unless it is there, and deleted by who knows its value.

use async_trait::async_trait;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use super::{PATIENCE, only_pairs};
use crate::Outcome;
use crate::engine::fresh_name;
use crate::party::{Job, Party, Ttls, expect};

const RELEASE: &str = "
    if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

pub(super) struct Redis {
    connection: MultiplexedConnection,
    /// By what Redis knows the script again.
    release: String,
    name: String,
    ttls: Ttls,
    count: u64,
}

impl Redis {
    pub(super) async fn connect(port: u16) -> Outcome<Self> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/"))?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let release = redis::cmd("SCRIPT").arg("LOAD").arg(RELEASE).query_async(&mut connection).await?;
        Ok(Self { connection, release, name: fresh_name("rival"), ttls: Ttls::default(), count: 0 })
    }

    async fn pair(&mut self) -> Outcome<()> {
        // A token for each claim, as there must be.
        self.count += 1;
        let token = format!("{} {}", self.name, self.count);
        let is_set: bool = redis::cmd("SET")
            .arg(&self.name)
            .arg(&token)
            .arg("NX")
            .arg("PX")
            .arg(self.ttls.next())
            .query_async(&mut self.connection)
            .await?;
        expect(is_set, "claimed")?;
        let is_deleted: bool = redis::cmd("EVALSHA")
            .arg(&self.release)
            .arg(1)
            .arg(&self.name)
            .arg(&token)
            .query_async(&mut self.connection)
            .await?;
        expect(is_deleted, "released")
    }
}

#[async_trait(?Send)]
impl Party for Redis {
    async fn prepare(&mut self, job: Job) -> Outcome<()> {
        only_pairs("Redis", job)
    }

    async fn perform(&mut self, job: Job) -> Outcome<()> {
        only_pairs("Redis", job)?;
        self.pair().await
    }
}
