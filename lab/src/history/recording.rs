//! A store that writes down what it is asked and what it answers.

mod statements;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use lease_core::LeaseStore;
use lease_core::store::StoreError;

use super::{Answer, Ask, Event, Writer};

/// A store whose every statement is in the history: asked before it is put to the store within, answered after.
#[derive(Clone)]
pub struct RecordingStore {
    store: Arc<dyn LeaseStore>,
    writer: Writer,
}

impl RecordingStore {
    /// Records what `store` is asked.
    pub fn new(store: Arc<dyn LeaseStore>, writer: Writer) -> Self {
        Self { store, writer }
    }

    async fn call<T>(
        &self,
        ask: Ask,
        statement: impl Future<Output = Result<T, StoreError>>,
        answer: impl FnOnce(&T) -> Answer,
    ) -> Result<T, StoreError> {
        let call = self.writer.number();
        self.writer.tell(Event::Asked { call, ask });
        let mut open = Open { writer: &self.writer, call, is_answered: false };
        let outcome = statement.await;
        open.is_answered = true;
        let answer = outcome.as_ref().map_or_else(Answer::from, answer);
        self.writer.tell(Event::Answered { call, answer });
        outcome
    }
}

impl fmt::Debug for RecordingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingStore").field("store", &self.store.describe()).finish_non_exhaustive()
    }
}

/// A statement whose answer has not come.
struct Open<'a> {
    writer: &'a Writer,
    call: u64,
    is_answered: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.writer.tell(Event::Dropped { call: self.call });
        }
    }
}
