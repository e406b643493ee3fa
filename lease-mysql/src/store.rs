//! The store: what is asked on which connection, and what the answers mean. The statements are in `sql.rs`.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, DbTime, FinishAnswer, Holding, Identifier,
    Inspection, Limit, Listing, Observed, Page, ReleaseAnswer, RenewAnswer, Renewed, Repeat, ResignAnswer,
    SlotAnswer, SlotEnd, SlotState, StoreError, UnfinishedSlot, VerifyAnswer, slot_of, term_of, ttl_ms,
};
use lease_core::{Clock, ErrorKind, Holder, LeaseName, LeaseStore, Slot, SystemClock, Tenure, Term};
use mysql_async::{Row, Value};

use crate::connections::{Connections, Lane, Spawner};
use crate::fence::Fence;
use crate::guard::Guard;
use crate::options::MysqlOptions;
use crate::row::{
    Answer, Flight, Values, claim_values, clock_and_lease, integer, is_null, no_row, slot_state, string, text,
};
use crate::{check, error, schema, sql};

/// Leases in a table of MySQL or MariaDB. Cheap to clone; after the last clone is dropped the store's own
/// connections are closed.
#[derive(Clone)]
pub struct MysqlStore {
    shared: Arc<Shared>,
}

struct Shared {
    connections: Arc<Connections>,
    table: Identifier,
    clock: Arc<dyn Clock>,
}

/// How long migrating and checking may take, which nobody gives a time for.
const PATIENCE: Duration = Duration::from_secs(15);

/// How many leases one flight of `renew_many` names: with the longest names about a megabyte, which every
/// server takes.
const LEASES_PER_FLIGHT: usize = 1_000;

impl MysqlStore {
    /// Opens a store with connections of its own, made when they are first needed: nothing is sent yet.
    ///
    /// `url` is `mysql://user:password@host:3306/database` (or `mariadb://...`, which is the same), with
    /// [these parameters](crate#tls) among others. The only errors are [`Invalid`](ErrorKind::Invalid), for a URL
    /// that cannot be used, and [`Unavailable`](ErrorKind::Unavailable), when the system has no thread left.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        Self::options().open(url)
    }

    /// The choices there are: the table's name, a configuration of the driver, a pool of yours.
    pub fn options() -> MysqlOptions {
        MysqlOptions::default()
    }

    /// The DDL of the table, for people who create their tables themselves.
    ///
    /// Fails with [`ErrorKind::Invalid`] when `table` is no plain identifier.
    pub fn schema(table: &str) -> Result<String, StoreError> {
        Ok(format!("{};\n", sql::create_table(&Identifier::new(table)?)))
    }

    /// Transactions that never commit after a successor's claim. See the [crate's documentation](crate#guarded-transactions).
    pub fn guard(&self, tenure: &Tenure) -> Guard {
        Guard::new(self, tenure)
    }

    /// The statements that make a transaction a guarded one, for other drivers. See the
    /// [crate's documentation](crate#the-pieces-alone).
    pub fn fence(&self, tenure: &Tenure) -> Fence {
        let table = self.shared.connections.database().map(|database| sql::qualified(database, self.table()));
        Fence::new(&table.unwrap_or_else(|| format!("`{}`", self.table())), tenure)
    }

    pub(crate) fn new(connections: Connections, table: Identifier) -> Result<Self, StoreError> {
        let clock = SystemClock::shared().map_err(|error| {
            StoreError::new(ErrorKind::Unavailable, format!("no thread can be started: {error}"))
                .with_source(error)
        })?;
        Ok(Self { shared: Arc::new(Shared { connections: Arc::new(connections), table, clock }) })
    }

    /// Asks for one statement; idempotent ones are repeated whatever became of them.
    async fn ask(&self, lane: Lane, limit: Limit, sql: String, values: Values) -> Result<Answer, StoreError> {
        self.send(lane, Repeat::Always, limit, Flight::one(sql, values)).await
    }

    /// Asks for one statement that changes nothing.
    async fn read(
        &self,
        lane: Lane,
        limit: Limit,
        sql: String,
        values: Values,
    ) -> Result<Answer, StoreError> {
        self.ask(lane, limit, sql, values).await.map_err(StoreError::without_effect)
    }

    /// Asks for one statement that is never sent again when it may have been carried out: a second one would be answered
    /// otherwise.
    async fn ask_once(
        &self,
        lane: Lane,
        limit: Limit,
        sql: String,
        values: Values,
    ) -> Result<Answer, StoreError> {
        self.send(lane, Repeat::WithoutEffect, limit, Flight::one(sql, values)).await
    }

    /// Asks for a claim of any kind on a row that exists.
    async fn claim_by(&self, limit: &Limit, sql: String, values: Values) -> Result<Answer, StoreError> {
        self.ask_once(Lane::Other, limit.clone(), sql, values).await
    }

    /// Asks for the first claim of a name: the term, unless somebody else has made the row, or is just making it.
    async fn claim_new(
        &self,
        limit: &Limit,
        sql: String,
        values: Values,
    ) -> Result<Option<Term>, StoreError> {
        let flight = Flight::One { sql, values, refusals: &error::NAME_TAKEN };
        let answer = self.send(Lane::Other, Repeat::WithoutEffect, limit.clone(), flight).await?;
        Ok((answer.rows_affected == 1).then_some(Term::FIRST))
    }

    /// The answer to the last statement of a flight.
    async fn send(
        &self,
        lane: Lane,
        repeat: Repeat,
        limit: Limit,
        flight: Flight,
    ) -> Result<Answer, StoreError> {
        let mut answers = self.shared.connections.ask(lane, repeat, limit, flight).await?;
        answers.pop().ok_or_else(no_row)
    }

    /// Ends the session of a guarded transaction, and says whether there was none.
    pub(crate) async fn end_guarded(&self, mark: &str, within: Duration) -> Result<bool, StoreError> {
        let kill = Flight::Many(vec![sql::end_guarded(mark)]);
        error::is_gone(self.send(Lane::Holder, Repeat::Always, self.limit(within), kill).await)
    }

    /// The lease table as the program's sessions name it.
    pub(crate) async fn qualified_table(&self, within: Duration) -> Result<String, StoreError> {
        let connections = &self.shared.connections;
        if connections.database().is_none() {
            let found =
                self.read(Lane::Holder, self.limit(within), sql::DATABASE.to_owned(), Vec::new()).await?;
            let row = found.rows.first().ok_or_else(no_row)?;
            if connections.database().is_none() && !is_null(row, 0) {
                connections.is_in(string(row, 0, "", "DATABASE()")?);
            }
        }
        match connections.database() {
            Some(database) => Ok(sql::qualified(database, self.table())),
            None => Err(StoreError::new(ErrorKind::Invalid, "the store's pool is in no database")
                .with_advice("name one in the pool's options")
                .without_effect()),
        }
    }

    pub(crate) fn spawner(&self) -> Result<Spawner, StoreError> {
        self.shared.connections.spawner()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    pub(crate) fn limit(&self, within: Duration) -> Limit {
        Limit::new(&self.shared.clock, within)
    }

    pub(crate) fn table(&self) -> &Identifier {
        &self.shared.table
    }
}

