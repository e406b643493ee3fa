//! Guarded transactions on a memory store, in the three shapes that engines have; and with one thing wrong.

mod broken;
mod locks;
mod refusing;
mod transaction;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{DbTime, Inspection, LeaseRow};
use lease_core::{GuardError, LeaseName, LeaseStore, Tenure};
use lease_testkit::{Damage, FaultStore, GuardSubject, GuardedWork, ManualClock, MemoryStore, Subject};

pub(crate) use broken::Broken;
use locks::Locks;
pub(crate) use locks::Shape;
use refusing::Refusing;
use transaction::Transaction;

/// A memory store with a guard, and a table of notes beside it.
pub(crate) struct Guarded {
    database: Arc<Database>,
}

pub(crate) struct Database {
    clock: Arc<ManualClock>,
    memory: MemoryStore,
    /// The memory store, behind the locks.
    store: FaultStore,
    locks: Locks,
    notes: Mutex<Vec<String>>,
    broken: Option<Broken>,
}

impl Guarded {
    pub(crate) fn new(shape: Shape, broken: Option<Broken>) -> Self {
        let clock = ManualClock::new();
        let memory = MemoryStore::with_clock(clock.clone());
        let locks = Locks::new(shape, broken);
        let store = FaultStore::new(memory.clone(), clock.clone());
        let plan = locks.clone();
        store.plan(move |call| plan.fault(call));
        Self { database: Arc::new(Database { clock, memory, store, locks, notes: Mutex::default(), broken }) }
    }
}

impl Database {
    fn open_store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(Refusing { store: self.store.clone(), locks: self.locks.clone() })
    }

    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// The row of a name, and the clock.
    async fn row(&self, name: &LeaseName) -> (DbTime, Option<LeaseRow>) {
        let Inspection { now, row } =
            self.memory.inspect(name, Duration::ZERO).await.expect("the table is there");
        (now, row)
    }

    fn apply(&self, notes: &[String]) {
        lock(&self.notes).extend_from_slice(notes);
    }
}

#[async_trait]
impl Subject for Guarded {
    fn store(&self) -> Arc<dyn LeaseStore> {
        self.database.open_store()
    }

    async fn another(&self) -> Arc<dyn LeaseStore> {
        self.database.open_store()
    }

    async fn without_table(&self) -> [Arc<dyn LeaseStore>; 2] {
        unreachable!("no case of the guard suite asks for it")
    }

    async fn pass(&self, time: Duration) {
        self.database.clock.advance(time);
    }

    async fn damage(&self, name: &LeaseName, damage: Damage) {
        assert_eq!(damage, Damage::RowDeleted);
        let row = self.database.memory.remove_row(name);
        assert!(row.is_some(), "no row {name:?} to delete");
    }
}

#[async_trait]
impl GuardSubject for Guarded {
    async fn begin(&self, tenure: &Tenure) -> Result<Box<dyn GuardedWork>, GuardError> {
        Ok(Box::new(Transaction::begin(&self.database, tenure).await?))
    }

    async fn committed(&self, prefix: &str) -> Vec<String> {
        let notes = lock(&self.database.notes);
        notes.iter().filter(|note| note.starts_with(prefix)).cloned().collect()
    }

    fn one_writer(&self) -> bool {
        self.database.locks.shape == Shape::OneWriter
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
