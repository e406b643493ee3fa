//! The store: what is asked of which connection, and what the answers mean. The statements are in `sql.rs`.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, FinishAnswer, Holding, Inspection, Limit, Listing,
    Notices, Notifier, Observed, Page, ReleaseAnswer, RenewAnswer, Renewed, ResignAnswer, SlotAnswer,
    SlotEnd, StoreError, UnfinishedSlot, VerifyAnswer, ttl_ms,
};
use lease_core::{Clock, ErrorKind, Holder, LeaseName, LeaseStore, Slot, SystemClock, Term};
use rusqlite::{Connection, Params, Row, named_params};

use crate::connection::{Place, Role};
use crate::error::Failure;
use crate::files::Known;
use crate::notices::Lookout;
use crate::options::{SqliteOptions, Table};
use crate::path::{absolute, shown};
use crate::queue::{Kind, Order};
use crate::row::{Cell, ClaimParams, answer, clock_and_lease, json_array, no_clock};
use crate::worker::{Worker, answered};
use crate::{check, schema, slot, sql};

/// Leases in a table of a SQLite file. Cheap to clone; after the last clone is dropped the store's threads
/// close the file and end.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    /// That of the connection that writes.
    place: Place,
    writer: Worker,
    reader: Worker,
    clock: Arc<dyn Clock>,
    notifier: Arc<Notifier>,
}

/// How long opening, migrating and checking may take, which nobody gives a time for.
const PATIENCE: Duration = Duration::from_secs(15);