impl fmt::Debug for MysqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MysqlStore({})", self.describe())
    }
}

#[async_trait]
impl LeaseStore for MysqlStore {
    fn describe(&self) -> String {
        format!("{} (table {})", self.shared.connections.describe(), self.table())
    }

    /// 4 s. A wait for a lock on the table has whole seconds, so one is the least; an attempt is a third of the
    /// ttl, and must outlast such a wait and the way there and back.
    fn min_ttl(&self) -> Duration {
        Duration::from_secs(4)
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        let (limit, table) = (self.limit(PATIENCE), self.table().clone());
        self.shared.connections.hold(limit, table, |lent, table| Box::pin(schema::migrate(lent, table))).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        let (limit, table) = (self.limit(PATIENCE), self.table().clone());
        self.shared.connections.look(limit, table, |lent, table| Box::pin(check::look(lent, table))).await
    }

    async fn claim(&self, claim: &Claim, within: Duration) -> Result<ClaimAnswer, StoreError> {
        let limit = self.limit(within);
        let values = claim_values(claim)?;
        let taken = self.claim_by(&limit, sql::claim(self.table()), values.clone()).await?;
        if let Some(term) = taken.term(&claim.name)? {
            return Ok(ClaimAnswer::Granted(term));
        }
        let made = self.claim_new(&limit, sql::claim_new(self.table()), values).await?;
        Ok(made.map_or(ClaimAnswer::Held, ClaimAnswer::Granted))
    }

    async fn renew(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        within: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        let mut values = held_by(name, holder);
        values.push(("ttl", Value::Int(ttl_ms(ttl)?)));
        let renewed = self.ask(Lane::Holder, self.limit(within), sql::renew(self.table()), values).await?;
        Ok(match renewed.id()? {
            0 => RenewAnswer::Lost,
            id => RenewAnswer::Renewed(Renewed { step_down: id == 2 }),
        })
    }

