//! rusqlite on the thread that asks, with the settings of the store's own connections: a write-ahead log, flushed with each commit.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, TransactionBehavior, params};

use super::{HOLDER, Names, SOMEBODY_ELSE};
use crate::Outcome;
use crate::party::{Job, Party, Ttls, expect};

const SET_UP: &str = "
    PRAGMA synchronous = EXTRA;
    CREATE TABLE IF NOT EXISTS lease_bench_floor
        (name TEXT PRIMARY KEY, holder TEXT, term INTEGER, expires INTEGER) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS lease_bench_ledger (name TEXT PRIMARY KEY, n INTEGER) STRICT, WITHOUT ROWID";
const NOW: &str = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// Longer than sixteen of them wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Floor {
    connection: Connection,
    claim: String,
    first: String,
    renew: String,
    verify: String,
    names: Names,
    ttls: Ttls,
}

const RELEASE: &str = "UPDATE lease_bench_floor SET expires = 0 WHERE name = ? AND holder = ?";

impl Floor {
    pub(super) fn open(path: &str) -> Outcome<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(PATIENCE)?;
        connection.execute_batch(SET_UP)?;
        let names = Names::new();
        connection.execute("INSERT INTO lease_bench_ledger VALUES (?, 0)", [&names.own])?;
        Ok(Self {
            connection,
            claim: format!(
                "UPDATE lease_bench_floor SET holder = ?, term = term + 1, expires = {NOW} + ?
                 WHERE name = ? AND expires <= {NOW} RETURNING term"
            ),
            first: format!(
                "INSERT INTO lease_bench_floor VALUES (?, ?, 1, {NOW} + ?) ON CONFLICT DO NOTHING"
            ),
            renew: format!(
                "UPDATE lease_bench_floor SET expires = {NOW} + ? WHERE name = ? AND holder = ? AND expires > {NOW}"
            ),
            verify: format!(
                "SELECT term FROM lease_bench_floor WHERE name = ? AND holder = ? AND expires > {NOW}"
            ),
            names,
            ttls: Ttls::default(),
        })
    }

    fn claim(&mut self, holder: &str) -> Outcome<bool> {
        let mut statement = self.connection.prepare_cached(&self.claim)?;
        let mut rows = statement.query(params![holder, self.ttls.next(), self.names.own])?;
        let is_granted = rows.next()?.is_some();
        // To its end, where it commits.
        while rows.next()?.is_some() {}
        Ok(is_granted)
    }

    fn first(&mut self, name: &str, holder: &str) -> Outcome<bool> {
        let mut statement = self.connection.prepare_cached(&self.first)?;
        Ok(statement.execute(params![name, holder, self.ttls.next()])? == 1)
    }

    fn release(&self, holder: &str) -> Outcome<bool> {
        let mut statement = self.connection.prepare_cached(RELEASE)?;
        Ok(statement.execute(params![self.names.own, holder])? == 1)
    }
}

#[async_trait(?Send)]
impl Party for Floor {
    async fn prepare(&mut self, job: Job) -> Outcome<()> {
        let own = self.names.own.clone();
        self.first(&own, HOLDER)?;
        let holder = if job == Job::Lost { SOMEBODY_ELSE } else { HOLDER };
        for before in [HOLDER, SOMEBODY_ELSE] {
            self.release(before)?;
        }
        if job != Job::Pair {
            expect(self.claim(holder)?, "claimed")?;
        }
        Ok(())
    }

    async fn perform(&mut self, job: Job) -> Outcome<()> {
        match job {
            Job::Pair => {
                expect(self.claim(HOLDER)?, "claimed")?;
                expect(self.release(HOLDER)?, "released")
            }
            Job::Renew => {
                let mut statement = self.connection.prepare_cached(&self.renew)?;
                let changed = statement.execute(params![self.ttls.next(), self.names.own, HOLDER])?;
                expect(changed == 1, "renewed")
            }
            Job::Verify => {
                let mut statement = self.connection.prepare_cached(&self.verify)?;
                expect(statement.exists(params![self.names.own, HOLDER])?, "held")
            }
            Job::First => {
                let name = self.names.next();
                expect(self.first(&name, HOLDER)?, "claimed")
            }
            Job::Lost => expect(!self.claim(HOLDER)?, "refused"),
            Job::Transaction => {
                let transaction =
                    self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                transaction
                    .prepare_cached("UPDATE lease_bench_ledger SET n = n + 1 WHERE name = ?")?
                    .execute([&self.names.own])?;
                Ok(transaction.commit()?)
            }
        }
    }
}
