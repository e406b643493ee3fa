//! What became of the instants, in numbers.

use std::collections::BTreeSet;
use std::fmt;

use lease_core::store::SlotRow;

use super::super::log::{Entry, Event};
use super::history::{History, Told};
use super::stalls::is_left;

/// What became of the instants, in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Their first round ran to its end, and no other.
    pub ended: u32,
    /// Their second round ran to its end, and no other.
    pub ended_by_rerun: u32,
    /// Both did: the end of the first could not be recorded.
    pub ended_twice: u32,
    /// They were claimed, and none of their rounds ran to its end.
    pub given_up: u32,
    /// They were skipped by a round that had overrun them.
    pub skipped: u32,
    /// First rounds begun.
    pub first_rounds: u32,
    /// Second rounds begun.
    pub reruns: u32,
    /// Claims granted of which nobody knew: the answer was lost with its worker, or on the way.
    pub unclaimed: u32,
    /// Rounds lost, cut short or not recorded though their worker lived on: something stood still.
    pub left: u32,
    /// Rounds that ran to their end when a ttl was over since their claim.
    pub renewed: u32,
    /// Workers killed.
    pub kills: u32,
    /// Workers killed in the middle: a round of theirs had begun and nothing was known of its end.
    pub kills_mid_round: u32,
    /// Workers that died by themselves.
    pub deaths: u32,
}

impl Account {
    /// The part of it that needs no plan.
    pub(crate) fn of_the_log(log: &[Entry]) -> Self {
        let mut account = Self::default();
        for (at, entry) in log.iter().enumerate() {
            match &entry.event {
                Event::Begin { rerun: false, .. } => account.first_rounds += 1,
                Event::Begin { rerun: true, .. } => account.reruns += 1,
                Event::Killed => {
                    account.kills += 1;
                    account.kills_mid_round += u32::from(in_the_middle(&log[..at]).contains(&entry.worker));
                }
                Event::Died => account.deaths += 1,
                _ => {}
            }
        }
        account
    }

    pub(super) fn add(&mut self, history: &History<'_>, row: Option<&SlotRow>) {
        let known = i64::try_from(history.rounds.len()).unwrap_or(i64::MAX);
        let unclaimed = row.map_or(0, |row| row.term.get()).saturating_sub(known);
        self.unclaimed = self.unclaimed.saturating_add(u32::try_from(unclaimed).unwrap_or(0));
        let count = |is_so: &dyn Fn(&Told<'_>) -> bool| {
            u32::try_from(history.rounds.values().filter(|round| is_so(round)).count()).unwrap_or(u32::MAX)
        };
        self.left += count(&is_left);
        self.renewed += count(&|round| {
            let (Some(begin), Some(end)) = (round.begin, round.end) else { return false };
            end.at - begin.asked > history.ttl_ms
        });
        for at in 0..history.slots.len() {
            let begun: Vec<&Told<'_>> =
                history.rounds.values().filter(|round| round.at == at && round.begin.is_some()).collect();
            let ended: Vec<&Told<'_>> = begun.iter().copied().filter(|round| round.end.is_some()).collect();
            let skips = |round: &Told<'_>| round.at < at && round.skip.is_some_and(|to| to >= at);
            let kind = match ended[..] {
                [] if begun.is_empty() && history.rounds.values().any(skips) => &mut self.skipped,
                [] => &mut self.given_up,
                [one] if one.begin.is_some_and(|begin| begin.rerun) => &mut self.ended_by_rerun,
                [_] => &mut self.ended,
                _ => &mut self.ended_twice,
            };
            *kind += 1;
        }
    }

    /// How many instants there are.
    pub fn instants(&self) -> u32 {
        self.ended + self.ended_by_rerun + self.ended_twice + self.given_up + self.skipped
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ended, ended_by_rerun, ended_twice, given_up, skipped, .. } = self;
        let Self { first_rounds, reruns, unclaimed, left, renewed, kills, kills_mid_round, deaths, .. } =
            self;
        let instants = self.instants();
        write!(
            f,
            "{instants} instants: {ended} ran to their end, {ended_by_rerun} by their rerun, {ended_twice} twice, \
             {given_up} given up, {skipped} skipped; {first_rounds} first rounds and {reruns} reruns begun, \
             {renewed} longer than a ttl, {left} left by workers that lived on, \
             {unclaimed} claims without anybody's knowing; \
             {kills} kills, {kills_mid_round} of them in the middle of a round, {deaths} deaths"
        )
    }
}

/// The workers that have begun a round of whose end they have said nothing, alive or dead.
pub(crate) fn in_the_middle(log: &[Entry]) -> BTreeSet<u32> {
    let mut open = BTreeSet::new();
    for entry in log {
        match &entry.event {
            Event::Begin { round, .. } => drop(open.insert((entry.worker, &round.name, round.term))),
            Event::Ended(round, _) => drop(open.remove(&(entry.worker, &round.name, round.term))),
            _ => {}
        }
    }
    open.into_iter().map(|(worker, ..)| worker).collect()
}
