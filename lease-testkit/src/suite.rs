//! The conformance suite: the contract of [`LeaseStore`] as cases that a store passes or fails.
//!
//! Bodies are ordinary functions, a module for each part of the contract; `table.rs` lists them.

pub(crate) mod context;
pub(crate) mod process;
mod same;
mod start;
mod statement;
mod table;

mod claim;
mod clear;
mod dropped;
mod finish;
mod inspect;
mod last_slot;
mod list;
mod migrate;
mod model;
mod names;
mod notices;
mod observed;
mod pairs;
mod race;
mod release;
mod renew;
mod renew_many;
mod rerun;
mod resign;
mod slot;
mod slot_race;
mod unfinished;
mod verify;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::{LeaseName, LeaseStore};

use context::Context;

/// What a backend gives the suite: a migrated store, and what the store itself cannot do.
///
/// Each case has a subject of its own, but cases use names of their own, so all subjects may share
/// one table, and one database with other runs of the suite.
#[async_trait]
pub trait Subject: Send + Sync + 'static {
    /// The store under test, on a table that has been migrated. The same one at every call.
    fn store(&self) -> Arc<dyn LeaseStore>;

    /// A store on the same table, as a second process has it: with connections of its own.
    async fn another(&self) -> Arc<dyn LeaseStore>;

    /// Two stores, as of two processes, on one database that has no lease table yet: another table
    /// name, schema or file. It is made at this call, so that no two calls share it, and only the
    /// case uses it.
    async fn without_table(&self) -> [Arc<dyn LeaseStore>; 2];

    /// Lets about this much time pass on the database's clock: a real database's by sleeping, a
    /// model's by moving it. The suite asks the database and calls again if it was too little.
    async fn pass(&self, time: Duration);

    /// Changes a row behind the store's back, by a statement of the database's own.
    async fn damage(&self, name: &LeaseName, damage: Damage);
}

/// What befalls a row that the protocol never does to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// `DELETE` of the row.
    RowDeleted,
    /// The term becomes `i64::MAX`; every other column stays.
    TermAtLimit,
}

/// One case of the suite, for runners of one's own.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    body: for<'cx> fn(&'cx Context) -> Running<'cx>,
}

pub(crate) type Running<'cx> = Pin<Box<dyn Future<Output = ()> + Send + 'cx>>;

/// A case still without an answer then has failed: no case waits for more than twice the least ttl
/// and a few thousand statements.
const LIMIT: Duration = Duration::from_secs(300);

impl Case {
    /// `part::what_the_store_does`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the case. It must run on a tokio runtime, of several threads if races are to be races.
    ///
    /// # Panics
    ///
    /// The store breaks its contract, or hangs for five minutes.
    pub async fn run(&self, subject: impl Subject) {
        let cx = Context::new(Arc::new(subject));
        let note = Note {
            case: self.name,
            store: cx.store.describe(),
            broken: "the contract of lease_core::LeaseStore",
            bodies: "lease-testkit/src/suite",
        };
        note.run((self.body)(&cx)).await;
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Says, when a case panics, what that means.
pub(crate) struct Note {
    pub(crate) case: &'static str,
    pub(crate) store: String,
    pub(crate) broken: &'static str,
    /// Where the bodies of the cases are.
    pub(crate) bodies: &'static str,
}

impl Note {
    pub(crate) async fn run(self, body: Running<'_>) {
        let ended = tokio::time::timeout(LIMIT, body).await.is_ok();
        assert!(ended, "no end after {LIMIT:?}: the store hangs");
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let Self { case, store, broken, bodies } = self;
        if thread::panicking() {
            eprintln!(
                "\nThe store ({store}) breaks {broken}.\n\
                 Case {case}; the panic above names the line of its body, in {bodies}.\n"
            );
        }
    }
}

/// All cases, in the order of the contract.
pub fn cases() -> &'static [Case] {
    CASES
}

/// Runs the case of this name on the subject that `setup` makes.
///
/// # Panics
///
/// No case has this name, or the store breaks its contract.
pub async fn run_case<S, F>(name: &str, setup: impl FnOnce() -> F)
where
    S: Subject,
    F: Future<Output = S>,
{
    let Some(case) = cases().iter().find(|case| case.name == name) else {
        panic!("the suite has no case {name:?}; lease_testkit::cases() lists them");
    };
    case.run(setup().await).await;
}

macro_rules! list {
    ($($part:ident { $($case:ident)* })*) => {
        &[$($(Case {
            name: concat!(stringify!($part), "::", stringify!($case)),
            body: |cx| Box::pin($part::$case(cx)),
        }),*),*]
    };
}

static CASES: &[Case] = crate::__for_all_cases! { (list) };
