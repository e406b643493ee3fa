//! The log sorted: by name, and there by term.

use std::collections::BTreeMap;

use lease_core::store::Superseded;
use lease_core::{LeaseName, Slot};

use super::super::log::{End, Entry, Event};
use super::super::plan::Plan;
use super::{Rule, Violation};

/// What the log says of one name.
pub(super) struct History<'a> {
    pub(super) name: LeaseName,
    /// The instants of the plan.
    pub(super) slots: Vec<Slot>,
    /// The ttl of the leases.
    pub(super) ttl_ms: i64,
    /// The moment of the last line.
    pub(super) over: i64,
    /// By term.
    pub(super) rounds: BTreeMap<i64, Told<'a>>,
}

/// What the log says of one term.
pub(super) struct Told<'a> {
    /// The position of its instant in the plan.
    pub(super) at: usize,
    /// `None`: the lease was lost before any work began.
    pub(super) begin: Option<Begin<'a>>,
    /// Every line that says that the lease is held.
    pub(super) held: Vec<&'a Entry>,
    pub(super) end: Option<&'a Entry>,
    /// The position of the last instant that the round skips.
    pub(super) skip: Option<usize>,
    /// The line that says so.
    pub(super) skips: Option<&'a Entry>,
    /// What became of it; `None` when its worker died before it knew.
    pub(super) ended: Option<(&'a Entry, End)>,
    /// The moment at which its worker was gone; `None` when it came to the end of the schedule.
    pub(super) gone: Option<i64>,
}

#[derive(Clone, Copy)]
pub(super) struct Begin<'a> {
    pub(super) entry: &'a Entry,
    pub(super) asked: i64,
    pub(super) rerun: bool,
    pub(super) superseded: Option<Superseded>,
}

impl History<'_> {
    /// The position of an instant in the plan.
    pub(super) fn position(&self, slot: Slot) -> Option<usize> {
        self.slots.iter().position(|known| *known == slot)
    }
}

impl<'a> Told<'a> {
    /// The lines that tell of it.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'a Entry> {
        let begin = self.begin.as_ref().map(|begin| begin.entry);
        begin.into_iter().chain(self.end).chain(self.ended.map(|(entry, _)| entry))
    }
}

/// The histories of all names of the plan, and the lines that cannot be.
pub(super) fn of<'a>(plan: &Plan, log: &'a [Entry]) -> (Vec<History<'a>>, Vec<Violation>) {
    let is_gone = |entry: &&Entry| matches!(entry.event, Event::Killed | Event::Died);
    let gone: BTreeMap<u32, (usize, &Entry)> =
        log.iter().enumerate().filter(|(_, entry)| is_gone(entry)).map(|at| (at.1.worker, at)).collect();
    let ttl_ms = i64::try_from(plan.ttl.as_millis()).unwrap_or(i64::MAX);
    let over = log.iter().map(|entry| entry.at).max().unwrap_or(0);
    let history = |name| History { slots: plan.slots(&name), name, ttl_ms, over, rounds: BTreeMap::new() };
    let mut histories: Vec<History<'_>> = plan.names().into_iter().map(history).collect();
    let mut strange = Vec::new();
    for (place, entry) in log.iter().enumerate() {
        let gone = gone.get(&entry.worker);
        if let Some((_, gone)) = gone.filter(|(gone, _)| *gone < place) {
            strange.push(Violation::new(Rule::Strange, "its worker was gone".to_owned(), [*gone, entry]));
        }
        let Some(round) = entry.event.round() else { continue };
        let history = histories.iter_mut().find(|history| history.name == round.name);
        let Some((history, at)) = history.and_then(|h| h.position(round.slot).map(|at| (h, at))) else {
            strange.push(Violation::new(Rule::Strange, "not in the plan".to_owned(), [entry]));
            continue;
        };
        let skip_to = match entry.event {
            Event::Skip { upto, .. } => history.position(upto),
            _ => None,
        };
        let new = Told {
            at,
            begin: None,
            held: Vec::new(),
            end: None,
            skip: None,
            skips: None,
            ended: None,
            gone: gone.map(|(_, gone)| gone.at),
        };
        let known = history.rounds.entry(round.term.get()).or_insert(new);
        if let Some(problem) = known.enter(entry, at, skip_to) {
            let rule = if matches!(entry.event, Event::Begin { .. }) { Rule::Terms } else { Rule::Strange };
            strange.push(Violation::new(rule, problem.to_owned(), known.lines().chain([entry])));
        }
    }
    (histories, strange)
}

impl<'a> Told<'a> {
    /// Takes a line in, or says why it cannot be.
    fn enter(&mut self, entry: &'a Entry, at: usize, skip_to: Option<usize>) -> Option<&'static str> {
        if self.begin.is_some_and(|begin| begin.entry.worker != entry.worker) {
            return Some("a term of two workers");
        }
        if self.at != at {
            return Some("a term of two instants");
        }
        if self.ended.is_some() {
            return Some("more is said when it was said what became of it");
        }
        match entry.event {
            Event::Begin { asked, rerun, superseded, .. } => {
                if self.begin.is_some() {
                    return Some("a term begun twice");
                }
                self.begin = Some(Begin { entry, asked, rerun, superseded });
                self.held.push(entry);
            }
            Event::Held(_) => self.held.push(entry),
            Event::End(_) => {
                self.held.push(entry);
                if self.end.replace(entry).is_some() {
                    return Some("an end said twice");
                }
            }
            Event::Skip { .. } => {
                (self.skip, self.skips) = (skip_to, Some(entry));
                if skip_to.is_none_or(|to| to <= at) {
                    return Some("a skip to no later instant of the plan");
                }
            }
            Event::Ended(_, end) => self.ended = Some((entry, end)),
            _ => {}
        }
        None
    }
}
