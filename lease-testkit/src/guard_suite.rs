//! The guard suite: the promise of guarded transactions as cases that a store's guard keeps or breaks.
//!
//! Bodies are ordinary functions, a module for each part of the promise; `table.rs` lists them.

mod context;
mod owner;
mod rival;
mod table;

mod begin;
mod commit;
mod fence;
mod lost_here;
mod renewing;
mod takeover;
mod together;
mod undone;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use lease_core::{GuardError, Tenure};

use crate::Subject;
use crate::suite::{Note, Running};
use context::GuardContext;

/// What a backend gives the guard suite beside what it gives the [`suite`](crate::suite!): guarded transactions, and
/// a table of the program's for them to write to.
#[async_trait]
pub trait GuardSubject: Subject {
    /// Begins a guarded transaction under `tenure`, on a session of its own, with the guard's defaults.
    ///
    /// # Errors
    ///
    /// The guard's, as it came.
    async fn begin(&self, tenure: &Tenure) -> Result<Box<dyn GuardedWork>, GuardError>;

    /// The notes committed so far that begin with `prefix`, as a session sees them that is in no transaction. In any
    /// order, each as often as it was written.
    async fn committed(&self, prefix: &str) -> Vec<String>;

    /// Whether a transaction that is open keeps all others from writing to the database, also the renewals of its
    /// own lease. Then each case needs a database of its own.
    fn one_writer(&self) -> bool {
        false
    }
}

/// A guarded transaction that is open. Dropped, it is as a dropped guard.
#[async_trait]
pub trait GuardedWork: Send {
    /// Writes a note: one insert of a text of at most 100 bytes, of ASCII letters, digits, spaces and `/`.
    ///
    /// # Errors
    ///
    /// The statement's, as [`GuardError::Failed`] if the guard has none.
    async fn write(&mut self, note: &str) -> Result<(), GuardError>;

    /// Commits. `Ok` says that all of it is committed.
    ///
    /// # Errors
    ///
    /// The guard's, as it came.
    async fn commit(self: Box<Self>) -> Result<(), GuardError>;

    /// Rolls back.
    ///
    /// # Errors
    ///
    /// The guard's, as it came.
    async fn roll_back(self: Box<Self>) -> Result<(), GuardError>;
}

/// One case of the guard suite, for runners of one's own.
#[derive(Clone, Copy)]
pub struct GuardCase {
    name: &'static str,
    body: for<'cx> fn(&'cx GuardContext) -> Running<'cx>,
}

impl GuardCase {
    /// `part::what_the_guard_does`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the case. It must run on a tokio runtime, of several threads if races are to be races.
    ///
    /// # Panics
    ///
    /// The guard breaks its promise, or hangs for five minutes.
    pub async fn run(&self, subject: impl GuardSubject) {
        let cx = GuardContext::new(Arc::new(subject)).await;
        let note = Note {
            case: self.name,
            store: cx.store.describe(),
            broken: "the promise of guarded transactions",
            bodies: "lease-testkit/src/guard_suite",
        };
        note.run((self.body)(&cx)).await;
    }
}

impl fmt::Debug for GuardCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardCase").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All cases of the guard suite.
pub fn guard_cases() -> &'static [GuardCase] {
    CASES
}

/// Runs the case of this name on the subject that `setup` makes.
///
/// # Panics
///
/// No case has this name, or the guard breaks its promise.
pub async fn run_guard_case<S, F>(name: &str, setup: impl FnOnce() -> F)
where
    S: GuardSubject,
    F: Future<Output = S>,
{
    let Some(case) = guard_cases().iter().find(|case| case.name == name) else {
        panic!("the guard suite has no case {name:?}; lease_testkit::guard_cases() lists them");
    };
    case.run(setup().await).await;
}

macro_rules! list {
    ($($part:ident { $($case:ident)* })*) => {
        &[$($(GuardCase {
            name: concat!(stringify!($part), "::", stringify!($case)),
            body: |cx| Box::pin($part::$case(cx)),
        }),*),*]
    };
}

static CASES: &[GuardCase] = crate::__for_all_guard_cases! { (list) };
