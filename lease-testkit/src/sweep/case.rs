//! The rows before an operation, and what they and the answer must say after it, whatever went wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lease_core::store::{ConditionalAnswer, DbTime, Effect, LeaseRow, Observed, ReleaseAnswer, SlotAnswer};
use lease_core::{Holder, LeaseStore, Term};

use super::operation::{
    FIRST, Operation, RENEWED_TTL, Request, SECOND, THIRD, TTL, Told, claim, cut_short, slot,
};

/// For what must go well, on however slow a machine.
pub(super) const LONG: Duration = Duration::from_secs(120);

/// One that no store is kept for.
pub(super) struct Prepared {
    request: Request,
    before: Vec<Option<LeaseRow>>,
}

impl Prepared {
    pub(super) fn by(self, beside: &Arc<dyn LeaseStore>) -> Case {
        Case { request: self.request, before: self.before, beside: Arc::clone(beside) }
    }
}

/// An operation about to be asked for, on names of its own.
pub(super) struct Case {
    pub(super) request: Request,
    /// A store that no fault concerns.
    pub(super) beside: Arc<dyn LeaseStore>,
    before: Vec<Option<LeaseRow>>,
}

impl Case {
    /// Names as the operation is to find them.
    pub(super) async fn before(beside: &Arc<dyn LeaseStore>, operation: Operation) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let (ours, other) = (mint(), mint());
        let seen = Observed { holder: other, expires_at: DbTime::RELEASED };
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let request = Request { operation, number, holder: ours, seen, term: 0 };
        let mut case = Self { request, beside: Arc::clone(beside), before: Vec::new() };
        match operation {
            Operation::ClaimNew | Operation::SlotNew => {}
            Operation::ClaimFree => {
                case.takes(other).await;
                case.gives_back(other).await;
            }
            Operation::ClaimObserved | Operation::Clear => case.takes(other).await,
            Operation::Renew | Operation::RenewMany | Operation::Release | Operation::Resign => {
                case.takes(ours).await;
            }
            Operation::SlotNext | Operation::Rerun => {
                case.takes_slot(other).await;
                case.gives_back(other).await;
            }
            Operation::Finish => case.takes_slot(ours).await,
            Operation::FinishLost => {
                case.takes_slot(ours).await;
                case.gives_back(ours).await;
                let rerun = claim(case.request.name(), other);
                let unfinished = cut_short(case.request.name(), FIRST, 1);
                let granted = case.beside.claim_rerun(&rerun, &unfinished, LONG).await.expect("a rerun");
                assert!(matches!(granted, ConditionalAnswer::Granted(_)), "{granted:?}");
            }
        }
        case.before = case.look().await;
        if let Some(row) = &case.before[0] {
            case.request.seen = row.observed();
            case.request.term = row.term.get();
        }
        case
    }

    pub(super) fn prepared(self) -> Prepared {
        Prepared { request: self.request, before: self.before }
    }

    /// Judges the rows by what was there before and what was told, and says of each whether the operation took place. No
    /// statement that was sent may still be under way.
    pub(super) async fn judge(&self, cell: &str, told: &Told) -> Vec<bool> {
        let after = self.look().await;
        let took_place: Vec<bool> = self
            .before
            .iter()
            .zip(&after)
            .map(|(before, after)| {
                if before == after {
                    return false;
                }
                let after = after.as_ref().unwrap_or_else(|| panic!("{cell}: the row is gone"));
                assert_eq!(
                    *after,
                    self.effect(cell, before.as_ref(), after),
                    "{cell}: half of it, and {told:?}"
                );
                true
            })
            .collect();
        match told {
            Told::Done => assert!(took_place.iter().all(|is| *is), "{cell}: {told:?}, and nothing is there"),
            Told::Partly(each) => {
                let agrees = each.iter().zip(&took_place).all(|(told, is)| *is || !*told);
                assert!(agrees && each.len() == took_place.len(), "{cell}: {told:?}, and {took_place:?}");
            }
            Told::Otherwise(answer) => panic!("{cell}: {answer}, and took place: {took_place:?}"),
            Told::Failed { effect: Effect::None, error } => {
                assert!(!took_place.contains(&true), "{cell}: it took place, and: {error}");
            }
            Told::Failed { .. } | Told::Nothing => {}
        }
        took_place
    }

    /// Goes on as the protocol does after such an answer or none: nothing stands in the way of who comes next.
    pub(super) async fn goes_on(&self, cell: &str, took_place: &[bool]) {
        let Request { operation, holder, seen, .. } = self.request;
        let took_place = took_place.iter().all(|is| *is);
        match operation {
            _ if operation.claims() => self.is_given_back(cell, took_place).await,
            Operation::Renew | Operation::RenewMany => {
                for name in self.request.names() {
                    let verified = self.beside.renew(&name, &holder, RENEWED_TTL, LONG).await;
                    let renewed = matches!(verified, Ok(lease_core::store::RenewAnswer::Renewed(_)));
                    assert!(renewed, "{cell}: cannot be renewed any more: {verified:?}");
                }
                self.is_given_back(cell, true).await;
            }
            Operation::Resign => {
                let renewed = self.beside.renew(&self.request.name(), &holder, TTL, LONG).await;
                let told = matches!(&renewed, Ok(lease_core::store::RenewAnswer::Renewed(renewed))
                    if renewed.step_down == took_place);
                assert!(told, "{cell}: {renewed:?}");
                self.is_given_back(cell, true).await;
            }
            Operation::Release => self.is_given_back(cell, true).await,
            Operation::Clear => {
                let again = self.beside.clear(&self.request.name(), &seen, LONG).await.expect("an answer");
                let cleared = again == lease_core::store::ClearAnswer::Cleared;
                assert_eq!(cleared, !took_place, "{cell}: asked again");
            }
            Operation::Finish => {
                let again = self.request.ask(&*self.beside, LONG).await;
                assert_eq!(again, Told::Done, "{cell}: asked again");
            }
            _ => {
                let again = self.request.ask(&*self.beside, LONG).await;
                // It was recorded by the first time, and whoever runs it now is not stopped by that.
                assert_eq!(again == Told::Done, !took_place, "{cell}: asked again: {again:?}");
                self.gives_back(seen.holder).await;
            }
        }
        self.slots_are_accounted_for(cell, took_place).await;
        for name in self.request.names() {
            let row = self.beside.inspect(&name, LONG).await.expect("a row").row;
            let next = row.map_or(0, |row| row.term.get()) + 1;
            let granted = self.beside.claim(&claim(name, mint()), LONG).await.expect("an answer");
            let expected = lease_core::store::ClaimAnswer::Granted(Term::new(next).expect("a term"));
            assert_eq!(granted, expected, "{cell}: who comes next");
        }
    }

    /// Releases what the token may have.
    async fn is_given_back(&self, cell: &str, is_ours: bool) {
        let expected = if is_ours { ReleaseAnswer::Released } else { ReleaseAnswer::Gone };
        for name in self.request.names() {
            let released = self.beside.release(&name, &self.request.holder, LONG).await.expect("an answer");
            assert_eq!(released, expected, "{cell}");
        }
        if self.request.operation == Operation::ClaimObserved && !is_ours {
            self.gives_back(self.request.seen.holder).await;
        }
    }

    /// Each instant can be claimed, run again or is over, as the operation has left it. The name is free.
    async fn slots_are_accounted_for(&self, cell: &str, took_place: bool) {
        let (instant, reruns) = match self.request.operation {
            // Cut short, it is run once more.
            Operation::SlotNew | Operation::SlotNext if took_place => (SECOND, true),
            Operation::SlotNew => return self.instant_is_granted(cell, SECOND).await,
            Operation::SlotNext => (FIRST, true),
            Operation::Rerun => (FIRST, !took_place),
            Operation::Finish | Operation::FinishLost => (FIRST, false),
            _ => return,
        };
        let (name, row) = (self.request.name(), self.look().await.swap_remove(0).expect("a row"));
        let told = self.beside.unfinished_slots(std::slice::from_ref(&name), LONG).await.expect("an answer");
        let unfinished = cut_short(name.clone(), instant, row.term.get());
        let expected = if reruns { vec![unfinished.clone()] } else { Vec::new() };
        assert_eq!(told, expected, "{cell}: what was cut short");
        let again = claim(name.clone(), mint());
        let granted = self.beside.claim_rerun(&again, &unfinished, LONG).await.expect("an answer");
        assert_eq!(granted != ConditionalAnswer::Moved, reruns, "{cell}: the rerun: {granted:?}");
        if reruns {
            self.gives_back(again.holder).await;
        }
        let last = if self.request.operation == Operation::Finish { THIRD } else { instant };
        let twice = self.beside.claim_slot(&claim(name, mint()), slot(last), LONG).await.expect("an answer");
        assert_eq!(twice, SlotAnswer::Passed, "{cell}: an instant is granted twice");
    }

    async fn instant_is_granted(&self, cell: &str, ms: i64) {
        let next = claim(self.request.name(), mint());
        let granted = self.beside.claim_slot(&next, slot(ms), LONG).await.expect("an answer");
        assert!(matches!(granted, SlotAnswer::Granted { .. }), "{cell}: {granted:?}");
        self.gives_back(next.holder).await;
    }

    /// The row when all of it has taken place, at the time that the row says.
    fn effect(&self, cell: &str, before: Option<&LeaseRow>, after: &LeaseRow) -> LeaseRow {
        let blank = || LeaseRow {
            term: Term::FIRST,
            resign_term: 0,
            slot: None,
            unfinished_slot: None,
            rerun_slot: None,
            ..after.clone()
        };
        let mut row = before.cloned().unwrap_or_else(blank);
        let Request { operation, holder, .. } = self.request;
        let moves = |from: DbTime, ttl: Duration| {
            DbTime::from_millis(from.as_millis() + i64::try_from(ttl.as_millis()).expect("a short time"))
        };
        if operation.claims() {
            let since = before.map_or(DbTime::from_millis(1), |row| row.renewed_at);
            assert!(after.claimed_at >= since, "{cell}: {after:?}");
            row = LeaseRow {
                holder,
                term: Term::new(before.map_or(0, |row| row.term.get()) + 1).expect("a term"),
                claimed_at: after.claimed_at,
                renewed_at: after.claimed_at,
                expires_at: moves(after.claimed_at, TTL),
                ttl: TTL,
                ..row
            };
        }
        match operation {
            Operation::Renew | Operation::RenewMany => {
                assert!(after.renewed_at >= row.renewed_at, "{cell}: {after:?}");
                row.renewed_at = after.renewed_at;
                row.expires_at = moves(after.renewed_at, RENEWED_TTL);
            }
            Operation::Release | Operation::Clear => row.expires_at = DbTime::RELEASED,
            Operation::Resign => row.resign_term = row.term.get(),
            Operation::SlotNew | Operation::SlotNext => {
                row.slot = Some(slot(SECOND));
                row.unfinished_slot = Some(slot(SECOND));
            }
            Operation::Finish => {
                row.expires_at = DbTime::RELEASED;
                row.unfinished_slot = None;
                row.slot = Some(slot(THIRD));
            }
            Operation::FinishLost => row.unfinished_slot = None,
            Operation::Rerun => row.rerun_slot = Some(slot(FIRST)),
            Operation::ClaimNew | Operation::ClaimFree | Operation::ClaimObserved => {}
        }
        row
    }

    async fn look(&self) -> Vec<Option<LeaseRow>> {
        let mut rows = Vec::new();
        for name in self.request.names() {
            rows.push(self.beside.inspect(&name, LONG).await.expect("an answer").row);
        }
        rows
    }

    async fn takes(&self, holder: Holder) {
        for name in self.request.names() {
            let answer = self.beside.claim(&claim(name, holder), LONG).await.expect("an answer");
            assert!(matches!(answer, lease_core::store::ClaimAnswer::Granted(_)), "{answer:?}");
        }
    }

    async fn takes_slot(&self, holder: Holder) {
        let claim = claim(self.request.name(), holder);
        let answer = self.beside.claim_slot(&claim, slot(FIRST), LONG).await.expect("an answer");
        assert!(matches!(answer, SlotAnswer::Granted { .. }), "{answer:?}");
    }

    async fn gives_back(&self, holder: Holder) {
        let answer = self.beside.release(&self.request.name(), &holder, LONG).await.expect("an answer");
        assert_eq!(answer, ReleaseAnswer::Released);
    }
}

fn mint() -> Holder {
    Holder::mint().expect("a source of random numbers")
}
