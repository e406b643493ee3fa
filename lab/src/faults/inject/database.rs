//! What befalls sessions, rows and settings.

use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use tokio::time::{sleep, timeout};

use crate::faults::Failure;
use crate::faults::backend::Backend;
use crate::faults::ground::{Ground, database_of};
use crate::faults::ledger::{mysql, postgres, sqlite};
use crate::faults::plan::Injection;
use crate::faults::worker::{ELECTED, TAKEN};
use crate::faults::world::World;

/// A lock that is not had for so long is given up: its row is another's.
const PATIENCE: Duration = Duration::from_secs(10);

/// So often the server is asked before that is given up.
const TRIES: u32 = 5;

impl World {
    /// Somebody else's transaction has the row of a lease; on SQLite it has the file.
    pub(super) async fn block(&self, injection: &Injection) -> Result<(), Failure> {
        let name = if injection.nth.is_multiple_of(2) { ELECTED } else { TAKEN };
        let lock = format!("SELECT term FROM leases WHERE name = '{name}' FOR UPDATE");
        let url = &self.direct.at;
        match self.direct.backend {
            Backend::Postgres => {
                let client = postgres::connect(url, postgres::AN_HOUR).await?;
                client.batch_execute("BEGIN").await?;
                drop(timeout(PATIENCE, client.batch_execute(&lock)).await);
                sleep(injection.lasts).await;
                client.batch_execute("ROLLBACK").await?;
            }
            Backend::Mariadb | Backend::Mysql => {
                let mut conn = mysql::connect(url).await?;
                conn.query_drop("START TRANSACTION").await?;
                // An error is a lock that was not had in time.
                drop(timeout(PATIENCE, conn.query_drop(&lock)).await);
                sleep(injection.lasts).await;
                conn.disconnect().await?;
            }
            Backend::Sqlite => {
                let connection = sqlite::locked(url).await?;
                sleep(injection.lasts).await;
                connection.execute_batch("ROLLBACK")?;
            }
        }
        Ok(())
    }

    /// The server ends all sessions of the history that have nothing to do at this moment; `false`: there were none.
    pub(super) fn kill_idle(&self) -> Result<bool, Failure> {
        let Some(ground) = &self.ground else { return Ok(false) };
        let database = database_of(&self.direct);
        if self.direct.backend == Backend::Postgres {
            let sql = format!(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                 WHERE datname = '{database}' AND state = 'idle'"
            );
            return Ok(ask(ground, &sql)?.is_some_and(|count| count != "0"));
        }
        let idle = format!(
            "SELECT GROUP_CONCAT(ID) FROM information_schema.PROCESSLIST WHERE DB = '{database}' AND COMMAND = 'Sleep'"
        );
        let ids = ask(ground, &idle)?.unwrap_or_default();
        let mut killed = false;
        for id in ids.split(',').filter(|id| !id.is_empty()) {
            // One that has gone meanwhile is no error.
            let sql = format!("KILL CONNECTION {id}");
            killed |= ground.server(|server| server.try_ask(&sql)).is_ok();
        }
        Ok(killed)
    }

    /// The database takes no writes for so long.
    pub(super) async fn read_only(&self, lasts: Duration) -> Result<(), Failure> {
        let Some(ground) = &self.ground else { return self.file_read_only(lasts).await };
        let (on, off): (&[&str], &[&str]) = match self.direct.backend {
            Backend::Postgres => (
                &["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"],
                &["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"],
            ),
            Backend::Mysql => (&["SET GLOBAL super_read_only = 1"], &["SET GLOBAL read_only = 0"]),
            Backend::Mariadb | Backend::Sqlite => {
                (&["SET GLOBAL read_only = 1"], &["SET GLOBAL read_only = 0"])
            }
        };
        on.iter().try_for_each(|sql| ask(ground, sql).map(drop))?;
        sleep(lasts).await;
        off.iter().try_for_each(|sql| ask(ground, sql).map(drop))
    }
}

/// A server that is busy, or has just come back, may need more than one try.
fn ask(ground: &Ground, sql: &str) -> Result<Option<String>, Failure> {
    let mut tries = 0;
    loop {
        tries += 1;
        match ground.server(|server| server.try_ask(sql)) {
            Err(_) if tries < TRIES => {}
            answer => return Ok(answer?),
        }
    }
}
