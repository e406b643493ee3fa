//! The rules of claims: the states that a row can be in, from claim to claim.
//!
//! Mostly there is one. There are more after a round that may or may not have been recorded as finished, and after
//! terms that nobody began. A round that fits none of them breaks a rule.

use std::collections::BTreeSet;

use lease_core::store::{SlotRow, Superseded};

use super::super::log::{End, Entry};
use super::history::{Begin, History, Told};
use super::moments::CLOCK_MS;
use super::{Rule, Violation};

/// What a row says of its instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// How many instants of the plan have been claimed or skipped: the last one is that before this position.
    taken: usize,
    /// The last one is unfinished.
    open: bool,
    /// The last one was claimed again.
    rerun: bool,
}

pub(super) struct Claims<'a> {
    history: &'a History<'a>,
    states: BTreeSet<State>,
    /// The rounds so far.
    before: Vec<&'a Told<'a>>,
    pub(super) violations: Vec<Violation>,
}

impl<'a> Claims<'a> {
    pub(super) fn new(history: &'a History<'a>) -> Self {
        let new = State { taken: 0, open: false, rerun: false };
        Self { history, states: [new].into(), before: Vec::new(), violations: Vec::new() }
    }

    /// From the first term to the last of which the log says anything.
    pub(super) fn walk(&mut self) {
        let mut last = 0;
        for (term, round) in &self.history.rounds {
            self.without_a_word(term - last - 1);
            last = *term;
            if let Some(begin) = round.begin {
                self.begin(round, begin);
            } else {
                self.not_begun(round);
            }
            self.ended(round);
            self.before.push(round);
        }
    }

    /// The row at the end.
    pub(super) fn end(&mut self, row: Option<&SlotRow>) {
        let last = self.history.rounds.keys().next_back().copied().unwrap_or(0);
        self.without_a_word(row.map_or(0, |row| row.term.get()) - last);
        self.ended_late(Some(i64::MAX));
        let name = &self.history.name;
        let lines = || self.before.last().map(|round| round.lines()).into_iter().flatten();
        let state = row.map_or(Some(State { taken: 0, open: false, rerun: false }), |row| self.read(row));
        let known = state.filter(|state| self.states.contains(state));
        if known.is_none() || row.map_or(0, |row| row.term.get()) < last {
            let what = format!("{name} has at the end {row:?}, which the rounds do not lead to");
            self.violations.push(Violation::new(Rule::Row, what, lines()));
        }
        if row.is_some_and(|row| row.expires_at.as_millis() > self.history.over + CLOCK_MS) {
            let what = format!("{name} is held at the end: {row:?}");
            self.violations.push(Violation::new(Rule::Row, what, lines()));
        }
        let Some(state) = state else { return };
        let left = self.history.slots.len() - state.taken;
        let open = state.open && !state.rerun;
        if left > 0 || open {
            let open = if open { ", and the last one claimed was cut short and not run again" } else { "" };
            let what = format!("{left} instants of {name} were never claimed{open}");
            self.violations.push(Violation::new(Rule::Unsettled, what, lines()));
        }
    }

    /// `None`: no state of a row that only this plan has touched.
    fn read(&self, row: &SlotRow) -> Option<State> {
        let Some(last) = row.last else {
            let untouched = row.unfinished.is_none() && row.rerun.is_none();
            return untouched.then_some(State { taken: 0, open: false, rerun: false });
        };
        let taken = self.history.position(last)? + 1;
        let open = match row.unfinished {
            None => false,
            Some(unfinished) if unfinished == last => true,
            Some(_) => return None,
        };
        Some(State { taken, open, rerun: row.rerun == Some(last) })
    }

    /// So many claims were granted that nobody began.
    fn without_a_word(&mut self, claims: i64) {
        let all = self.history.slots.len();
        // More than each instant twice cannot be told apart from that.
        for _ in 0..claims.clamp(0, 2 * i64::try_from(all).expect("few instants")) {
            self.ended_late(None);
            let mut next = BTreeSet::new();
            for state in &self.states {
                if state.taken < all {
                    next.insert(State { taken: state.taken + 1, open: true, rerun: false });
                }
                if state.open && !state.rerun {
                    next.insert(State { rerun: true, ..*state });
                }
            }
            self.states = next;
        }
    }

    fn begin(&mut self, round: &'a Told<'a>, begin: Begin<'a>) {
        self.ended_late(Some(begin.asked));
        let fit = if begin.rerun {
            begin.superseded.is_none()
                && self.states.contains(&State { taken: round.at + 1, open: true, rerun: false })
        } else {
            let fits = |state: &State| state.taken == round.at && self.given_up(*state) == begin.superseded;
            self.states.iter().any(fits)
        };
        let claimed = State { taken: round.at + 1, open: true, rerun: begin.rerun };
        if fit {
            self.states = [claimed].into();
            return;
        }
        let violation = if begin.rerun { self.bad_rerun(round, begin) } else { self.bad_first(round, begin) };
        self.violations.push(violation);
        // What a store that breaks a rule has made of the row is anybody's guess.
        self.states.insert(claimed);
    }

    /// Granted, and lost before the work began. Whether it was a rerun is not said.
    fn not_begun(&mut self, round: &'a Told<'a>) {
        self.without_a_word(1);
        self.states.retain(|state| state.taken == round.at + 1);
        if self.states.is_empty() {
            let what = "its instant cannot be granted".to_owned();
            self.violations.push(Violation::new(Rule::Strange, what, self.last().chain(round.lines())));
            self.states = [State { taken: round.at + 1, open: true, rerun: true }].into();
        }
    }

