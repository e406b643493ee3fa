//! Looks for an order of the statements.

use std::collections::{BTreeSet, HashMap, HashSet};

use lease_core::Holder;

use crate::check::facts::Facts;

use super::ops::{Kind, Op};
use super::state::{State, World};

/// What came of it.
pub(super) enum Verdict {
    /// There is an order; so many statements have their place in it.
    Explained(usize),
    /// None explains this answer. `last`: the last statement that had its place.
    Unexplained { op: usize, last: Option<usize>, placed: usize },
    /// There are more states than can be kept in mind.
    TooMany(usize),
}

/// So many states are kept in mind.
const MOST: usize = 4_000;

/// A statement whose end nobody knows may be at the row for so long.
const GHOST: u64 = 60_000_000_000;

pub(super) fn search(facts: &Facts<'_>, ops: &[Op]) -> Verdict {
    // What nobody knows is first taken to have happened only where an answer needs it. Only if that explains too little,
    // all is tried.
    match Search::new(facts, ops, false).run() {
        Verdict::Explained(placed) => Verdict::Explained(placed),
        _ => Search::new(facts, ops, true).run(),
    }
}

/// A way that things may have gone: the state of the row, what has been asked and has no place yet, and which of the statements that
/// nobody knows of have one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Way {
    state: State,
    todo: Vec<usize>,
    used: Vec<usize>,
}

struct Search<'a, 'f> {
    facts: &'a Facts<'f>,
    ops: &'a [Op],
    /// Statements of unknown outcome are tried everywhere.
    is_thorough: bool,
    ways: Vec<Way>,
    /// Statements of unknown outcome that have been asked.
    open: Vec<usize>,
    /// Statements that may be at the row at this moment.
    at_row: BTreeSet<usize>,
    /// Refusals that somebody else at the row may explain.
    contended: HashSet<usize>,
    pending_refusals: BTreeSet<usize>,
    /// The terms that are known to have been granted, in order.
    terms: Vec<i64>,
    /// Of each token the renewals asked so far of which nobody knows, as how long they make it live.
    longer: HashMap<Holder, u64>,
}

impl<'a, 'f> Search<'a, 'f> {
    fn new(facts: &'a Facts<'f>, ops: &'a [Op], is_thorough: bool) -> Self {
        let granted = ops.iter().filter_map(|op| match op.kind {
            Kind::Grant { term, .. } => term,
            _ => None,
        });
        let mut terms: Vec<i64> = granted.collect();
        terms.sort_unstable();
        Self {
            facts,
            ops,
            is_thorough,
            ways: vec![Way { state: State::new(), todo: Vec::new(), used: Vec::new() }],
            open: Vec::new(),
            at_row: BTreeSet::new(),
            contended: HashSet::new(),
            pending_refusals: BTreeSet::new(),
            terms,
            longer: HashMap::new(),
        }
    }

    fn run(mut self) -> Verdict {
        let mut events: Vec<(u64, bool, usize)> = Vec::new();
        for (number, op) in self.ops.iter().enumerate() {
            events.push((op.from, false, number));
            if !op.is_open() {
                events.push((op.to, true, number));
            }
        }
        // At the same moment questions come first: nobody can tell.
        events.sort_unstable();
        let (mut placed, mut last) = (0, None);
        for (at, is_answer, number) in events {
            if !is_answer {
                self.asked(at, number);
                continue;
            }
            self.at_row.remove(&number);
            if matches!(self.ops[number].kind, Kind::Touches) {
                continue;
            }
            let Some(ways) = self.answered(number) else { return Verdict::TooMany(placed) };
            if ways.is_empty() {
                return Verdict::Unexplained { op: number, last, placed };
            }
            self.ways = ways;
            self.pending_refusals.remove(&number);
            self.contended.remove(&number);
            (placed, last) = (placed + 1, Some(number));
        }
        Verdict::Explained(placed)
    }

