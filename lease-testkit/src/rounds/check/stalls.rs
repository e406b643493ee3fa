//! Rounds that were lost, cut short or not recorded though their worker lived on: something must have stood still.

use super::super::log::{End, Entry, Event};
use super::history::{History, Told};
use super::{Rule, Violation};

/// A worker gone so soon after a line may not have come to say what stood still.
const SOON_MS: i64 = 1_000;

pub(super) fn check(history: &History<'_>, log: &[Entry]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for round in history.rounds.values().filter(|round| is_left(round)) {
        let Some((ended, _)) = round.ended else { continue };
        let begun = round.begin.map_or(ended.at - history.ttl_ms, |begin| begin.asked);
        // Renewals and the recording of an end are tried several times within a ttl.
        let stood = |entry: &Entry| match entry.event {
            Event::Stood { ms } => {
                entry.worker == ended.worker
                    && ms >= history.ttl_ms / 4
                    && entry.at >= begun
                    && entry.at - ms <= ended.at
            }
            _ => false,
        };
        if !log.iter().any(stood) {
            let what = "its worker lived on, and nothing stood still meanwhile".to_owned();
            violations.push(Violation::new(Rule::Unexcused, what, round.lines()));
        }
    }
    violations
}

/// Ended otherwise than finished, by a worker that lived on.
pub(super) fn is_left(round: &Told<'_>) -> bool {
    let lived = |at| round.gone.is_none_or(|gone| gone > at + SOON_MS);
    round.ended.is_some_and(|(entry, end)| end != End::Finished && lived(entry.at))
}
