//! What the row of a name may be, and what a statement makes of it.

use lease_core::Holder;

use crate::check::facts::Facts;
use crate::check::limits::CLOCKS;
use crate::history::{GivenUp, Row};

use super::ops::{Ended, Kind, Only, Op};

/// One state that the row can be in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// 0: the name was never claimed.
    pub(super) term: i64,
    pub(super) holder: Holder,
    hold: Hold,
    pub(super) slot: i64,
    pub(super) unfinished: i64,
    rerun: i64,
    /// The last change took place at this moment or later.
    now: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Hold {
    Released,
    /// It was seen to have expired.
    Expired,
    /// Written at a moment between these, for so long.
    Until {
        from: u64,
        to: u64,
        ttl: u64,
    },
}

/// The world that a statement meets.
pub(super) struct World<'a, 'f> {
    pub(super) facts: &'a Facts<'f>,
    /// How much longer than known the row may live: by renewals of the holder of which nobody knows.
    pub(super) longer: u64,
    /// Somebody else is at the row.
    pub(super) is_contended: bool,
    /// A claim of which nobody knows may be granted under a term only if no other was.
    pub(super) may_be_granted: bool,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            term: 0,
            holder: Holder::from_bytes([0; 16]),
            hold: Hold::Released,
            slot: 0,
            unfinished: 0,
            rerun: 0,
            now: 0,
        }
    }

    /// Whether a statement that changes nothing is right to say what it says.
    pub(super) fn explains(&self, op: &Op, world: &World<'_, '_>) -> bool {
        match &op.kind {
            Kind::Held => world.is_contended || self.may_live(op, world),
            Kind::Passed(slot) => self.slot >= *slot,
            Kind::Verified { holder, term } => {
                self.holder == *holder && self.term == *term && self.may_live(op, world)
            }
            // One that has expired changes the state: `after`.
            Kind::Lost { holder } => self.holder != *holder || !matches!(self.hold, Hold::Until { .. }),
            Kind::Gone { holder } => self.holder != *holder || self.term == 0,
            Kind::Read { now_ms, row } => self.is_row(op, *now_ms, row.as_ref(), world),
            Kind::Last(slot) => self.slot == *slot,
            Kind::Touches => true,
            Kind::Grant { .. }
            | Kind::Renewed { .. }
            | Kind::MaybeRenewed { .. }
            | Kind::PerhapsRenewed { .. }
            | Kind::MaybeFinished { .. }
            | Kind::Release { .. }
            | Kind::Finish { .. } => false,
        }
    }

    /// The states that a statement leads to; none if it cannot take place, or not with this answer.
    pub(super) fn after(&self, op: &Op, world: &World<'_, '_>) -> Vec<Self> {
        let at = self.now.max(op.from);
        match &op.kind {
            Kind::Grant { holder, ttl, term, only } => {
                let is_next = term.map_or(world.may_be_granted, |term| term == self.term + 1);
                if !is_next {
                    return Vec::new();
                }
                self.granted(op, *holder, *ttl, only, world).into_iter().collect()
            }
            Kind::Renewed { holder, ttl } if self.holder == *holder && self.may_live(op, world) => {
                vec![self.renewed(at, op, *ttl)]
            }
            Kind::PerhapsRenewed { holder, ttl } if self.holder == *holder && self.may_live(op, world) => {
                vec![self.clone(), self.renewed(at, op, *ttl)]
            }
            Kind::PerhapsRenewed { .. } => vec![self.clone()],
            Kind::Lost { holder } if self.holder == *holder => {
                // A clock that goes back makes what had expired live again.
                let goes_back = world.facts.clock.between(op.from, u64::MAX).1 > 0;
                match self.free_from(op, world) {
                    Some(_) if goes_back => vec![self.clone()],
                    Some(now) => vec![Self { hold: Hold::Expired, now, ..self.clone() }],
                    None => Vec::new(),
                }
            }
            Kind::Release { holder } if self.holder == *holder && self.term > 0 => {
                vec![Self { hold: Hold::Released, now: at, ..self.clone() }]
            }
            Kind::MaybeFinished { holder, passed } if self.holder == *holder && self.term > 0 => {
                self.ended(at, *passed)
            }
            Kind::Finish { holder, slot, passed, lost, answer } => {
                self.finished(at, (*holder, *slot, *passed, *lost), *answer)
            }
            _ => Vec::new(),
        }
    }

    fn renewed(&self, at: u64, op: &Op, ttl: u64) -> Self {
        Self { hold: Hold::Until { from: at, to: op.to, ttl }, now: at, ..self.clone() }
    }

    fn granted(&self, op: &Op, holder: Holder, ttl: u64, only: &Only, world: &World<'_, '_>) -> Option<Self> {
        let at = match only {
            Only::Seen(seen) => (self.term > 0 && self.holder == *seen).then_some(self.now.max(op.from))?,
            _ => self.free_from(op, world)?,
        };
        let mut next = Self {
            term: self.term + 1,
            holder,
            hold: Hold::Until { from: at, to: op.to, ttl },
            now: at,
            ..self.clone()
        };
        match only {
            Only::Slot { slot, gives_up } => {
                let is_left = self.unfinished != 0 && self.unfinished == self.slot;
                let left = is_left.then_some(GivenUp { slot: self.slot, rerun: self.rerun == self.slot });
                if *slot <= self.slot || (!op.is_open() && left != *gives_up) {
                    return None;
                }
                (next.slot, next.unfinished) = (*slot, *slot);
            }
            Only::Rerun { slot, term } => {
                let stands = self.term == *term && self.unfinished == *slot && self.slot == *slot;
                if !stands || self.rerun >= *slot {
                    return None;
                }
                next.rerun = *slot;
            }
            Only::Free | Only::Seen(_) => {}
        }
        Some(next)
    }

    fn finished(
        &self,
        at: u64,
        (holder, slot, passed, lost): (Holder, i64, i64, bool),
        answer: Option<Ended>,
    ) -> Vec<Self> {
        if !lost && self.holder == holder && self.term > 0 {
            if answer.is_some_and(|answer| answer != Ended::Finished) {
                return Vec::new();
            }
            return self.ended(at, passed);
        }
        let records = self.unfinished == slot;
        if answer.is_some_and(|answer| answer != Ended::Lost { recorded: records }) {
            return Vec::new();
        }
        vec![Self { unfinished: if records { 0 } else { self.unfinished }, now: at, ..self.clone() }]
    }

    fn ended(&self, at: u64, passed: i64) -> Vec<Self> {
        let end = Self { hold: Hold::Released, unfinished: 0, now: at, ..self.clone() };
        // Whether the database's clock had reached what was passed, nobody knows.
        let skipped = (passed > self.slot).then(|| Self { slot: passed, ..end.clone() });
        [end].into_iter().chain(skipped).collect()
    }

    /// Whether the row can still live when the statement takes place.
    fn may_live(&self, op: &Op, world: &World<'_, '_>) -> bool {
        let Hold::Until { .. } = self.hold else { return false };
        i128::from(self.now.max(op.from)) <= self.expiry(op, world).1
    }

    /// The earliest moment at which the name is free, if that is not too late for the statement.
    fn free_from(&self, op: &Op, world: &World<'_, '_>) -> Option<u64> {
        let at = self.now.max(op.from);
        let free = match self.hold {
            Hold::Until { .. } => at.max(u64::try_from(self.expiry(op, world).0).unwrap_or(0)),
            Hold::Released | Hold::Expired => at,
        };
        (free <= op.to).then_some(free)
    }

    /// Between which moments the row expires, as far as the statement can tell: by a clock stepped forward, that may be before the
    /// machine was started.
    fn expiry(&self, op: &Op, world: &World<'_, '_>) -> (i128, i128) {
        let Hold::Until { from, to, ttl } = self.hold else { return (i128::MIN, i128::MAX) };
        let (forward, back) = world.facts.clock.between(from, op.to);
        let earliest = i128::from(from + ttl) - i128::from(forward + CLOCKS);
        let latest = i128::from(to) + i128::from(ttl + world.longer + back + CLOCKS);
        (earliest, latest)
    }

    fn is_row(&self, op: &Op, now_ms: Option<i64>, row: Option<&Row>, world: &World<'_, '_>) -> bool {
        let Some(row) = row else { return self.term == 0 };
        let is_same = self.term == row.term
            && self.holder == row.holder
            && [self.slot, self.unfinished, self.rerun] == [row.slot, row.unfinished, row.rerun];
        if !is_same {
            return false;
        }
        match (self.hold, now_ms) {
            (Hold::Released, _) => row.expires_ms == 0,
            (Hold::Expired | Hold::Until { .. }, None) => row.expires_ms != 0,
            (Hold::Expired, Some(now_ms)) => row.expires_ms != 0 && row.expires_ms <= now_ms,
            (Hold::Until { .. }, Some(now_ms)) => {
                let (earliest, latest) = self.expiry(op, world);
                let left = i128::from(row.expires_ms - now_ms) * 1_000_000;
                let from = i128::from(self.now.max(op.from)) + left;
                let to = i128::from(op.to) + left;
                row.expires_ms != 0 && from <= latest && to >= earliest
            }
        }
    }
}