    async fn renew_many(
        &self,
        leases: &[Holding],
        ttl: Duration,
        within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        let (limit, ttl) = (self.limit(within), ttl_ms(ttl)?);
        let mut renewed = HashMap::new();
        for leases in leases.chunks(LEASES_PER_FLIGHT) {
            let flight = Flight::Many(sql::renew_many(self.table(), leases, ttl));
            let answer = self.send(Lane::Batch, Repeat::Always, limit.clone(), flight).await?;
            for row in &answer.rows {
                let (lease, answer) = renewed_row(row)?;
                renewed.insert(lease, answer);
            }
        }
        let answer = |lease: &Holding| {
            let key = (lease.name.as_str().to_owned(), lease.holder.to_string());
            renewed.get(&key).copied()
        };
        Ok(leases.iter().map(answer).collect())
    }

    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        let values = held_by(name, holder);
        let found = self.read(Lane::Holder, self.limit(within), sql::verify(self.table()), values).await?;
        let Some(row) = found.rows.first() else { return Ok(VerifyAnswer::Lost) };
        let term = integer(row, 0, name.as_str(), "term")?;
        Ok(VerifyAnswer::Held(term_of(name.as_str(), term)?))
    }

    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let values = held_by(name, holder);
        let released = self.ask(Lane::Holder, self.limit(within), sql::release(self.table()), values).await?;
        Ok(if released.matched()? { ReleaseAnswer::Released } else { ReleaseAnswer::Gone })
    }

    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let mut values = claim_values(claim)?;
        values.extend(seen(observed));
        let taken = self.claim_by(&self.limit(within), sql::claim_observed(self.table()), values).await?;
        Ok(taken.term(&claim.name)?.map_or(ConditionalAnswer::Moved, ConditionalAnswer::Granted))
    }

    async fn inspect(&self, name: &LeaseName, within: Duration) -> Result<Inspection, StoreError> {
        let found = self.read(Lane::Other, self.limit(within), sql::inspect(self.table()), of(name)).await?;
        let found = found.rows.first().ok_or_else(no_row).and_then(clock_and_lease);
        let (now, row) = found.map_err(StoreError::without_effect)?;
        Ok(Inspection { now, row })
    }

    async fn list(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        let Page { prefix, after, limit } = page;
        let values = vec![
            ("after", text(after.as_ref().map_or("", LeaseName::as_str))),
            ("prefix", text(prefix)),
            ("limit", Value::Int(i64::from(*limit))),
        ];
        let found = self.read(Lane::Other, self.limit(within), sql::list(self.table()), values).await?;
        let rows = found.rows.iter().map(clock_and_lease).collect::<Result<Vec<_>, StoreError>>();
        let rows = rows.map_err(StoreError::without_effect)?;
        let now = rows.first().ok_or_else(no_row)?.0;
        Ok(Listing { now, rows: rows.into_iter().filter_map(|(_, row)| row).collect() })
    }

    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        let mut values = of(name);
        values.extend(seen(observed));
        let cleared =
            self.ask_once(Lane::Other, self.limit(within), sql::clear(self.table()), values).await?;
        Ok(if cleared.matched()? { ClearAnswer::Cleared } else { ClearAnswer::Moved })
    }

    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        let mut values = of(name);
        values.push(("term", Value::Int(term.get())));
        let asked = self.ask(Lane::Other, self.limit(within), sql::resign(self.table()), values).await?;
        Ok(if asked.matched()? { ResignAnswer::Asked } else { ResignAnswer::Moved })
    }

    async fn claim_slot(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        let limit = self.limit(within);
        // A second look when the row has moved since the first: it says how.
        for _ in 0..2 {
            let state = self.slot_state(&claim.name, &limit).await?;
            let superseded = match state.judge(slot) {
                Ok(superseded) => superseded,
                Err(refusal) => return Ok(refusal),
            };
            let mut values = claim_values(claim)?;
            values.push(("slot", Value::Int(slot.as_millis())));
            let term = match state.row {
                None => self.claim_new(&limit, sql::claim_slot_new(self.table()), values).await?,
                Some(row) => {
                    let column = |slot: Option<Slot>| Value::Int(slot.map_or(0, Slot::as_millis));
                    values.push(("seen_term", Value::Int(row.term.get())));
                    values.push(("seen_slot", column(row.last)));
                    values.push(("seen_unfinished", column(row.unfinished)));
                    self.claim_by(&limit, sql::claim_slot(self.table()), values).await?.term(&claim.name)?
                }
            };
            if let Some(term) = term {
                return Ok(SlotAnswer::Granted { term, superseded });
            }
        }
        Ok(SlotAnswer::Held)
    }

    async fn finish_slot(&self, end: &SlotEnd, within: Duration) -> Result<FinishAnswer, StoreError> {
        let limit = self.limit(within);
        let SlotEnd { name, holder, slot, passed, lost } = end;
        if !lost {
            let mut values = held_by(name, holder);
            values.push(("passed", Value::Int(passed.map_or(0, Slot::as_millis))));
            let finish = sql::finish_slot(self.table());
            if self.ask(Lane::Holder, limit.clone(), finish, values).await?.matched()? {
                return Ok(FinishAnswer::Finished);
            }
        }
        let mut values = of(name);
        values.push(("slot", Value::Int(slot.as_millis())));
        let recorded =
            self.ask_once(Lane::Holder, limit, sql::record_end(self.table()), values).await?.matched()?;
        Ok(FinishAnswer::Lost { recorded })
    }

    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let flight = Flight::Many(vec![sql::unfinished_slots(self.table(), names)]);
        let found = self.send(Lane::Other, Repeat::Always, self.limit(within), flight).await;
        let rows =
            |found: Answer| found.rows.iter().filter_map(|row| unfinished_row(row).transpose()).collect();
        found.and_then(rows).map_err(StoreError::without_effect)
    }

    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let mut values = claim_values(claim)?;
        values.push(("term", Value::Int(unfinished.term.get())));
        values.push(("slot", Value::Int(unfinished.slot.as_millis())));
        let taken = self.claim_by(&self.limit(within), sql::claim_rerun(self.table()), values).await?;
        Ok(taken.term(&claim.name)?.map_or(ConditionalAnswer::Moved, ConditionalAnswer::Granted))
    }

    async fn last_slot(&self, name: &LeaseName, within: Duration) -> Result<Option<Slot>, StoreError> {
        let found =
            self.read(Lane::Other, self.limit(within), sql::last_slot(self.table()), of(name)).await?;
        let Some(row) = found.rows.first() else { return Ok(None) };
        let last = integer(row, 0, name.as_str(), "slot_ms");
        last.and_then(|last| slot_of(name.as_str(), "slot_ms", last)).map_err(StoreError::without_effect)
    }
}