    fn asked(&mut self, at: u64, number: usize) {
        let op = &self.ops[number];
        let reads =
            matches!(op.kind, Kind::Read { .. } | Kind::Last(_) | Kind::Verified { .. } | Kind::Passed(_));
        if !reads {
            self.contended.extend(&self.pending_refusals);
        }
        if matches!(op.kind, Kind::Held) {
            self.at_row.retain(|other| !self.ops[*other].is_open() || self.ops[*other].from + GHOST >= at);
            if !self.at_row.is_empty() {
                self.contended.insert(number);
            }
            self.pending_refusals.insert(number);
        }
        if !reads {
            self.at_row.insert(number);
        }
        match op.kind {
            Kind::Touches => {}
            Kind::MaybeRenewed { holder, ttl } => *self.longer.entry(holder).or_default() += ttl,
            _ if op.is_open() => self.open.push(number),
            _ => self.ways.iter_mut().for_each(|way| way.todo.push(number)),
        }
    }

    /// The ways on which the statement has its place when it is answered. `None`: too many.
    fn answered(&self, number: usize) -> Option<Vec<Way>> {
        // Mostly one thing is asked at a time.
        if let [way] = &self.ways[..]
            && way.todo == [number]
            && !self.is_thorough
            && let Some(way) = self.placed(way, number)
        {
            return Some(vec![way]);
        }
        let mut found: HashSet<Way> = HashSet::new();
        let tries: &[bool] = if self.is_thorough { &[true] } else { &[false, true] };
        for with_open in tries {
            let open: &[usize] = if *with_open { &self.open } else { &[] };
            let mut seen: HashSet<Way> = HashSet::new();
            let mut stack = self.ways.clone();
            while let Some(mut way) = stack.pop() {
                self.place_reads(&mut way);
                if !way.todo.contains(&number) {
                    found.insert(way);
                    continue;
                }
                if seen.len() + found.len() > MOST {
                    return None;
                }
                if !seen.insert(way.clone()) {
                    continue;
                }
                for (at, next) in way.todo.iter().enumerate() {
                    for state in way.state.after(&self.ops[*next], &self.world(&way.state, *next)) {
                        let mut todo = way.todo.clone();
                        todo.remove(at);
                        stack.push(Way { state, todo, used: way.used.clone() });
                    }
                }
                for next in open.iter().filter(|next| !way.used.contains(next)) {
                    for state in way.state.after(&self.ops[*next], &self.world(&way.state, *next)) {
                        let mut used = way.used.clone();
                        used.push(*next);
                        used.sort_unstable();
                        stack.push(Way { state, todo: way.todo.clone(), used });
                    }
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        Some(found.into_iter().collect())
    }

    /// The one way on from here, if there is one only.
    fn placed(&self, way: &Way, number: usize) -> Option<Way> {
        let (op, world) = (&self.ops[number], self.world(&way.state, number));
        if way.state.explains(op, &world) {
            return Some(Way { todo: Vec::new(), ..way.clone() });
        }
        let mut next = way.state.after(op, &world).into_iter();
        let state = next.next().filter(|_| next.next().is_none())?;
        Some(Way { state, todo: Vec::new(), used: way.used.clone() })
    }

    /// What changes nothing and is right as things are has its place here: none is better.
    fn place_reads(&self, way: &mut Way) {
        let Way { state, todo, .. } = way;
        todo.retain(|number| !state.explains(&self.ops[*number], &self.world(state, *number)));
    }

    fn world(&self, state: &State, number: usize) -> World<'_, 'f> {
        let next = self.terms.get(self.terms.partition_point(|term| *term <= state.term));
        World {
            facts: self.facts,
            longer: self.longer.get(&state.holder).copied().unwrap_or(0),
            is_contended: self.contended.contains(&number),
            may_be_granted: next.is_none_or(|next| *next > state.term + 1),
        }
    }
}
