//! The store: what is asked of which connection, and what the answers mean. The statements are in `sql.rs`.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, FinishAnswer, Holding, Inspection, IoThread, Limit,
    Listing, Notices, Observed, Page, ReleaseAnswer, RenewAnswer, Renewed, Repeat, ResignAnswer, SlotAnswer,
    SlotEnd, SlotRow, SlotState, StoreError, UnfinishedSlot, VerifyAnswer, slot_of, ttl_ms,
};
use lease_core::{Clock, ErrorKind, Holder, LeaseName, LeaseStore, Slot, SystemClock, Tenure, Term};
use tokio::runtime::Handle;
use tokio_postgres::Config;

use crate::connection::announce;
use crate::connections::{Connections, Lane};
use crate::fence::Fence;
use crate::guard::Guard;
use crate::notices::{Announcer, Listener};
use crate::opener::Opener;
use crate::options::{PostgresOptions, Table};
use crate::row::{
    Question, Row, Value, cell, claim_values, clock, granted, lease_row, no_clock, slot_state,
    unfinished_slot,
};
use crate::tls::Tls;
use crate::{check, schema, sql};

/// Leases in a table of a PostgreSQL database. Cheap to clone; after the last clone is dropped the store's
/// thread ends and its connections with it.
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    thread: Thread,
}

struct Shared {
    place: String,
    table: Table,
    connections: Connections,
    clock: Arc<dyn Clock>,
    /// `None` without notices.
    announcer: Option<Arc<Announcer>>,
    /// `None` on a pool of the program's as well.
    listener: Option<Listener>,
}

/// Where the statements run.
#[derive(Clone)]
enum Thread {
    /// Beside the store's own connections.
    Own(IoThread),
    /// Where the user's pool has its own.
    Users(Handle),
}

/// How long migrating and checking may take, which nobody gives a time for.
const PATIENCE: Duration = Duration::from_secs(15);