    fn bad_first(&self, round: &Told<'a>, begin: Begin<'a>) -> Violation {
        let first =
            |before: &&'a Told<'a>| before.begin.filter(|begin| before.at == round.at && !begin.rerun);
        if let Some(first) = self.before.iter().find_map(first) {
            let what = "its first round has begun before".to_owned();
            return Violation::new(Rule::FirstTwice, what, [first.entry, begin.entry]);
        }
        let rule = self.place(round.at, Rule::Superseded);
        let what = match rule {
            Rule::Older => "a later instant has begun or was skipped".to_owned(),
            Rule::PassedOver => "instants before it were neither claimed nor skipped".to_owned(),
            _ => {
                let may: Vec<_> = self.states.iter().map(|state| self.given_up(*state)).collect();
                format!("it says it gives up {:?}; what it can have given up: {may:?}", begin.superseded)
            }
        };
        Violation::new(rule, what, self.last().chain([begin.entry]))
    }

    fn bad_rerun(&self, round: &Told<'a>, begin: Begin<'a>) -> Violation {
        let here = self.states.iter().filter(|state| state.taken == round.at + 1);
        let rule = if begin.superseded.is_some() {
            Rule::Superseded
        } else if here.clone().any(|state| state.open) {
            Rule::RerunTwice
        } else {
            Rule::RerunOfFinished
        };
        let rule = if here.count() > 0 { rule } else { self.place(round.at + 1, rule) };
        let what = match rule {
            Rule::Older => "a later instant has begun or was skipped",
            Rule::PassedOver => "its first round was never claimed",
            Rule::RerunOfFinished => "its round was recorded as finished",
            Rule::RerunTwice => "its second round has been claimed before",
            _ => "a second round gives up no other instant",
        };
        Violation::new(rule, what.to_owned(), self.last().chain([begin.entry]))
    }

    /// Whether the row has got beyond this position or not as far, or `here`.
    fn place(&self, taken: usize, here: Rule) -> Rule {
        if self.states.iter().any(|state| state.taken == taken) {
            here
        } else if self.states.iter().any(|state| state.taken > taken) {
            Rule::Older
        } else {
            Rule::PassedOver
        }
    }

    fn last(&self) -> impl Iterator<Item = &'a Entry> {
        self.before.last().map(|round| round.lines()).into_iter().flatten()
    }

    fn given_up(&self, state: State) -> Option<Superseded> {
        let slot = self.history.slots[state.taken.checked_sub(1)?];
        state.open.then_some(Superseded { slot, rerun: state.rerun })
    }

    /// What becomes of the row by the end of the round that was begun last.
    fn ended(&mut self, round: &'a Told<'a>) {
        self.lines_of_the_end(round);
        let recorded = |state: &State| match round.skip {
            Some(to) => State { taken: to + 1, open: false, rerun: false },
            None => State { open: false, ..*state },
        };
        let states: Vec<State> = self.states.iter().map(recorded).collect();
        match round.ended.map(|(_, end)| end) {
            Some(End::Finished) => self.states = states.into_iter().collect(),
            // Without an end nothing was sent. What records the end of a lost lease skips nothing, but an earlier
            // attempt whose answer was lost may have.
            None | Some(End::Unrecorded | End::Lost) if round.end.is_some() => self.states.extend(states),
            _ => {}
        }
    }

    /// A round that ended without its lease, or whose answer never came, may have been recorded at any later
    /// time, so long as its instant was the last one. `asked`: what was answered before is surely so.
    fn ended_late(&mut self, asked: Option<i64>) {
        for round in self.before.iter().filter(|round| round.end.is_some()) {
            let recorded = |state: &State| match state {
                State { taken, open: true, .. } if *taken == round.at + 1 => State { open: false, ..*state },
                _ => *state,
            };
            let states: Vec<State> = self.states.iter().map(recorded).collect();
            match round.ended {
                Some((_, End::Finished | End::CutShort)) => {}
                // Not recorded by this call: it was before, or a later instant has been claimed.
                Some((entry, End::LostRecorded | End::Lost))
                    if asked.is_some_and(|asked| entry.at <= asked) =>
                {
                    self.states = states.into_iter().collect();
                }
                _ => self.states.extend(states),
            }
        }
    }

    fn lines_of_the_end(&mut self, round: &'a Told<'a>) {
        let Some(begin) = round.begin else { return };
        let mut broken = |rule, what: &str| {
            self.violations.push(Violation::new(rule, what.to_owned(), round.lines()));
        };
        match round.ended {
            None if round.gone.is_none() => broken(Rule::Unanswered, "its worker lives on"),
            Some((_, End::Finished | End::LostRecorded)) if round.end.is_none() => {
                broken(Rule::Unended, "its work has not come to its end");
            }
            _ => {}
        }
        if !begin.rerun || round.end.is_none() {
            return;
        }
        let first = |first: &&&'a Told<'a>| first.at == round.at && first.end.is_some();
        let first = self.before.iter().find(first).copied();
        if let Some(first) = first.filter(|first| matches!(first.ended, Some((_, End::CutShort)))) {
            let what = "its first round had come to its end and was not recorded".to_owned();
            let lines = first.lines().chain(round.lines());
            self.violations.push(Violation::new(Rule::EndedTwice, what, lines));
        }
    }
}
