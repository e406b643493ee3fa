#![doc = include_str!("../README.md")]

mod attempt;
mod claim;
mod client;
pub mod clock;
mod driver;
mod elect;
mod error;
mod instance;
mod lease;
mod leases;
mod name;
mod panicked;
pub mod renewal;
mod row;
mod run;
mod slot;
mod state;
mod statement;
pub mod store;
mod tenure;
mod timing;
mod watchdog;

pub use clock::{Clock, Moment};
pub use error::{Error, ErrorKind};
pub use instance::Instance;
pub use lease::{Lease, ManualLease};
pub use leases::{Claimed, Leases, LeasesBuilder, ManualClaimed, Ran, Refusal};
pub use name::{Holder, InvalidName, LeaseName, Term};
pub use run::RunError;
pub use slot::{InvalidSlot, Slot};
pub use state::{LossReason, Stuck};
pub use store::LeaseStore;
pub use tenure::Tenure;
pub use timing::{InvalidTimings, TTL_MAX, TimingParts, Timings};
pub use watchdog::SystemClock;