impl PostgresStore {
    /// Opens a store on connections of its own, which are made when they are needed: nothing is sent
    /// yet. [`check`](LeaseStore::check) says whether the database can be reached and used, and
    /// [`migrate`](LeaseStore::migrate) makes the table.
    ///
    /// `url` is that of libpq: `postgres://user:password@host:5432,host2/database?sslmode=verify-full`, with the
    /// parameters in the [crate's documentation](crate#the-url). Of several hosts the first that is a
    /// primary is used.
    ///
    /// Fails with [`Invalid`](ErrorKind::Invalid) on a URL that cannot be used; the message
    /// holds no part of it.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        Self::options().open(url)
    }

    /// The choices there are: the table's name and schema, a pool of the program's.
    pub fn options() -> PostgresOptions {
        PostgresOptions::default()
    }

    /// The DDL of the table, for people who create their tables themselves. It goes to the schema `public`.
    ///
    /// Fails with [`Invalid`](ErrorKind::Invalid) when `table` is no plain identifier.
    pub fn schema(table: &str) -> Result<String, StoreError> {
        Ok(Self::options().table(table)?.ddl())
    }

    /// Guarded transactions under a lease of this store: they never commit after a successor's claim. See the
    /// [crate's documentation](crate#guarded-transactions).
    pub fn guard(&self, tenure: &Tenure) -> Guard {
        Guard::new(self, tenure)
    }

    /// The statements that make a transaction a guarded one, for other drivers. See the
    /// [crate's documentation](crate#the-pieces-alone).
    pub fn fence(&self, tenure: &Tenure) -> Fence {
        Fence::new(self.table(), tenure)
    }

    pub(crate) fn on_own_connections(
        options: PostgresOptions,
        config: &Config,
        tls: Tls,
    ) -> Result<Self, StoreError> {
        let opener = Opener::new(config, tls)?;
        let place = opener.place();
        let thread = IoThread::start("lease-postgres").map_err(no_thread)?;
        let connections = Connections::own(&opener);
        Self::on(options, &place, connections, Thread::Own(thread), Some(opener))
    }

    pub(crate) fn on_pool(
        options: PostgresOptions,
        pool: deadpool_postgres::Pool,
    ) -> Result<Self, StoreError> {
        let handle = Handle::try_current().map_err(|error| {
            let message = "open_pool() has to be called on the tokio runtime that the pool is used on";
            StoreError::new(ErrorKind::Runtime, message).with_source(error).without_effect()
        })?;
        let place = "of the program's own pool";
        Self::on(options, place, Connections::Program(pool), Thread::Users(handle), None)
    }

    fn on(
        options: PostgresOptions,
        place: &str,
        connections: Connections,
        thread: Thread,
        listens_by: Option<Opener>,
    ) -> Result<Self, StoreError> {
        let PostgresOptions { table, notices } = options;
        let clock: Arc<dyn Clock> = SystemClock::shared().map_err(no_thread)?;
        let place = format!("PostgreSQL {place} (table {})", table.shown());
        let announcer = notices.then(|| Arc::new(Announcer::new(&table)));
        let listener = listens_by.filter(|_| notices).map(|opener| Listener::new(opener, &table, &clock));
        Ok(Self {
            shared: Arc::new(Shared { place, table, connections, clock, announcer, listener }),
            thread,
        })
    }

    /// Runs to its end whatever becomes of the caller.
    async fn run<T, F>(&self, asking: impl FnOnce(Arc<Shared>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let asking = asking(Arc::clone(&self.shared));
        match &self.thread {
            Thread::Own(thread) => thread.run(asking).await,
            Thread::Users(handle) => match handle.spawn(asking).await {
                Ok(answer) => answer,
                Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
                Err(ended) => {
                    let message = "the runtime that open_pool() was called on has shut down";
                    Err(StoreError::new(ErrorKind::Runtime, message).with_source(ended))
                }
            },
        }
    }

    /// Runs what nobody waits for, where the statements run.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.thread {
            Thread::Own(thread) => drop(thread.spawn(task)),
            Thread::Users(handle) => drop(handle.spawn(task)),
        }
    }

    /// Asks until there is an answer or no time left.
    pub(crate) async fn ask(
        &self,
        lane: Lane,
        repeat: Repeat,
        within: Duration,
        question: Question,
    ) -> Result<Vec<Row>, StoreError> {
        self.run(move |shared| async move {
            let limit = shared.limit(within);
            // Apart in memory: it is large, and what is around it is moved several times on its way to the thread.
            limit.insist(repeat, || Box::pin(shared.connections.ask(lane, &limit, &question))).await
        })
        .await
    }

    /// Asks and reads the answer of a statement that changes nothing.
    async fn read<T>(
        &self,
        lane: Lane,
        within: Duration,
        question: Question,
        answer: impl FnOnce(&[Row]) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let rows = self.ask(lane, Repeat::Always, within, question).await;
        rows.and_then(|rows| answer(&rows)).map_err(StoreError::without_effect)
    }

    /// A write of a holder or a bystander.
    async fn write(
        &self,
        repeat: Repeat,
        within: Duration,
        sql: String,
        values: impl Into<Vec<Value>>,
    ) -> Result<Vec<Row>, StoreError> {
        self.ask(Lane::Holder, repeat, within, Question::new(sql, values)).await
    }

    /// A claim of any kind, which is not sent again when it may have been granted.
    async fn take(
        &self,
        claim: &Claim,
        within: Duration,
        sql: String,
        more: impl IntoIterator<Item = Value>,
    ) -> Result<Option<Term>, StoreError> {
        let question = Question::new(sql, claim_values(claim, more)?);
        let rows = self.ask(Lane::Other, Repeat::WithoutEffect, within, question).await?;
        granted(&rows, &claim.name)
    }

    pub(crate) fn table(&self) -> &Table {
        &self.shared.table
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    pub(crate) fn limit(&self, within: Duration) -> Limit {
        self.shared.limit(within)
    }
}

impl Shared {
    fn limit(&self, within: Duration) -> Limit {
        Limit::new(&self.clock, within)
    }

    async fn slot_state(&self, limit: &Limit, name: &LeaseName) -> Result<SlotState, StoreError> {
        let question = Question::new(sql::slot_state(&self.table), [name.into()]);
        let rows = self.connections.ask(Lane::Other, limit, &question).await;
        rows.and_then(|rows| slot_state(rows.first().ok_or_else(no_clock)?, name))
            .map_err(StoreError::without_effect)
    }

    /// Reads and judges, then writes if nothing has changed.
    async fn claim_slot(&self, limit: &Limit, claim: &Claim, slot: Slot) -> Result<SlotAnswer, StoreError> {
        // A second look when the row has moved since the first: it says how.
        for _ in 0..2 {
            let state = self.slot_state(limit, &claim.name).await?;
            let superseded = match state.judge(slot) {
                Ok(superseded) => superseded,
                Err(refusal) => return Ok(refusal),
            };
            let seen = state.row.map_or([0; 3], |SlotRow { term, last, unfinished, .. }| {
                [term.get(), last.map_or(0, Slot::as_millis), unfinished.map_or(0, Slot::as_millis)]
            });
            let more = [slot.as_millis()].into_iter().chain(seen).map(Value::from);
            let question = Question::new(sql::claim_slot(&self.table), claim_values(claim, more)?);
            let rows = self.connections.ask(Lane::Other, limit, &question).await?;
            if let Some(term) = granted(&rows, &claim.name)? {
                return Ok(SlotAnswer::Granted { term, superseded });
            }
        }
        Ok(SlotAnswer::Held)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.shared.place).finish_non_exhaustive()
    }
}

