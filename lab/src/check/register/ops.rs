//! The statements on each name, with what their answers say.

use std::collections::BTreeMap;

use lease_core::{Holder, LeaseName};

use crate::check::facts::{Facts, name_of, nanos};
use crate::history::{Answer, Ask, Event, FaultKind, Finish, GivenUp, Guard, Row, Token};

/// A statement, or what else touches a row.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) from: u64,
    /// [`u64::MAX`]: nobody knows its outcome.
    pub(super) to: u64,
    pub(super) kind: Kind,
    pub(super) asked: usize,
    pub(super) answered: Option<usize>,
}

impl Op {
    pub(super) fn is_open(&self) -> bool {
        self.to == u64::MAX
    }
}

/// What it does or says.
#[derive(Debug)]
pub(super) enum Kind {
    /// A claim; `term` is `None` where nobody knows whether it was granted.
    Grant { holder: Holder, ttl: u64, term: Option<i64>, only: Only },
    /// A claim refused: the name is held, or somebody is at its row.
    Held,
    /// The last instant is this or later.
    Passed(i64),
    /// Renewed.
    Renewed { holder: Holder, ttl: u64 },
    /// Nobody knows.
    MaybeRenewed { holder: Holder, ttl: u64 },
    /// The answer says nothing: renewed by then, or not.
    PerhapsRenewed { holder: Holder, ttl: u64 },
    /// Refused: not held by this token.
    Lost { holder: Holder },
    /// Held by this token, under this term.
    Verified { holder: Holder, term: i64 },
    /// Freed, if it is this token's.
    Release { holder: Holder },
    /// Not this token's.
    Gone { holder: Holder },
    /// The end of a round; `recorded` is `None` for one that freed the name, where it is known.
    Finish { holder: Holder, slot: i64, passed: i64, lost: bool, answer: Option<Ended> },
    /// The end of a round, if it has the name still. Nobody knows.
    MaybeFinished { holder: Holder, passed: i64 },
    /// What was read, and the database's clock, where it is known.
    Read { now_ms: Option<i64>, row: Option<Row> },
    /// The last instant.
    Last(i64),
    /// Nothing that is known; it may keep others from the row.
    Touches,
}

/// When a claim is granted.
#[derive(Debug)]
pub(super) enum Only {
    Free,
    /// The token is still this.
    Seen(Holder),
    /// For an instant. What it gives up is known with the grant.
    Slot {
        slot: i64,
        gives_up: Option<GivenUp>,
    },
    Rerun {
        slot: i64,
        term: i64,
    },
}

/// How a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Finished,
    Lost { recorded: bool },
}

type Ops = BTreeMap<(LeaseName, usize), Vec<Op>>;

/// By name and database.
pub(super) fn of(facts: &Facts<'_>) -> Ops {
    let mut ops = Ops::new();
    for call in &facts.calls {
        let asked = &facts.entries[call.asked];
        let Event::Asked { ask, .. } = &asked.event else { continue };
        let answered = call.answered.map(|place| &facts.entries[place]);
        let answer = answered.and_then(|line| match &line.event {
            Event::Answered { answer, .. } => Some(answer),
            _ => None,
        });
        let place = Place {
            from: asked.at,
            to: answered.map(|line| line.at),
            asked: call.asked,
            answered: call.answered,
        };
        if let Ask::RenewMany { tokens, ttl_ms } = ask {
            for (at, token) in tokens.iter().enumerate() {
                let (holder, ttl) = (token.holder, ttl(*ttl_ms));
                let kind = match answer {
                    Some(Answer::Many(renewed)) if renewed.get(at) == Some(&true) => {
                        Kind::Renewed { holder, ttl }
                    }
                    // It may have been sent twice, or taken from the row before the answer was made.
                    Some(Answer::Many(_)) => Kind::PerhapsRenewed { holder, ttl },
                    Some(Answer::Failed { no_effect: true, .. }) => Kind::Touches,
                    _ => Kind::MaybeRenewed { holder, ttl },
                };
                place.enter(facts, &mut ops, &token.name, kind);
            }
        } else if let Some(name) = name_of(ask) {
            let sends_again = facts.lives.get(&(asked.process, asked.incarnation));
            if sends_again.is_some_and(|life| life.backend != "sqlite")
                && let Some(before) = sent_before(ask, answer)
            {
                place.enter(facts, &mut ops, name, before);
            }
            place.enter(facts, &mut ops, name, kind(ask, answer));
        }
    }
    guards(facts, &mut ops);
    for ((_, database), ops) in &mut ops {
        locked(facts, *database, ops);
    }
    rows(facts, &mut ops);
    ops
}

