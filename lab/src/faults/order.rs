//! What a worker is told.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::place::Place;

/// What a worker is told, as a word on its command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Where the leases and the ledger are, by way of the worker's own proxy.
    pub place: Place,
    /// The ttl of the leases, in milliseconds.
    pub ttl_ms: u64,
    /// What all that is random in it is made from.
    pub seed: u64,
    /// Its number in the history, from 1.
    pub process: u32,
    /// How often it had been started before.
    pub incarnation: u32,
    /// The folder of the history.
    pub folder: PathBuf,
}

impl Order {
    /// The ttl of the leases.
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// The word.
    ///
    /// # Panics
    ///
    /// If a path in it is no text.
    pub fn to_word(&self) -> String {
        serde_json::to_string(self).expect("paths that are texts")
    }

    /// The order in a word.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn from_word(word: &str) -> Result<Self, String> {
        serde_json::from_str(word).map_err(|error| format!("{word:?} is no order: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::backend::Backend;
    use super::*;

    #[test]
    fn an_order_is_read_back_as_it_was_given() {
        let place = Place { backend: Backend::Sqlite, at: "/a \"folder\"/leases.db".to_owned() };
        let folder = "/a folder".into();
        let order = Order { place, ttl_ms: 1_500, seed: u64::MAX, process: 3, incarnation: 7, folder };
        assert_eq!(Order::from_word(&order.to_word()), Ok(order));
        assert!(Order::from_word("{}").is_err());
    }
}
