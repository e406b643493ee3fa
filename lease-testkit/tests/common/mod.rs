//! The subject of the suite that stands on a memory store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::{LeaseName, LeaseStore, Term};
use lease_testkit::{Damage, ManualClock, MemoryStore, Subject};

/// A memory store on a clock moved by hand, seen through a wrapper.
pub(crate) struct OnMemory {
    clock: Arc<ManualClock>,
    memory: MemoryStore,
    wrap: Wrap,
    store: Arc<dyn LeaseStore>,
}

/// Makes the store under test from the memory store behind it.
type Wrap = Box<dyn Fn(MemoryStore, &Arc<ManualClock>) -> Arc<dyn LeaseStore> + Send + Sync>;

impl OnMemory {
    pub(crate) fn new(
        wrap: impl Fn(MemoryStore, &Arc<ManualClock>) -> Arc<dyn LeaseStore> + Send + Sync + 'static,
    ) -> Self {
        let clock = ManualClock::new();
        let memory = MemoryStore::with_clock(clock.clone());
        let store = wrap(memory.clone(), &clock);
        Self { clock, memory, wrap: Box::new(wrap), store }
    }
}

#[async_trait]
impl Subject for OnMemory {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.store)
    }

    async fn another(&self) -> Arc<dyn LeaseStore> {
        (self.wrap)(self.memory.clone(), &self.clock)
    }

    async fn without_table(&self) -> [Arc<dyn LeaseStore>; 2] {
        let memory = MemoryStore::with_clock(self.clock.clone());
        memory.drop_table();
        [(); 2].map(|()| (self.wrap)(memory.clone(), &self.clock))
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    async fn damage(&self, name: &LeaseName, damage: Damage) {
        match damage {
            Damage::RowDeleted => {
                let row = self.memory.remove_row(name);
                assert!(row.is_some(), "no row {name:?} to delete");
            }
            Damage::TermAtLimit => self.memory.edit_row(name, |row| {
                row.term = Term::new(i64::MAX).expect("a positive term");
            }),
        }
    }
}