/// What may have taken place though it is denied: a store sends these again when the answer is lost, and by then somebody else may have
/// the name. The contract of stores allows it.
fn sent_before(ask: &Ask, answer: Option<&Answer>) -> Option<Kind> {
    match (ask, answer) {
        (
            Ask::FinishSlot { token, passed, lost: false, .. },
            Some(Answer::FinishLost { recorded: false }),
        ) => Some(Kind::MaybeFinished { holder: token.holder, passed: passed.unwrap_or(0) }),
        (Ask::Release { token }, Some(Answer::Gone)) => Some(Kind::Release { holder: token.holder }),
        (Ask::Renew { token, ttl_ms }, Some(Answer::Lost)) => {
            Some(Kind::MaybeRenewed { holder: token.holder, ttl: ttl(*ttl_ms) })
        }
        _ => None,
    }
}

#[derive(Clone, Copy)]
struct Place {
    from: u64,
    to: Option<u64>,
    asked: usize,
    answered: Option<usize>,
}

impl Place {
    fn enter(self, facts: &Facts<'_>, ops: &mut Ops, name: &LeaseName, kind: Kind) {
        let is_open = match &kind {
            Kind::Grant { term, .. } => term.is_none(),
            Kind::Finish { answer, .. } => answer.is_none(),
            Kind::MaybeRenewed { .. } | Kind::MaybeFinished { .. } => true,
            Kind::Release { .. } => self.answered.is_none_or(|place| is_denied(&facts.entries[place].event)),
            _ => false,
        };
        let Some(database) = facts.database_at(self.from) else { return };
        // What nobody knows of one file does nothing to the next.
        let to = if is_open { u64::MAX } else { self.to.unwrap_or(self.from) };
        if !is_open && facts.database_at(to) != Some(database) {
            return;
        }
        let Self { from, asked, answered, .. } = self;
        ops.entry((name.clone(), database)).or_default().push(Op { from, to, kind, asked, answered });
    }
}

fn is_denied(event: &Event) -> bool {
    matches!(event, Event::Answered { answer: Answer::Failed { .. } | Answer::Gone, .. })
}

fn ttl(ms: i64) -> u64 {
    nanos(ms.unsigned_abs())
}

