//! The reference model passes the suite, bare and behind a fault store that has no faults to make.

mod common;

use std::sync::Arc;

use lease_testkit::FaultStore;

use common::OnMemory;

mod memory_store {
    use super::*;

    async fn memory() -> OnMemory {
        OnMemory::new(|memory, _| Arc::new(memory))
    }

    lease_testkit::suite!(memory);
}

mod fault_store_without_faults {
    use super::*;

    async fn fault_store() -> OnMemory {
        OnMemory::new(|memory, clock| Arc::new(FaultStore::new(memory, clock.clone())))
    }

    lease_testkit::suite!(fault_store);
}
