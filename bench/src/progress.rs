//! What the benchmark is at, on standard error.

use std::cell::Cell;
use std::time::{Duration, Instant};

pub(crate) struct Progress {
    title: String,
    begun: Instant,
    said: Cell<Instant>,
}

/// How often at most it says how far it is.
const EVERY: Duration = Duration::from_secs(5);

impl Progress {
    pub(crate) fn new(title: &str) -> Self {
        let progress = Self { title: title.to_owned(), begun: Instant::now(), said: Instant::now().into() };
        progress.say("begins");
        progress
    }

    /// One more of these is done.
    pub(crate) fn step(&self, what: &str, done: usize, of: usize) {
        if self.said.get().elapsed() >= EVERY || done == of {
            self.say(&format!("{what} {done} of {of}"));
        }
    }

    fn say(&self, what: &str) {
        self.said.set(Instant::now());
        eprintln!("bench: [{:>4} s] {}: {what}", self.begun.elapsed().as_secs(), self.title);
    }
}
