#![doc = include_str!("../README.md")]

mod claim;
mod client;
mod clock;
mod driver;
mod elect;
mod error;
mod instance;
mod lease;
mod leases;
mod name;
mod panicked;
mod renewal;
mod row;
mod run;
mod slot;
mod state;
mod statement;
mod store;
mod tenure;
mod timing;
mod watchdog;

pub use clock::{Alarm, AlarmBook, Clock, Moment, Ring, Sleep, sleep_until};
pub use error::{Effect, Error, ErrorKind, StoreError};
pub use instance::{IDENTITY_MAX_BYTES, IdentityText, Instance};
pub use lease::{Lease, ManualLease};
pub use leases::{Claimed, Leases, LeasesBuilder, ManualClaimed, Ran, Refusal};
pub use name::{Holder, HolderHex, InvalidHolder, InvalidName, LeaseName, NAME_MAX_BYTES, Term};
pub use renewal::{Loss, Next, Renewal};
pub use row::{DbTime, Inspection, LeaseRow, Listing, Observed};
pub use run::RunError;
pub use slot::{InvalidSlot, Slot};
pub use state::{LossReason, Stuck};
pub use statement::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, FinishAnswer, Holding, Page, ReleaseAnswer,
    RenewAnswer, Renewed, ResignAnswer, SlotAnswer, SlotEnd, Superseded, UnfinishedSlot, VerifyAnswer,
};
pub use store::LeaseStore;
pub use tenure::Tenure;
pub use timing::{InvalidTimings, TTL_MAX, TimingParts, Timings, millis};
pub use watchdog::SystemClock;
