//! lease-core

mod clock;
mod error;
mod instance;
mod name;
mod row;
mod slot;
mod statement;
mod store;
mod timing;

pub use clock::{Alarm, AlarmBook, Clock, Moment, Ring, Sleep, sleep_until};
pub use error::{Effect, Error, ErrorKind, StoreError};
pub use instance::{IDENTITY_MAX_BYTES, IdentityText, Instance};
pub use name::{Holder, HolderHex, InvalidHolder, InvalidName, LeaseName, NAME_MAX_BYTES, Term};
pub use row::{DbTime, Inspection, LeaseRow, Listing, Observed};
pub use slot::{InvalidSlot, Slot};
pub use statement::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, FinishAnswer, Holding, Page, ReleaseAnswer,
    RenewAnswer, Renewed, ResignAnswer, SlotAnswer, SlotEnd, Superseded, UnfinishedSlot, VerifyAnswer,
};
pub use store::LeaseStore;
pub use timing::{InvalidTimings, TTL_MAX, TimingParts, Timings, millis};
