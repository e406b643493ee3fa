//! What happened, in order: hashed whole, the end of it kept to be shown.

use std::collections::VecDeque;
use std::fmt;

use super::time::Nanos;

/// How much of the end is kept.
const KEPT: usize = 160;

/// One thing that happened.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    at: Nanos,
    /// Which client's; `None` is the database or the world.
    node: Option<usize>,
    what: &'static str,
    /// The lease, `-` for none.
    name: &'static str,
    number: i64,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, node, what, name, number } = self;
        let (seconds, micros) = (at / 1_000_000_000, at % 1_000_000_000 / 1_000);
        let node = node.map_or_else(|| "-".to_owned(), |node| format!("client {node}"));
        write!(f, "{seconds:>8}.{micros:06}  {node:<9} {name:<7} {what:<28} {number}")
    }
}

/// FNV-1a, which needs no key.
#[derive(Debug)]
pub(super) struct Journal {
    hash: u64,
    entries: u64,
    last: VecDeque<Entry>,
}

impl Default for Journal {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, entries: 0, last: VecDeque::with_capacity(KEPT) }
    }
}

impl Journal {
    pub(super) fn note(
        &mut self,
        at: Nanos,
        node: Option<usize>,
        what: &'static str,
        name: &'static str,
        number: i64,
    ) {
        self.take(&at.to_le_bytes());
        self.take(&[node.map_or(u8::MAX, |node| u8::try_from(node).unwrap_or(u8::MAX))]);
        self.take(what.as_bytes());
        self.take(name.as_bytes());
        self.take(&number.to_le_bytes());
        self.entries += 1;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(Entry { at, node, what, name, number });
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    pub(super) fn last(&self) -> Vec<String> {
        self.last.iter().map(Entry::to_string).collect()
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