impl MysqlStore {
    async fn slot_state(&self, name: &LeaseName, limit: &Limit) -> Result<SlotState, StoreError> {
        let look = sql::slot_state(self.table());
        let found = self.read(Lane::Other, limit.clone(), look, of(name)).await?;
        found
            .rows
            .first()
            .ok_or_else(no_row)
            .and_then(|row| slot_state(row, name))
            .map_err(StoreError::without_effect)
    }
}

fn of(name: &LeaseName) -> Values {
    vec![("name", text(name.as_str()))]
}

pub(crate) fn held_by(name: &LeaseName, holder: &Holder) -> Values {
    vec![("name", text(name.as_str())), ("holder", text(holder.hex().as_str()))]
}

fn seen(observed: &Observed) -> Values {
    let Observed { holder, expires_at } = observed;
    vec![
        ("seen_holder", text(holder.hex().as_str())),
        ("seen_expiry", Value::Int(DbTime::as_millis(*expires_at))),
    ]
}

/// The row of `sql::renew_many`: name and holder, and what the renewal says.
fn renewed_row(row: &Row) -> Result<((String, String), Renewed), StoreError> {
    let name = string(row, 0, "", "name")?;
    let holder = string(row, 1, &name, "holder")?;
    let step_down = integer(row, 2, &name, "resign_term")? == 1;
    Ok(((name, holder), Renewed { step_down }))
}

/// The row of `sql::unfinished_slots`.
fn unfinished_row(row: &Row) -> Result<Option<UnfinishedSlot>, StoreError> {
    let name = string(row, 0, "", "name")?;
    let slot = slot_of(&name, "unfinished_slot_ms", integer(row, 1, &name, "unfinished_slot_ms")?)?;
    let term = term_of(&name, integer(row, 2, &name, "term")?)?;
    let name = name.parse().map_err(|_| lease_core::store::damaged("", "name", "no name of a lease"))?;
    Ok(slot.map(|slot| UnfinishedSlot { name, slot, term }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is moved several times on its way to the store's thread.
    #[test]
    fn the_future_of_a_statement_is_small() {
        let store = MysqlStore::open("mysql://user@host/database").unwrap();
        let limit = store.limit(PATIENCE);
        let size = size_of_val(&store.send(Lane::Other, Repeat::Always, limit, Flight::Many(Vec::new())));
        assert!(size <= 2_048, "{size}");
    }
}