impl SqliteStore {
    /// Opens the file, which is made if it does not exist (its folder is not), and tells whether
    /// this is a file that can carry leases at all. The table is made by [`migrate`](LeaseStore::migrate).
    ///
    /// `path` is a path, not a URI. `:memory:` and the empty path are refused: nobody else could
    /// see a lease there.
    ///
    /// The error names the file: [`Invalid`](ErrorKind::Invalid) for a path that cannot be a
    /// database, [`Unavailable`](ErrorKind::Unavailable) for a missing folder or file,
    /// [`Denied`](ErrorKind::Denied) and [`ReadOnly`](ErrorKind::ReadOnly) for one that may not be
    /// read or written, [`Damaged`](ErrorKind::Damaged) for a file that is no database,
    /// [`Unsupported`](ErrorKind::Unsupported) for a network file system, a file with a second name or
    /// mounted by itself, or an SQLite before 3.42,
    /// [`NotDurable`](ErrorKind::NotDurable), [`Full`](ErrorKind::Full), [`Busy`](ErrorKind::Busy).
    ///
    /// Dropping the future: the file may be made all the same, and is closed.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::options().open(path).await
    }

    /// The choices there are: the table's name, and whether a missing file is made.
    pub fn options() -> SqliteOptions {
        SqliteOptions::default()
    }

    /// The DDL of the table, for people who create their tables themselves.
    ///
    /// Fails with [`ErrorKind::Invalid`] when `table` is no plain identifier.
    pub fn schema(table: &str) -> Result<String, StoreError> {
        Ok(format!("{};\n", sql::create_table(&Table::new(table)?)))
    }

    pub(crate) async fn open_with(options: SqliteOptions, path: &Path) -> Result<Self, StoreError> {
        let SqliteOptions { table, create } = options;
        let named = |error: StoreError| {
            error.in_context(format_args!("cannot open SQLite file {}", shown(path))).without_effect()
        };
        let path = absolute(path).map_err(named)?;
        let place = |role| Place { path: path.clone(), table: table.clone(), role, known: Known::default() };
        let worker = |place, lookout| Worker::start(place, lookout).map_err(no_thread).map_err(named);
        let place_to_write = place(Role::Write);
        let notifier = Arc::new(Notifier::new());
        let lookout = Lookout::new(Arc::clone(&notifier));
        let (writer, reader) =
            (worker(place_to_write.clone(), None)?, worker(place(Role::Read), Some(lookout))?);
        let clock = SystemClock::shared().map_err(no_thread).map_err(named)?;
        let shared = Shared { place: place_to_write, writer, reader, clock, notifier };
        let store = Self { shared: Arc::new(shared) };
        // The first to open makes the file; the other then finds it.
        let limit = store.limit(PATIENCE);
        let first = Order::within(&limit, if create { Kind::Make } else { Kind::Check });
        answered(&limit, store.shared.writer.ask(first, |_| Ok(()))).await.map_err(named)?;
        answered(&limit, store.shared.reader.ask(Order::within(&limit, Kind::Read), |_| Ok(())))
            .await
            .map_err(named)?;
        Ok(store)
    }

    /// Asks the connection that writes, in a transaction.
    async fn write<T, F>(&self, limit: Limit, kind: Kind, statement: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Connection) -> Result<T, Failure> + Send + 'static,
    {
        answered(&limit, self.shared.writer.ask(Order::within(&limit, kind), statement)).await
    }

    /// Asks the connection that reads, of the file that is now at the path.
    async fn read<T, F>(&self, limit: Limit, statement: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Connection) -> Result<T, Failure> + Send + 'static,
    {
        answered(&limit, self.shared.reader.ask(Order::within(&limit, Kind::Read), statement))
            .await
            .map_err(StoreError::without_effect)
    }

    pub(crate) fn limit(&self, within: Duration) -> Limit {
        Limit::new(&self.shared.clock, within)
    }

    pub(crate) fn place(&self) -> &Place {
        &self.shared.place
    }

    pub(crate) fn table(&self) -> &Table {
        &self.place().table
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.place().path)
            .field("table", self.table())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl LeaseStore for SqliteStore {
    fn describe(&self) -> String {
        format!("SQLite file {} (table {})", shown(&self.place().path), self.table().as_str())
    }

    /// 10 ms: the clock and the waits for a lock go by single milliseconds, a commit to disk often
    /// takes several.
    fn min_ttl(&self) -> Duration {
        Duration::from_millis(10)
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        let table = self.table().clone();
        let limit = self.limit(PATIENCE);
        // A file that was deleted since is made anew here and nowhere else.
        let order = Order::within(&limit, Kind::Make);
        answered(&limit, self.shared.writer.ask(order, move |db| schema::migrate(db, &table))).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        let limit = self.limit(PATIENCE);
        let order = Order::within(&limit, Kind::Check);
        // Renewals need not wait while a large table is read.
        let table = self.table().clone();
        answered(&limit, self.shared.reader.ask(order, move |db| check::look(db, &table))).await?;
        let table = self.table().clone();
        answered(&limit, self.shared.writer.ask(order, move |db| check::try_to_write(db, &table))).await
    }

    async fn claim(&self, claim: &Claim, within: Duration) -> Result<ClaimAnswer, StoreError> {
        let limit = self.limit(within);
        let claim = ClaimParams::new(claim)?;
        let (name, held) = (claim.name.clone(), sql::held(self.table()));
        let is_held = self.read(limit.clone(), move |db| {
            answer(db, &held, named_params! {":name": name.as_str()}, |row| Ok(row.get(0)?))
        });
        if is_held.await? == Some(true) {
            return Ok(ClaimAnswer::Held);
        }
        let sql = sql::claim(self.table());
        let granted = self.write(limit, Kind::Write, move |db| {
            answer(db, &sql, &*claim.with(&[]), |row| term(row, &claim.name))
        });
        Ok(granted.await?.map_or(ClaimAnswer::Held, ClaimAnswer::Granted))
    }

    async fn renew(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        within: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        let sql = sql::renew(self.table());
        let (holding, ttl) = (Holding { name: name.clone(), holder: *holder }, ttl_ms(ttl)?);
        let renewed =
            self.write(self.limit(within), Kind::Renewal, move |db| renew(db, &sql, &holding, ttl)).await?;
        Ok(renewed.map_or(RenewAnswer::Lost, RenewAnswer::Renewed))
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
        let sql = sql::renew(self.table());
        let (leases, ttl) = (leases.to_vec(), ttl_ms(ttl)?);
        self.write(self.limit(within), Kind::Renewal, move |db| {
            leases.iter().map(|lease| renew(db, &sql, lease, ttl)).collect()
        })
        .await
    }

    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        let sql = sql::verify(self.table());
        let (name, holder) = (name.clone(), holder.hex());
        let limit = self.limit(within);
        let held = self.shared.reader.ask(Order::within(&limit, Kind::Verify), move |db| {
            let params = named_params! {":name": name.as_str(), ":holder": holder.as_str()};
            answer(db, &sql, params, |row| term(row, &name))
        });
        Ok(answered(&limit, held)
            .await
            .map_err(StoreError::without_effect)?
            .map_or(VerifyAnswer::Lost, VerifyAnswer::Held))
    }

    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let sql = sql::release(self.table());
        let (name, holder) = (name.clone(), holder.hex());
        let released = self.write(self.limit(within), Kind::Renewal, move |db| {
            changed(db, &sql, named_params! {":name": name.as_str(), ":holder": holder.as_str()})
        });
        Ok(if released.await? { ReleaseAnswer::Released } else { ReleaseAnswer::Gone })
    }

    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let sql = sql::claim_observed(self.table());
        let claim = ClaimParams::new(claim)?;
        let (holder, expiry) = (observed.holder.to_string(), observed.expires_at.as_millis());
        let granted = self.write(self.limit(within), Kind::Write, move |db| {
            let params = claim.with(&[(":seen_holder", &holder), (":seen_expiry", &expiry)]);
            answer(db, &sql, &*params, |row| term(row, &claim.name))
        });
        Ok(granted.await?.map_or(ConditionalAnswer::Moved, ConditionalAnswer::Granted))
    }

    async fn inspect(&self, name: &LeaseName, within: Duration) -> Result<Inspection, StoreError> {
        let sql = sql::inspect(self.table());
        let name = name.clone();
        let found = self.read(self.limit(within), move |db| {
            answer(db, &sql, named_params! {":name": name.as_str()}, clock_and_lease)
        });
        let (now, row) = found.await?.ok_or_else(no_clock)?;
        Ok(Inspection { now, row })
    }

    async fn list(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        let sql = sql::list(self.table());
        let Page { prefix, after, limit } = page.clone();
        let found = self.read(self.limit(within), move |db| {
            let after = after.as_ref().map_or("", LeaseName::as_str);
            let params = named_params! {":after": after, ":prefix": prefix, ":limit": i64::from(limit)};
            let mut statement = db.prepare_cached(&sql)?;
            let rows = statement.query_and_then(params, clock_and_lease)?;
            rows.collect::<Result<Vec<_>, Failure>>()
        });
        let found = found.await?;
        // The rows are one snapshot; the clock, read anew for each, is the first one's.
        let now = found.first().ok_or_else(no_clock)?.0;
        Ok(Listing { now, rows: found.into_iter().filter_map(|(_, row)| row).collect() })
    }

    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        let sql = sql::clear(self.table());
        let (name, holder, expiry) = (name.clone(), observed.holder.hex(), observed.expires_at.as_millis());
        let cleared = self.write(self.limit(within), Kind::Renewal, move |db| {
            let params = named_params! {
                ":name": name.as_str(), ":seen_holder": holder.as_str(), ":seen_expiry": expiry,
            };
            changed(db, &sql, params)
        });
        Ok(if cleared.await? { ClearAnswer::Cleared } else { ClearAnswer::Moved })
    }

    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        let sql = sql::resign(self.table());
        let name = name.clone();
        let asked = self.write(self.limit(within), Kind::Write, move |db| {
            changed(db, &sql, named_params! {":name": name.as_str(), ":term": term.get()})
        });
        Ok(if asked.await? { ResignAnswer::Asked } else { ResignAnswer::Moved })
    }

    async fn claim_slot(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        let limit = self.limit(within);
        let claim = ClaimParams::new(claim)?;
        let (state, grant) = (sql::slot_state(self.table()), sql::claim_slot(self.table()));
        let (name, look) = (claim.name.clone(), state.clone());
        if let Err(refusal) = self.read(limit.clone(), move |db| slot::judge(db, &look, &name, slot)).await? {
            return Ok(refusal);
        }
        self.write(limit, Kind::Write, move |db| {
            let superseded = match slot::judge(db, &state, &claim.name, slot)? {
                Ok(superseded) => superseded,
                Err(refusal) => return Ok(refusal),
            };
            let slot_ms = slot.as_millis();
            let params = claim.with(&[(":slot", &slot_ms)]);
            let term = answer(db, &grant, &*params, |row| term(row, &claim.name))?;
            Ok(term.map_or(SlotAnswer::Held, |term| SlotAnswer::Granted { term, superseded }))
        })
        .await
    }

    async fn finish_slot(&self, end: &SlotEnd, within: Duration) -> Result<FinishAnswer, StoreError> {
        let (finish, record) = (sql::finish_slot(self.table()), sql::record_end(self.table()));
        let SlotEnd { name, holder, slot, passed, lost } = end.clone();
        self.write(self.limit(within), Kind::Renewal, move |db| {
            let (holder, passed) = (holder.hex(), passed.map_or(0, Slot::as_millis));
            let params =
                named_params! {":name": name.as_str(), ":holder": holder.as_str(), ":passed": passed};
            if !lost && changed(db, &finish, params)? {
                return Ok(FinishAnswer::Finished);
            }
            let params = named_params! {":name": name.as_str(), ":slot": slot.as_millis()};
            Ok(FinishAnswer::Lost { recorded: changed(db, &record, params)? })
        })
        .await
    }

    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        let sql = sql::unfinished_slots(self.table());
        let names = json_array(names);
        self.read(self.limit(within), move |db| {
            let mut statement = db.prepare_cached(&sql)?;
            let rows = statement.query_and_then(named_params! {":names": names}, |row| {
                let name = Cell::new(row, "", 0, "name").name()?;
                let slot = Cell::new(row, name.as_str(), 1, "unfinished_slot_ms").slot()?;
                let term = Cell::new(row, name.as_str(), 2, "term").term()?;
                Ok(slot.map(|slot| UnfinishedSlot { name, slot, term }))
            })?;
            rows.filter_map(Result::transpose).collect()
        })
        .await
    }

    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let sql = sql::claim_rerun(self.table());
        let claim = ClaimParams::new(claim)?;
        let (seen_term, slot) = (unfinished.term.get(), unfinished.slot.as_millis());
        let granted = self.write(self.limit(within), Kind::Write, move |db| {
            let params = claim.with(&[(":term", &seen_term), (":slot", &slot)]);
            answer(db, &sql, &*params, |row| term(row, &claim.name))
        });
        Ok(granted.await?.map_or(ConditionalAnswer::Moved, ConditionalAnswer::Granted))
    }

    async fn last_slot(&self, name: &LeaseName, within: Duration) -> Result<Option<Slot>, StoreError> {
        let sql = sql::last_slot(self.table());
        let name = name.clone();
        let slot = self.read(self.limit(within), move |db| {
            answer(db, &sql, named_params! {":name": name.as_str()}, |row| {
                Cell::new(row, name.as_str(), 0, "slot_ms").slot()
            })
        });
        Ok(slot.await?.flatten())
    }

    /// A hint comes within some 5 ms of any commit to the file, whatever it changed, and names no name.
    fn notices(&self) -> Option<Notices> {
        let notices = self.shared.notifier.listen();
        self.shared.reader.is_listened_to();
        Some(notices)
    }
}

fn renew(connection: &Connection, sql: &str, lease: &Holding, ttl: i64) -> Result<Option<Renewed>, Failure> {
    let (name, holder) = (lease.name.as_str(), lease.holder.hex());
    let params = named_params! {":name": name, ":holder": holder.as_str(), ":ttl": ttl};
    answer(connection, sql, params, |row| Ok(Renewed { step_down: row.get(0)? }))
}

/// The term in the answer to a claim.
fn term(row: &Row<'_>, name: &LeaseName) -> Result<Term, Failure> {
    Cell::new(row, name.as_str(), 0, "term").term()
}

/// Whether a row matched.
fn changed(connection: &Connection, sql: &str, params: impl Params) -> Result<bool, Failure> {
    Ok(answer(connection, sql, params, |_| Ok(()))?.is_some())
}

fn no_thread(error: std::io::Error) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, format!("no thread can be started: {error}")).with_source(error)
}
