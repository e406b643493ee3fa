//! The reference model: the contract of [`LeaseStore`](lease_core::LeaseStore) in the plainest code that keeps it.

mod statements;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use lease_core::store::{DbTime, LeaseRow, Notifier, StoreError, millis};
use lease_core::{Clock, ErrorKind, LeaseName};

/// What the database's clock reads when the clock of [`MemoryStore::with_clock`] stands at its zero:
/// a moment in November 2023.
const BASE_MS: i64 = 1_700_000_000_000;

/// A table of leases in this process's memory: for tests without a database, and the model that the
/// conformance suite compares other stores with.
///
/// Clones share one table and stand for processes that share a database. Nothing survives the last clone.
#[derive(Clone)]
pub struct MemoryStore {
    database: Arc<Database>,
}

struct Database {
    clock: Option<Arc<dyn Clock>>,
    state: Mutex<State>,
    notifier: Notifier,
}

struct State {
    /// How far the database's clock has been stepped.
    stepped_ms: i64,
    /// `None` while there is no table.
    rows: Option<Rows>,
}

type Rows = BTreeMap<LeaseName, LeaseRow>;

impl MemoryStore {
    /// A store with an empty table, whose database clock is the system's.
    pub fn new() -> Self {
        Self::on(None)
    }

    /// A store with an empty table, whose database clock goes as `clock` does.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::on(Some(clock))
    }

    fn on(clock: Option<Arc<dyn Clock>>) -> Self {
        let state = Mutex::new(State { stepped_ms: 0, rows: Some(Rows::new()) });
        Self { database: Arc::new(Database { clock, state, notifier: Notifier::new() }) }
    }

    /// Steps the database's clock, forward or back, as a careless administrator would.
    pub fn step_clock(&self, ms: i64) {
        let mut state = self.lock();
        state.stepped_ms = state.stepped_ms.saturating_add(ms);
    }

    /// Changes a row behind the store's back. The name stays.
    ///
    /// # Panics
    ///
    /// There is no such row.
    #[track_caller]
    pub fn edit_row(&self, name: &LeaseName, edit: impl FnOnce(&mut LeaseRow)) {
        let mut state = self.lock();
        let row = state.rows.as_mut().and_then(|rows| rows.get_mut(name));
        let Some(row) = row else {
            drop(state);
            panic!("no row {name:?} to edit: claim the name first");
        };
        edit(row);
        row.name = name.clone();
    }

    /// Removes a row behind the store's back, and returns it.
    pub fn remove_row(&self, name: &LeaseName) -> Option<LeaseRow> {
        self.lock().rows.as_mut()?.remove(name)
    }

    /// Where those who wait on this database hear of names given back: for hints that are false, or late, or too many.
    pub fn notifier(&self) -> &Notifier {
        &self.database.notifier
    }

    /// Drops the table and all its rows: every statement fails until [`migrate`](lease_core::LeaseStore::migrate)
    /// makes it again.
    pub fn drop_table(&self) {
        self.lock().rows = None;
    }

    /// Runs one statement: whole, alone, and with one reading of the clock.
    fn statement<T>(
        &self,
        statement: impl FnOnce(&mut Rows, DbTime) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut state = self.lock();
        let now = self.now_ms().saturating_add(state.stepped_ms);
        let rows = state.rows.as_mut().ok_or_else(no_table)?;
        statement(rows, DbTime::from_millis(now))
    }

    fn now_ms(&self) -> i64 {
        match &self.database.clock {
            Some(clock) => BASE_MS.saturating_add(millis(clock.now().since_zero())),
            None => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, millis),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // An edit of the test's may panic; what it left is still a table.
        self.database.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

fn no_table() -> StoreError {
    StoreError::new(ErrorKind::Schema, "the lease table is missing").without_effect()
}
