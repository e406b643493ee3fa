//! What there was in a history, counted.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_core::LeaseName;
use serde::Serialize;

use crate::history::{Answer, Ask, Event, Finish, Guard, History, LeaseId, Loss, Sample};

/// Counts and worst times of a history.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) entries: usize,
    /// Claims that were granted.
    pub(crate) claims: u64,
    /// Of these, of a name that the holder before had not given back.
    pub(crate) takeovers: u64,
    /// Leases that were lost otherwise than by giving them back.
    pub(crate) losses: u64,
    pub(crate) committed: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) unknown: u64,
    pub(crate) rounds: u64,
    pub(crate) reruns: u64,
    /// From the first look that found a lease lost to its work being told.
    pub(crate) told_ms: u64,
    /// The most that any incarnation grew by.
    pub(crate) rss_grown_kib: u64,
    pub(crate) fds_grown: u64,
    pub(crate) threads_grown: u64,
}

/// What a process uses while it starts is no growth.
const WARM_UP: Duration = Duration::from_secs(10);

impl Figures {
    pub(crate) fn of(history: &History) -> Self {
        let mut counts = Self { entries: history.entries().len(), ..Self::default() };
        let mut asked = BTreeMap::<(u32, u32, u64), LeaseName>::new();
        let mut given_back = BTreeMap::<LeaseName, i64>::new();
        let mut disbelieved = BTreeMap::<LeaseId, u64>::new();
        let mut samples = BTreeMap::<(u32, u32), Vec<(u64, &Sample)>>::new();
        for entry in history.entries() {
            let who = (entry.process, entry.incarnation);
            match &entry.event {
                Event::Asked { call, ask } => {
                    if let Some(name) = claimed(ask) {
                        asked.insert((who.0, who.1, *call), name.clone());
                    }
                }
                Event::Answered { call, answer: Answer::Granted { term, .. } } => {
                    counts.claims += 1;
                    if let Some(name) = asked.remove(&(who.0, who.1, *call)) {
                        let was_given_back = given_back.get(&name).is_some_and(|last| *last >= term - 1);
                        counts.takeovers += u64::from(*term > 1 && !was_given_back);
                    }
                }
                Event::GivenBack(lease) => {
                    let last = given_back.entry(lease.name.clone()).or_default();
                    *last = lease.term.max(*last);
                }
                Event::Disbelieved(lease) => {
                    disbelieved.entry(lease.clone()).or_insert(entry.at);
                }
                Event::Lost { lease, reason } => {
                    counts.losses += u64::from(*reason != Loss::Released);
                    let late = disbelieved.get(lease).map_or(0, |since| entry.at.saturating_sub(*since));
                    counts.told_ms = counts.told_ms.max(late / 1_000_000);
                }
                Event::Guard { step: Guard::Ended(finish), .. } => match finish {
                    Finish::Committed => counts.committed += 1,
                    Finish::Lost => counts.refused += 1,
                    Finish::Failed | Finish::Dropped => counts.failed += 1,
                    Finish::Unknown => counts.unknown += 1,
                },
                Event::RoundBegan { rerun, .. } => {
                    counts.rounds += 1;
                    counts.reruns += u64::from(*rerun);
                }
                // Process 0 has other histories in hand as well.
                Event::Sample(sample) if sample.of.is_empty() && entry.process != 0 => {
                    samples.entry(who).or_default().push((entry.at, sample));
                }
                _ => {}
            }
        }
        for samples in samples.values() {
            counts.grow(samples);
        }
        counts
    }

    fn grow(&mut self, samples: &[(u64, &Sample)]) {
        let Some((start, _)) = samples.first() else { return };
        let warm =
            samples.iter().filter(|(at, _)| at - start > WARM_UP.as_nanos().try_into().unwrap_or(u64::MAX));
        let warm: Vec<_> = warm.map(|(_, sample)| *sample).collect();
        let (Some(first), Some(last)) = (warm.first(), warm.last()) else { return };
        let grown =
            |of: fn(&Sample) -> Option<u64>| of(last).zip(of(first)).map_or(0, |(l, f)| l.saturating_sub(f));
        self.rss_grown_kib = self.rss_grown_kib.max(grown(|sample| sample.rss_bytes) / 1024);
        self.fds_grown = self.fds_grown.max(grown(|sample| sample.fds));
        self.threads_grown = self.threads_grown.max(grown(|sample| sample.threads));
    }
}

fn claimed(ask: &Ask) -> Option<&LeaseName> {
    match ask {
        Ask::Claim { token, .. }
        | Ask::ClaimObserved { token, .. }
        | Ask::ClaimSlot { token, .. }
        | Ask::ClaimRerun { token, .. } => Some(&token.name),
        _ => None,
    }
}
