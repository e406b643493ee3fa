#![doc = include_str!("../README.md")]

mod clock;
mod fault;
mod memory;

pub use clock::ManualClock;
pub use fault::{Call, Fault, FaultStore, Op};
pub use memory::MemoryStore;
