//! Who keeps whom out while a transaction is open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lease_core::{ErrorKind, LeaseName};
use lease_testkit::{Call, Fault, Op};

use super::{Broken, lock};

/// What a transaction that is open does to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Nothing: the lease is looked at with the commit, as on MySQL.
    AtCommit,
    /// It keeps out claims of its name, as on PostgreSQL.
    FromBegin,
    /// It keeps out all that write, as on SQLite.
    OneWriter,
}

/// The transactions that are open, by name.
#[derive(Clone)]
pub(crate) struct Locks {
    pub(crate) shape: Shape,
    open: Arc<Mutex<BTreeMap<LeaseName, usize>>>,
    broken: Option<Broken>,
}

impl Locks {
    pub(crate) fn new(shape: Shape, broken: Option<Broken>) -> Self {
        Self { shape, open: Arc::default(), broken }
    }

    /// Says whether a transaction may begin, and counts it if so.
    pub(crate) fn take(&self, name: &LeaseName) -> bool {
        let mut open = lock(&self.open);
        let may_begin = self.shape != Shape::OneWriter || open.is_empty();
        if may_begin {
            *open.entry(name.clone()).or_default() += 1;
        }
        may_begin
    }

    pub(crate) fn give(&self, name: &LeaseName) {
        let mut open = lock(&self.open);
        if let Some(count) = open.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                open.remove(name);
            }
        }
    }

    /// Whether a claim is answered that it is kept out.
    pub(crate) fn refuse(&self, name: &LeaseName) -> bool {
        let answers = !matches!(self.broken, Some(Broken::SuccessorHangs | Broken::SuccessorTimesOut));
        self.shape == Shape::FromBegin && answers && lock(&self.open).contains_key(name)
    }

    /// What befalls a statement of the store's.
    pub(crate) fn fault(&self, call: &Call) -> Option<Fault> {
        let open = lock(&self.open);
        let here = call.name.as_ref().is_some_and(|name| open.contains_key(name));
        let claims = matches!(call.op, Op::Claim | Op::ClaimObserved);
        let kept_out = match self.shape {
            Shape::AtCommit => false,
            Shape::FromBegin => here && claims,
            Shape::OneWriter => !open.is_empty() && call.op != Op::Inspect,
        };
        match self.broken {
            Some(Broken::SuccessorHangs) if kept_out => Some(Fault::HangBefore),
            Some(Broken::SuccessorTimesOut) if kept_out => Some(Fault::FailBefore(ErrorKind::Timeout)),
            Some(Broken::RenewalsBlocked) if here && call.op == Op::Renew => {
                Some(Fault::FailBefore(ErrorKind::Busy))
            }
            _ => kept_out.then_some(Fault::FailBefore(ErrorKind::Busy)),
        }
    }
}
