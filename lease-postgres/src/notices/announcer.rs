//! Releases are announced one statement at a time, each with all the names that have come meanwhile.

use std::future::Future;
use std::mem;
use std::sync::{Mutex, PoisonError};

use lease_core::LeaseName;
use lease_core::store::StoreError;

use crate::options::Table;

/// A commit that notifies keeps every other one waiting, of the whole server. So a store has one under way at most.
pub(crate) struct Announcer {
    /// What the announcements of its table begin with.
    begin: String,
    waiting: Mutex<Vec<String>>,
    turn: tokio::sync::Mutex<()>,
}

impl Announcer {
    pub(crate) fn new(table: &Table) -> Self {
        Self { begin: table.announced(), waiting: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Goes out with the next [`send`](Self::send), whoever calls it.
    pub(crate) fn add(&self, name: &LeaseName) {
        let announcement = format!("{}{name}", self.begin);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(announcement);
    }

    /// Sends what has been added, unless another call has done so. Only the call that sends hears of a failure; what it
    /// had taken is not sent again.
    pub(crate) async fn send<F>(&self, tell: impl FnOnce(Vec<String>) -> F) -> Result<(), StoreError>
    where
        F: Future<Output = Result<(), StoreError>>,
    {
        let _turn = self.turn.lock().await;
        let waiting = mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        if waiting.is_empty() { Ok(()) } else { tell(waiting).await }
    }
}
