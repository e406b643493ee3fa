//! The rules of instants, held against a ledger of them.

use std::collections::BTreeMap;

use lease_core::Holder;
use lease_core::store::Superseded;

use super::world::State;

/// The schedule: every multiple of a period on the database's clock.
pub(super) struct Rounds {
    pub(super) period_ms: i64,
    instants: BTreeMap<i64, Instant>,
    /// How the work of a claim ended: whether it was cut short.
    works: BTreeMap<Holder, bool>,
    last: i64,
    unfinished: Option<i64>,
}

/// What became of an instant.
#[derive(Debug, Default)]
struct Instant {
    claims: u32,
    reruns: u32,
    begun: u32,
    /// The claims that have recorded its end.
    recorded: Vec<Holder>,
    said_finished: bool,
    /// Nobody ran it, and somebody knows.
    passed_over: bool,
}

/// What a client was told of the end of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Finished,
    CutShort,
}

impl Rounds {
    pub(super) fn new(period_ms: i64) -> Self {
        Self { period_ms, instants: BTreeMap::new(), works: BTreeMap::new(), last: 0, unfinished: None }
    }

    fn at(&mut self, slot: i64) -> &mut Instant {
        self.instants.entry(slot).or_default()
    }

    fn pass_over(&mut self, after: i64, before: i64) {
        let mut slot = after + self.period_ms;
        while after > 0 && slot < before {
            self.at(slot).passed_over = true;
            slot += self.period_ms;
        }
    }
}

impl State {
    /// The database has granted an instant.
    pub(super) fn slot_granted(&mut self, slot: i64, superseded: Option<Superseded>) {
        self.count("rounds");
        let rounds = &mut self.judge.rounds;
        let (last, unfinished) = (rounds.last, rounds.unfinished.filter(|slot| *slot == rounds.last));
        rounds.at(slot).claims += 1;
        rounds.last = slot;
        rounds.unfinished = Some(slot);
        if slot <= last {
            self.violate("instants are claimed once and in order", &format!("{slot} after {last}"));
        }
        if slot > self.database.now_ms() {
            self.violate("no instant is claimed before it has come", &slot.to_string());
        }
        if superseded.map(|given_up| given_up.slot.as_millis()) != unfinished {
            self.violate("the instant given up is named", &format!("{superseded:?}, not {unfinished:?}"));
        }
    }

    /// The database has granted a rerun.
    pub(super) fn rerun_granted(&mut self, slot: i64) {
        self.count("reruns");
        let rounds = &mut self.judge.rounds;
        let (last, unfinished) = (rounds.last, rounds.unfinished);
        let instant = rounds.at(slot);
        instant.reruns += 1;
        let (again, recorded) = (instant.reruns > 1, !instant.recorded.is_empty());
        if again || recorded || slot != last || unfinished != Some(slot) {
            self.violate("a round cut short is run again, once", &slot.to_string());
        }
    }

    /// The database has recorded the end of a round.
    pub(super) fn end_recorded(&mut self, slot: i64, by: Holder, passed: Option<i64>) {
        let now = self.database.now_ms();
        let rounds = &mut self.judge.rounds;
        rounds.at(slot).recorded.push(by);
        if rounds.unfinished == Some(slot) {
            rounds.unfinished = None;
        }
        if let Some(passed) = passed.filter(|passed| *passed <= now && *passed > rounds.last) {
            let last = rounds.last;
            rounds.pass_over(last, passed + rounds.period_ms);
            rounds.last = passed;
        }
    }

    /// A client is about to claim `slot`, and knows that those after `last` will not be run.
    pub(super) fn pass_over(&mut self, last: i64, slot: i64) {
        self.judge.rounds.pass_over(last, slot);
    }

    /// The work of a round begins.
    pub(super) fn round_begins(&mut self, slot: i64, rerun: bool) {
        let instant = self.judge.rounds.at(slot);
        instant.begun += 1;
        let (begun, claims, finished) = (instant.begun, instant.claims, instant.said_finished);
        if begun > 1 + u32::from(rerun) || claims == 0 {
            self.violate("a round runs at most twice", &slot.to_string());
        }
        if finished {
            self.violate("a round whose end is on record is not run again", &slot.to_string());
        }
    }

    /// The work of a round has returned: cut short, or at its end.
    pub(super) fn round_returned(&mut self, by: Holder, cut_short: bool) {
        self.judge.rounds.works.insert(by, cut_short);
    }

    /// A client was told what is on record of its round.
    pub(super) fn round_said(&mut self, slot: i64, by: Holder, said: Said) {
        let instant = self.judge.rounds.at(slot);
        let recorded = instant.recorded.contains(&by);
        let cut_short = self.judge.rounds.works.get(&by).copied();
        match said {
            Said::Finished => {
                self.judge.rounds.at(slot).said_finished = true;
                self.count("rounds finished");
                if cut_short == Some(true) {
                    self.violate("a round cut short is not finished", &slot.to_string());
                }
                if !recorded {
                    self.violate("what is said to be on record is", &slot.to_string());
                }
            }
            Said::CutShort => {
                self.count("rounds cut short");
                if cut_short == Some(false) {
                    self.violate("a round that ran to its end is finished", &slot.to_string());
                }
                if recorded {
                    self.violate("a round on record is not said to be cut short", &slot.to_string());
                }
            }
        }
    }

    /// Every instant since the first is finished, cut short, or passed over by somebody who knew.
    pub(super) fn account_for_instants(&mut self) {
        let rounds = &self.judge.rounds;
        let Some((&first, _)) = rounds.instants.iter().find(|(_, instant)| instant.claims > 0) else {
            return;
        };
        let mut lost = Vec::new();
        let mut slot = first;
        while slot <= rounds.last {
            let known = rounds.instants.get(&slot);
            if !known.is_some_and(|instant| instant.claims > 0 || instant.passed_over) {
                lost.push(slot);
            }
            slot += rounds.period_ms;
        }
        if !lost.is_empty() {
            self.violate("every instant is accounted for", &format!("{lost:?}"));
        }
    }
}
