//! Releases are announced one statement at a time, each with all the names that have come meanwhile.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lease_core::LeaseName;
use lease_core::store::StoreError;

use crate::options::Table;

/// A commit that notifies keeps every other one waiting, of the whole server. So a store has one under way at most.
pub(crate) struct Announcer {
    /// What the announcements of its table begin with.
    begin: String,
    waiting: Mutex<Waiting>,
    turn: tokio::sync::Mutex<()>,
}

/// What is not known to have been told, by the order in which it came.
#[derive(Default)]
struct Waiting {
    announcements: BTreeMap<u64, String>,
    next: u64,
}

/// A name to be announced, for as long as somebody wants it to be.
pub(crate) struct Announcement {
    announcer: Arc<Announcer>,
    number: u64,
}

impl Announcer {
    pub(crate) fn new(table: &Table) -> Self {
        Self { begin: table.announced(), waiting: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Goes out with the next that is [sent](Announcement::send), whoever sends it.
    pub(crate) fn add(self: &Arc<Self>, name: &LeaseName) -> Announcement {
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.announcements.insert(number, format!("{}{name}", self.begin));
        Announcement { announcer: Arc::clone(self), number }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Announcement {
    /// Sends all that wait, unless another has sent this one meanwhile. After a failure, or when this is dropped, the others still
    /// wait: the next in line sends them, within a time of its own.
    pub(crate) async fn send<F>(self, tell: impl FnOnce(Vec<String>) -> F) -> Result<(), StoreError>
    where
        F: Future<Output = Result<(), StoreError>>,
    {
        let _turn = self.announcer.turn.lock().await;
        let (all, next) = {
            let waiting = self.announcer.waiting();
            if !waiting.announcements.contains_key(&self.number) {
                return Ok(());
            }
            (waiting.announcements.values().cloned().collect(), waiting.next)
        };
        tell(all).await?;
        self.announcer.waiting().announcements.retain(|number, _| *number >= next);
        Ok(())
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        self.announcer.waiting().announcements.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures_util::FutureExt;
    use lease_core::ErrorKind;

    use super::*;
    use crate::options::PostgresOptions;

    fn table() -> Table {
        PostgresOptions::default().table
    }

    fn failed() -> StoreError {
        StoreError::new(ErrorKind::Unavailable, "on purpose")
    }

    /// Each of the first takes the others' names along, and fails.
    #[tokio::test]
    async fn names_that_somebody_could_not_tell_are_told_by_the_next_in_line() {
        let announcer = Arc::new(Announcer::new(&table()));
        let mut all = ["fails", "is dropped", "panics", "tells", "is told"]
            .map(|name| announcer.add(&LeaseName::new(name).unwrap()))
            .into_iter();
        let mut next = || all.next().unwrap();
        assert!(next().send(async |_| Err(failed())).await.is_err());
        assert!(next().send(|_| std::future::pending()).now_or_never().is_none());
        let panics = next().send(async |_| panic!("on purpose"));
        assert!(AssertUnwindSafe(panics).catch_unwind().await.is_err());
        let mut told = Vec::new();
        let tells = next().send(async |names| {
            told = names;
            Ok(())
        });
        tells.await.unwrap();
        let begin = table().announced();
        assert_eq!(told, ["tells", "is told"].map(|name| format!("{begin}{name}")));
        next().send(async |names| panic!("told twice: {names:?}")).await.unwrap();
    }

    #[tokio::test]
    async fn what_comes_while_others_are_told_is_told_next() {
        let announcer = Arc::new(Announcer::new(&table()));
        let add = |name| announcer.add(&LeaseName::new(name).unwrap());
        let mut late = None;
        let first = add("first").send(async |_| {
            late = Some(add("late"));
            Ok(())
        });
        first.await.unwrap();
        let mut told = Vec::new();
        let second = late.unwrap().send(async |names| {
            told = names;
            Ok(())
        });
        second.await.unwrap();
        assert_eq!(told, [format!("{}late", table().announced())]);
    }
}