#[async_trait]
impl LeaseStore for PostgresStore {
    fn describe(&self) -> String {
        self.shared.place.clone()
    }

    /// 100 ms: a round trip and a commit, which may wait for a synchronous standby, often take tens of
    /// milliseconds.
    fn min_ttl(&self) -> Duration {
        Duration::from_millis(100)
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.run(|shared| async move {
            let limit = shared.limit(PATIENCE);
            let migrate = || Box::pin(schema::migrate(&shared.connections, &limit, &shared.table));
            limit.insist(Repeat::Always, migrate).await
        })
        .await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.run(|shared| async move {
            let limit = shared.limit(PATIENCE);
            let once = || limit.bound(check::check(&shared.connections, &limit, &shared.table));
            match once().await {
                // Of a connection that lay idle while the server was away.
                Err(error) if error.kind() == ErrorKind::Unavailable => once().await,
                answer => answer,
            }
        })
        .await
        .map_err(StoreError::without_effect)
    }

    async fn claim(&self, claim: &Claim, within: Duration) -> Result<ClaimAnswer, StoreError> {
        let granted = self.take(claim, within, sql::claim(self.table()), []).await?;
        Ok(granted.map_or(ClaimAnswer::Held, ClaimAnswer::Granted))
    }

    async fn renew(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        within: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        let values = [name.into(), holder.into(), ttl_ms(ttl)?.into()];
        let rows = self.write(Repeat::Always, within, sql::renew(self.table()), values).await?;
        let cell = |row, index, column| cell::<bool>(row, index, name.as_str(), column);
        match rows.first() {
            Some(row) if cell(row, 0, "expires_at_ms")? => {
                Ok(RenewAnswer::Renewed(Renewed { step_down: cell(row, 1, "resign_term")? }))
            }
            _ => Ok(RenewAnswer::Lost),
        }
    }