fn kind(ask: &Ask, answer: Option<&Answer>) -> Kind {
    if matches!(answer, Some(Answer::Failed { no_effect: true, .. })) {
        return Kind::Touches;
    }
    // No answer, or an error that leaves it unknown.
    let answer = answer.filter(|answer| !matches!(answer, Answer::Failed { .. }));
    match (ask, answer) {
        (Ask::Claim { token, ttl_ms }, Some(Answer::Granted { .. }) | None) => {
            grant(token, *ttl_ms, answer, Only::Free)
        }
        (Ask::ClaimObserved { token, ttl_ms, seen }, Some(Answer::Granted { .. }) | None) => {
            grant(token, *ttl_ms, answer, Only::Seen(seen.holder))
        }
        (Ask::ClaimRerun { token, ttl_ms, slot, term }, Some(Answer::Granted { .. }) | None) => {
            grant(token, *ttl_ms, answer, Only::Rerun { slot: *slot, term: *term })
        }
        (Ask::ClaimSlot { token, ttl_ms, slot }, Some(Answer::Granted { .. }) | None) => {
            let gives_up = match answer {
                Some(Answer::Granted { superseded, .. }) => *superseded,
                _ => None,
            };
            grant(token, *ttl_ms, answer, Only::Slot { slot: *slot, gives_up })
        }
        (_, Some(Answer::Held)) => Kind::Held,
        (Ask::ClaimSlot { slot, .. }, Some(Answer::Passed)) => Kind::Passed(*slot),
        (Ask::Renew { token, ttl_ms }, Some(Answer::Renewed { .. })) => {
            Kind::Renewed { holder: token.holder, ttl: ttl(*ttl_ms) }
        }
        (Ask::Renew { token, ttl_ms }, None) => {
            Kind::MaybeRenewed { holder: token.holder, ttl: ttl(*ttl_ms) }
        }
        (Ask::Renew { token, .. } | Ask::Verify { token }, Some(Answer::Lost)) => {
            Kind::Lost { holder: token.holder }
        }
        (Ask::Verify { token }, Some(Answer::HeldUnder(term))) => {
            Kind::Verified { holder: token.holder, term: *term }
        }
        (Ask::Release { token }, Some(Answer::Released) | None) => Kind::Release { holder: token.holder },
        (Ask::Release { token }, Some(Answer::Gone)) => Kind::Gone { holder: token.holder },
        (Ask::Clear { seen, .. }, Some(Answer::Cleared) | None) => Kind::Release { holder: seen.holder },
        (Ask::FinishSlot { token, slot, passed, lost }, answer) => {
            let answer = match answer {
                Some(Answer::Finished) => Some(Ended::Finished),
                Some(Answer::FinishLost { recorded }) => Some(Ended::Lost { recorded: *recorded }),
                _ => None,
            };
            let (holder, passed) = (token.holder, passed.unwrap_or(0));
            Kind::Finish { holder, slot: *slot, passed, lost: *lost, answer }
        }
        (Ask::Inspect { .. }, Some(Answer::Read { now_ms, row })) => {
            Kind::Read { now_ms: Some(*now_ms), row: row.clone() }
        }
        (Ask::LastSlot { .. }, Some(Answer::Last(last))) => Kind::Last(last.unwrap_or(0)),
        _ => Kind::Touches,
    }
}

fn grant(token: &Token, ttl_ms: i64, answer: Option<&Answer>, only: Only) -> Kind {
    let term = match answer {
        Some(Answer::Granted { term, .. }) => Some(*term),
        _ => None,
    };
    Kind::Grant { holder: token.holder, ttl: ttl(ttl_ms), term, only }
}

/// A guarded transaction that was committed found its lease held; on SQLite it has renewed it.
fn guards(facts: &Facts<'_>, ops: &mut Ops) {
    for ((who, _), tx) in &facts.guards {
        let (Some(life), Some(began)) = (facts.lives.get(who), tx.began) else { continue };
        let begins = &facts.entries[began];
        let Event::Guard { lease, .. } = &begins.event else { continue };
        let finish = tx.ended.map(|place| &facts.entries[place].event).and_then(|event| match event {
            Event::Guard { step: Guard::Ended(finish), .. } => Some(*finish),
            _ => None,
        });
        let carried = life.setting.filter(|_| life.backend == "sqlite").map(|setting| setting.ttl);
        let holder = lease.holder;
        let kind = match (finish, carried) {
            (Some(Finish::Committed), Some(ttl)) => Kind::Renewed { holder, ttl },
            (Some(Finish::Committed), None) => Kind::Verified { holder, term: lease.term },
            (Some(Finish::Unknown) | None, Some(ttl)) => Kind::MaybeRenewed { holder, ttl },
            _ => Kind::Touches,
        };
        let to = tx.ended.map(|place| facts.entries[place].at);
        Place { from: begins.at, to, asked: began, answered: tx.ended }.enter(facts, ops, &lease.name, kind);
    }
}

/// Transactions of others that had the rows.
fn locked(facts: &Facts<'_>, database: usize, ops: &mut Vec<Op>) {
    let Some(first) = ops.first().map(|op| op.asked) else { return };
    for span in
        facts.faults(FaultKind::RowLocked).filter(|span| facts.database_at(span.from) == Some(database))
    {
        let kind = Kind::Touches;
        ops.push(Op { from: span.from, to: span.to.min(facts.over), kind, asked: first, answered: None });
    }
}

/// The rows at the end.
fn rows(facts: &Facts<'_>, ops: &mut Ops) {
    for (asked, line) in facts.entries.iter().enumerate() {
        let Event::FinalRow(row) = &line.event else { continue };
        let kind = Kind::Read { now_ms: None, row: Some(row.clone()) };
        Place { from: line.at, to: Some(line.at), asked, answered: None }.enter(facts, ops, &row.name, kind);
    }
}
