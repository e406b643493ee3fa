//! What is said at the end: tables for people, and all of it as JSON.

use std::collections::BTreeMap;
use std::fmt;

use comfy_table::{Table, presets};
use serde::Serialize;

use super::figures::Figures;
use super::inject::Done;
use crate::check::Summary;

/// What became of a history.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Told {
    pub(crate) backend: &'static str,
    pub(crate) number: u32,
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    pub(crate) kinds: BTreeMap<&'static str, Count>,
    pub(crate) figures: Figures,
    /// What the checkers counted.
    pub(crate) summary: Summary,
    /// From the heal to the moment from which on every name had been held again.
    pub(crate) reheld_ms: u64,
    /// Workers that died by their failing hook.
    pub(crate) deaths: i64,
    pub(crate) violations: Vec<String>,
    /// Where it lies, if it was kept.
    pub(crate) kept: Option<String>,
    pub(crate) replay: String,
}

/// How often a kind was injected, and what was open then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    pub(crate) injected: u64,
    pub(crate) guard_open: u64,
    pub(crate) round_running: u64,
}

impl Count {
    pub(crate) fn all(done: &[Done]) -> BTreeMap<&'static str, Self> {
        let mut counts = BTreeMap::<_, Self>::new();
        for Done { kind, guard, round } in done {
            let count = counts.entry(kind.name()).or_default();
            count.injected += 1;
            count.guard_open += u64::from(*guard);
            count.round_running += u64::from(*round);
        }
        counts
    }

    fn add(&mut self, other: Self) {
        self.injected += other.injected;
        self.guard_open += other.guard_open;
        self.round_running += other.round_running;
    }
}

/// Of all histories together.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) histories: Vec<Told>,
    /// What the tier demands and was not reached.
    pub(crate) below_the_floor: Vec<String>,
    pub(crate) seconds: u64,
}

impl Report {
    pub(crate) fn is_good(&self) -> bool {
        self.below_the_floor.is_empty() && self.histories.iter().all(|told| told.violations.is_empty())
    }

    /// The counts of each engine.
    pub(crate) fn counts(histories: &[Told]) -> BTreeMap<&'static str, BTreeMap<&'static str, Count>> {
        let mut all = BTreeMap::<_, BTreeMap<_, Count>>::new();
        for told in histories {
            for (kind, count) in &told.kinds {
                all.entry(told.backend).or_default().entry(*kind).or_default().add(*count);
            }
        }
        all
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds = table(&["engine", "fault", "injected", "with an open guard", "with a running round"]);
        for (backend, counts) in Self::counts(&self.histories) {
            for (kind, Count { injected, guard_open, round_running }) in counts {
                kinds.add_row([
                    backend.to_owned(),
                    kind.to_owned(),
                    injected.to_string(),
                    guard_open.to_string(),
                    round_running.to_string(),
                ]);
            }
        }
        writeln!(f, "{kinds}\n")?;
        let mut histories = table(&[
            "engine",
            "history",
            "seed",
            "s",
            "faults",
            "claims",
            "takeovers",
            "losses",
            "committed",
            "refused",
            "failed",
            "unknown",
            "rounds",
            "reruns",
            "told ms",
            "held again ms",
            "died",
            "+KiB",
            "+fds",
            "violations",
        ]);
        for told in &self.histories {
            let faults: u64 = told.kinds.values().map(|count| count.injected).sum();
            let Figures { claims, takeovers, losses, committed, refused, failed, unknown, .. } = told.figures;
            let Figures { rounds, reruns, told_ms, rss_grown_kib, fds_grown, .. } = told.figures;
            let violations = told.violations.len();
            let row = [
                told.backend.to_owned(),
                told.number.to_string(),
                told.seed.to_string(),
                told.seconds.to_string(),
                faults.to_string(),
                claims.to_string(),
                takeovers.to_string(),
                losses.to_string(),
                committed.to_string(),
                refused.to_string(),
                failed.to_string(),
                unknown.to_string(),
                rounds.to_string(),
                reruns.to_string(),
                told_ms.to_string(),
                told.reheld_ms.to_string(),
                told.deaths.to_string(),
                rss_grown_kib.to_string(),
                fds_grown.to_string(),
                violations.to_string(),
            ];
            histories.add_row(row);
        }
        writeln!(f, "{histories}\n")?;
        for told in self.histories.iter().filter(|told| !told.violations.is_empty()) {
            writeln!(f, "{} history {}:", told.backend, told.number)?;
            for violation in told.violations.iter().take(20) {
                writeln!(f, "{violation}")?;
            }
            if let Some(kept) = &told.kept {
                writeln!(f, "  the whole history: {kept}")?;
            }
            writeln!(f, "  again: {}\n", told.replay)?;
        }
        for below in &self.below_the_floor {
            writeln!(f, "below the floor: {below}")?;
        }
        let verdict = if self.is_good() { "good" } else { "NOT good" };
        writeln!(f, "{} histories in {} s: {verdict}", self.histories.len(), self.seconds)
    }
}

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty().set_header(head);
    table
}