    async fn renew_many(
        &self,
        leases: &[Holding],
        ttl: Duration,
        within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let names = leases.iter().map(|lease| lease.name.to_string()).collect();
        let holders = leases.iter().map(|lease| lease.holder.to_string()).collect();
        let values = [names, holders, ttl_ms(ttl)?.into()];
        let question = Question::new(sql::renew_many(self.table()), values);
        let rows = self.ask(Lane::Batch, Repeat::Always, within, question).await?;
        let mut renewed = HashMap::with_capacity(rows.len());
        for row in &rows {
            let (name, holder) = (cell::<&str>(row, 0, "", "name")?, cell::<&str>(row, 1, "", "holder")?);
            renewed.insert((name, holder), Renewed { step_down: cell(row, 2, name, "resign_term")? });
        }
        let answer =
            |lease: &Holding| renewed.get(&(lease.name.as_str(), lease.holder.hex().as_str())).copied();
        Ok(leases.iter().map(answer).collect())
    }

    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        let question = Question::new(sql::verify(self.table()), [name.into(), holder.into()]);
        self.read(Lane::Holder, within, question, |rows| {
            Ok(granted(rows, name)?.map_or(VerifyAnswer::Lost, VerifyAnswer::Held))
        })
        .await
    }

    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let rows = self
            .write(Repeat::Always, within, sql::release(self.table()), [name.into(), holder.into()])
            .await?;
        Ok(if rows.is_empty() { ReleaseAnswer::Gone } else { ReleaseAnswer::Released })
    }

    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let seen = [(&observed.holder).into(), observed.expires_at.as_millis().into()];
        let granted = self.take(claim, within, sql::claim_observed(self.table()), seen).await?;
        Ok(granted.map_or(ConditionalAnswer::Moved, ConditionalAnswer::Granted))
    }

    async fn inspect(&self, name: &LeaseName, within: Duration) -> Result<Inspection, StoreError> {
        let question = Question::new(sql::inspect(self.table()), [name.into()]);
        self.read(Lane::Other, within, question, |rows| {
            let row = rows.first().ok_or_else(no_clock)?;
            Ok(Inspection { now: clock(row)?, row: lease_row(row)? })
        })
        .await
    }

    async fn list(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        let Page { prefix, after, limit } = page;
        // No name has a NUL, and no text of this database can.
        let (prefix, limit) = if prefix.contains('\0') { ("", 0) } else { (prefix.as_str(), *limit) };
        let after = after.as_ref().map_or("", LeaseName::as_str);
        let values = [after.into(), prefix.into(), i64::from(limit).into()];
        let question = Question::new(sql::list(self.table()), values);
        self.read(Lane::Other, within, question, |rows| {
            let now = clock(rows.first().ok_or_else(no_clock)?)?;
            let rows = rows.iter().filter_map(|row| lease_row(row).transpose()).collect::<Result<_, _>>()?;
            Ok(Listing { now, rows })
        })
        .await
    }

    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        let values = [name.into(), (&observed.holder).into(), observed.expires_at.as_millis().into()];
        // Sent again after it went through, it would say that the row has moved.
        let rows = self.write(Repeat::WithoutEffect, within, sql::clear(self.table()), values).await?;
        Ok(if rows.is_empty() { ClearAnswer::Moved } else { ClearAnswer::Cleared })
    }

    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        let rows = self
            .write(Repeat::Always, within, sql::resign(self.table()), [name.into(), term.get().into()])
            .await?;
        Ok(if rows.is_empty() { ResignAnswer::Moved } else { ResignAnswer::Asked })
    }

    async fn claim_slot(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        ttl_ms(claim.ttl)?;
        let claim = claim.clone();
        self.run(move |shared| async move {
            let limit = shared.limit(within);
            limit.insist(Repeat::WithoutEffect, || Box::pin(shared.claim_slot(&limit, &claim, slot))).await
        })
        .await
    }

    async fn finish_slot(&self, end: &SlotEnd, within: Duration) -> Result<FinishAnswer, StoreError> {
        let SlotEnd { name, holder, slot, passed, lost } = end;
        let started = self.shared.clock.now();
        if !lost {
            let values = [name.into(), holder.into(), passed.map_or(0, Slot::as_millis).into()];
            let rows = self.write(Repeat::Always, within, sql::finish_slot(self.table()), values).await?;
            if !rows.is_empty() {
                return Ok(FinishAnswer::Finished);
            }
        }
        // This, too, would deny what it has done.
        let left = within.saturating_sub(self.shared.clock.now().since(started));
        let rows = self
            .write(
                Repeat::WithoutEffect,
                left,
                sql::record_end(self.table()),
                [name.into(), slot.as_millis().into()],
            )
            .await?;
        Ok(FinishAnswer::Lost { recorded: !rows.is_empty() })
    }

    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        let names: Value = names.iter().map(ToString::to_string).collect();
        let question = Question::new(sql::unfinished_slots(self.table()), [names]);
        self.read(Lane::Other, within, question, |rows| {
            rows.iter().filter_map(|row| unfinished_slot(row).transpose()).collect()
        })
        .await
    }

    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let seen = [unfinished.term.get().into(), unfinished.slot.as_millis().into()];
        let granted = self.take(claim, within, sql::claim_rerun(self.table()), seen).await?;
        Ok(granted.map_or(ConditionalAnswer::Moved, ConditionalAnswer::Granted))
    }

    async fn last_slot(&self, name: &LeaseName, within: Duration) -> Result<Option<Slot>, StoreError> {
        let question = Question::new(sql::last_slot(self.table()), [name.into()]);
        self.read(Lane::Other, within, question, |rows| {
            let Some(row) = rows.first() else { return Ok(None) };
            slot_of(name.as_str(), "slot_ms", cell(row, 0, name.as_str(), "slot_ms")?)
        })
        .await
    }

    fn notices(&self) -> Option<Notices> {
        let Thread::Own(thread) = &self.thread else { return None };
        self.shared.listener.as_ref()?.listen(thread)
    }

    async fn announce(&self, name: &LeaseName, within: Duration) -> Result<(), StoreError> {
        let Some(announcer) = &self.shared.announcer else { return Ok(()) };
        let announcement = announcer.add(name);
        self.run(move |shared| async move {
            let limit = shared.limit(within);
            // In this lane it keeps claims waiting, should another's announcement keep it waiting; never a renewal.
            let once = async |announcements: &[String]| {
                let lent = shared.connections.lend(Lane::Other, &limit).await?;
                let told = announce(lent.client(), &limit, announcements).await;
                lent.end(told)
            };
            let tell = async |announcements: Vec<String>| {
                limit.insist(Repeat::Always, || once(&announcements)).await
            };
            Box::pin(limit.bound(announcement.send(tell))).await
        })
        .await
    }
}

fn no_thread(error: std::io::Error) -> StoreError {
    let message = format!("no thread can be started: {error}");
    StoreError::new(ErrorKind::Unavailable, message).with_source(error).without_effect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is moved several times on its way to the store's thread.
    #[test]
    fn the_future_of_a_statement_is_small() {
        let store = PostgresStore::open("postgres://host/database").unwrap();
        let question = Question::new(sql::is_standby(), []);
        let size = size_of_val(&store.ask(Lane::Other, Repeat::Always, PATIENCE, question));
        assert!(size <= 2_048, "{size}");
    }
}
