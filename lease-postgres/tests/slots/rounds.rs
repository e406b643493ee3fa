//! A row before a statement on slots, the statement, and what it leads to by the rules of slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lease_core::store::{
    Claim, ConditionalAnswer, DbTime, FinishAnswer, LeaseRow, ReleaseAnswer, SlotAnswer, SlotEnd, StoreError,
    Superseded, UnfinishedSlot,
};
use lease_core::{Holder, Instance, LeaseName, LeaseStore, Slot, Term};

use crate::world::World;

/// For what must go well, on however slow a machine.
const LONG: Duration = Duration::from_secs(120);

/// No test outlives it.
const TTL: Duration = Duration::from_secs(3600);

/// A statement on slots, by the row that it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statement {
    /// `claim_slot` of a name that has no row.
    ClaimNew,
    /// `claim_slot` of a name whose last round has ended.
    ClaimFree,
    /// `claim_slot` of a name whose last round was cut short.
    ClaimSuperseding,
    /// `finish_slot` of a round that is held.
    Finish,
    /// The same, two instants later.
    FinishPassed,
    /// `finish_slot` of a round whose rerun somebody else holds.
    FinishLost,
    /// The same, known.
    FinishKnownLost,
    /// `claim_rerun` of a round that was cut short.
    ClaimRerun,
    /// `unfinished_slots` of such a name.
    UnfinishedSlots,
    /// `last_slot` of such a name.
    LastSlot,
    /// `release` of a round that is held.
    Release,
}

impl Statement {
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::UnfinishedSlots | Self::LastSlot)
    }
}

/// A statement that is about to be sent.
pub(crate) struct Round {
    statement: Statement,
    /// By way of no proxy.
    store: Arc<dyn LeaseStore>,
    /// What the statement claims, ends or gives back.
    claim: Claim,
    pub(crate) row: Option<LeaseRow>,
}

/// What of a row says who has the name and what becomes of its instants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    holder: Holder,
    term: i64,
    released: bool,
    last: i64,
    unfinished: i64,
    rerun: i64,
}

impl Columns {
    pub(crate) fn of(row: &LeaseRow) -> Self {
        let ms = |slot: Option<Slot>| slot.map_or(0, Slot::as_millis);
        Self {
            holder: row.holder,
            term: row.term.get(),
            released: row.expires_at == DbTime::RELEASED,
            last: ms(row.slot),
            unfinished: ms(row.unfinished_slot),
            rerun: ms(row.rerun_slot),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    ClaimSlot(SlotAnswer),
    Finish(FinishAnswer),
    ClaimRerun(ConditionalAnswer),
    Unfinished(Vec<UnfinishedSlot>),
    Last(Option<Slot>),
    Release(ReleaseAnswer),
}

/// Instants long ago.
const FIRST: i64 = 60_000;
const SECOND: i64 = 2 * FIRST;
const THIRD: i64 = 3 * FIRST;

impl Round {
    /// A name of its own, as the statement is to find it.
    pub(crate) async fn before(world: &World, statement: Statement) -> Self {
        static NAMES: AtomicU32 = AtomicU32::new(0);
        let name = LeaseName::new(&format!("n{}", NAMES.fetch_add(1, Ordering::Relaxed))).unwrap();
        let (claim, others) = (new_claim(&name), new_claim(&name));
        let mut round = Self { statement, store: Arc::clone(&world.beside), claim, row: None };
        match statement {
            Statement::ClaimNew => {}
            Statement::ClaimFree => {
                round.takes(&others, FIRST).await;
                round.ends(&others).await;
            }
            Statement::ClaimSuperseding
            | Statement::ClaimRerun
            | Statement::UnfinishedSlots
            | Statement::LastSlot => {
                round.takes(&others, FIRST).await;
                round.gives_back(&others.holder).await;
            }
            Statement::Finish | Statement::FinishPassed | Statement::Release => {
                round.takes(&round.claim, FIRST).await;
            }
            Statement::FinishLost | Statement::FinishKnownLost => {
                round.takes(&round.claim, FIRST).await;
                round.gives_back(&round.claim.holder).await;
                round.reruns(&others, FIRST, 1).await;
            }
        }
        round.row = round.look().await;
        round
    }

    pub(crate) fn name(&self) -> LeaseName {
        self.claim.name.clone()
    }

    /// The instant that the statement is about.
    pub(crate) fn slot(&self) -> Slot {
        match self.statement {
            Statement::ClaimNew | Statement::ClaimFree | Statement::ClaimSuperseding => slot(SECOND),
            _ => slot(FIRST),
        }
    }

    pub(crate) async fn ask(&self, store: &dyn LeaseStore, within: Duration) -> Result<Answer, StoreError> {
        let Self { statement, claim, .. } = self;
        let name = &claim.name;
        Ok(match statement {
            Statement::ClaimNew | Statement::ClaimFree | Statement::ClaimSuperseding => {
                Answer::ClaimSlot(store.claim_slot(claim, slot(SECOND), within).await?)
            }
            Statement::Finish
            | Statement::FinishPassed
            | Statement::FinishLost
            | Statement::FinishKnownLost => Answer::Finish(store.finish_slot(&self.end(), within).await?),
            Statement::ClaimRerun => {
                Answer::ClaimRerun(store.claim_rerun(claim, &self.cut_short(FIRST, 1), within).await?)
            }
            Statement::UnfinishedSlots => {
                Answer::Unfinished(store.unfinished_slots(std::slice::from_ref(name), within).await?)
            }
            Statement::LastSlot => Answer::Last(store.last_slot(name, within).await?),
            Statement::Release => Answer::Release(store.release(name, &claim.holder, within).await?),
        })
    }

    /// The only answer that is none of an error.
    pub(crate) fn answer(&self) -> Answer {
        let granted =
            |term, superseded| Answer::ClaimSlot(SlotAnswer::Granted { term: term_of(term), superseded });
        match self.statement {
            Statement::ClaimNew => granted(1, None),
            Statement::ClaimFree => granted(2, None),
            Statement::ClaimSuperseding => granted(2, Some(Superseded { slot: slot(FIRST), rerun: false })),
            Statement::Finish | Statement::FinishPassed => Answer::Finish(FinishAnswer::Finished),
            Statement::FinishLost | Statement::FinishKnownLost => {
                Answer::Finish(FinishAnswer::Lost { recorded: true })
            }
            Statement::ClaimRerun => Answer::ClaimRerun(ConditionalAnswer::Granted(term_of(2))),
            Statement::UnfinishedSlots => Answer::Unfinished(vec![self.cut_short(FIRST, 1)]),
            Statement::LastSlot => Answer::Last(Some(slot(FIRST))),
            Statement::Release => Answer::Release(ReleaseAnswer::Released),
        }
    }

    /// The row when all of it has taken place.
    pub(crate) fn effect(&self) -> Columns {
        let holder = self.claim.holder;
        let no_row = Columns { holder, term: 0, released: true, last: 0, unfinished: 0, rerun: 0 };
        let before = self.row.as_ref().map_or(no_row, Columns::of);
        let taken = |before: Columns| Columns { holder, term: before.term + 1, released: false, ..before };
        match self.statement {
            Statement::ClaimNew | Statement::ClaimFree | Statement::ClaimSuperseding => {
                Columns { last: SECOND, unfinished: SECOND, ..taken(before) }
            }
            Statement::Finish => Columns { released: true, unfinished: 0, ..before },
            Statement::FinishPassed => Columns { released: true, unfinished: 0, last: THIRD, ..before },
            Statement::FinishLost | Statement::FinishKnownLost => Columns { unfinished: 0, ..before },
            Statement::ClaimRerun => Columns { rerun: FIRST, ..taken(before) },
            Statement::UnfinishedSlots | Statement::LastSlot => before,
            Statement::Release => Columns { released: true, ..before },
        }
    }

    /// As `lease-core` does it after this answer, or after none. `cell` is for messages.
    pub(crate) async fn ask_again(&self, cell: &str, told: bool, took_place: bool) {
        match self.statement {
            Statement::ClaimNew | Statement::ClaimFree | Statement::ClaimSuperseding if told => {
                self.ends(&self.claim).await;
                self.is_over(cell, SECOND).await;
            }
            Statement::ClaimNew | Statement::ClaimFree | Statement::ClaimSuperseding => {
                self.is_gone(cell, took_place).await;
                if took_place {
                    self.runs_once_more(cell, SECOND).await;
                } else {
                    // Nobody has it, so the next who asks does.
                    let next = Self {
                        claim: new_claim(&self.claim.name),
                        row: None,
                        store: Arc::clone(&self.store),
                        ..*self
                    };
                    assert_eq!(next.ask(&*next.store, LONG).await.unwrap(), self.answer(), "{cell}");
                }
            }
            Statement::ClaimRerun if told => {
                self.ends(&self.claim).await;
                self.is_over(cell, FIRST).await;
            }
            Statement::ClaimRerun => {
                self.is_gone(cell, took_place).await;
                if took_place {
                    self.is_over(cell, FIRST).await;
                } else {
                    self.runs_once_more(cell, FIRST).await;
                }
            }
            Statement::Finish
            | Statement::FinishPassed
            | Statement::FinishLost
            | Statement::FinishKnownLost => {
                let again = self.ask(&*self.store, LONG).await.unwrap();
                let lost = matches!(self.statement, Statement::FinishLost | Statement::FinishKnownLost);
                let expected = if lost && took_place {
                    Answer::Finish(FinishAnswer::Lost { recorded: false })
                } else {
                    self.answer()
                };
                assert_eq!(again, expected, "{cell}");
                assert_eq!(
                    self.look().await.as_ref().map(Columns::of),
                    Some(self.effect()),
                    "{cell}: asked again"
                );
                self.is_over(cell, FIRST).await;
                if self.statement == Statement::FinishPassed {
                    self.is_over(cell, SECOND).await;
                    self.is_over(cell, THIRD).await;
                }
            }
            Statement::Release => {
                self.is_gone(cell, true).await;
                self.runs_once_more(cell, FIRST).await;
            }
            Statement::UnfinishedSlots | Statement::LastSlot => {}
        }
    }

    /// Whether nobody has the name under our token any more, when it is given back.
    async fn is_gone(&self, cell: &str, was_ours: bool) {
        let released = self.store.release(&self.claim.name, &self.claim.holder, LONG).await.unwrap();
        let expected = if was_ours { ReleaseAnswer::Released } else { ReleaseAnswer::Gone };
        assert_eq!(released, expected, "{cell}");
    }

    /// The round of this instant is told as cut short, and granted once more and not twice.
    async fn runs_once_more(&self, cell: &str, ms: i64) {
        let told = self.store.unfinished_slots(std::slice::from_ref(&self.claim.name), LONG).await.unwrap();
        let cut_short = self.cut_short(ms, self.look().await.unwrap().term.get());
        assert_eq!(told, std::slice::from_ref(&cut_short), "{cell}");
        let rerun = new_claim(&self.claim.name);
        let granted = self.store.claim_rerun(&rerun, &cut_short, LONG).await.unwrap();
        assert!(matches!(granted, ConditionalAnswer::Granted(_)), "{cell}: no rerun");
        self.gives_back(&rerun.holder).await;
        self.is_over(cell, ms).await;
    }

    /// Nobody is told of the instant any more, and nobody gets it, though the name is free.
    async fn is_over(&self, cell: &str, ms: i64) {
        let row = self.look().await.unwrap();
        self.gives_back(&row.holder).await;
        let told = self.store.unfinished_slots(std::slice::from_ref(&self.claim.name), LONG).await.unwrap();
        assert_eq!(told, [], "{cell}");
        let next = new_claim(&self.claim.name);
        let rerun = self.store.claim_rerun(&next, &self.cut_short(ms, row.term.get()), LONG).await.unwrap();
        assert_eq!(rerun, ConditionalAnswer::Moved, "{cell}: one more rerun");
        let again = self.store.claim_slot(&next, slot(ms), LONG).await.unwrap();
        assert_eq!(again, SlotAnswer::Passed, "{cell}: the instant is granted twice");
    }

    pub(crate) async fn look(&self) -> Option<LeaseRow> {
        self.store.inspect(&self.claim.name, LONG).await.unwrap().row
    }

    fn end(&self) -> SlotEnd {
        SlotEnd {
            name: self.claim.name.clone(),
            holder: self.claim.holder,
            slot: slot(FIRST),
            passed: (self.statement == Statement::FinishPassed).then(|| slot(THIRD)),
            lost: self.statement == Statement::FinishKnownLost,
        }
    }

    fn cut_short(&self, ms: i64, term: i64) -> UnfinishedSlot {
        UnfinishedSlot { name: self.claim.name.clone(), slot: slot(ms), term: term_of(term) }
    }

    async fn takes(&self, claim: &Claim, ms: i64) {
        let answer = self.store.claim_slot(claim, slot(ms), LONG).await.unwrap();
        assert!(matches!(answer, SlotAnswer::Granted { .. }), "{answer:?}");
    }

    async fn reruns(&self, claim: &Claim, ms: i64, term: i64) {
        let answer = self.store.claim_rerun(claim, &self.cut_short(ms, term), LONG).await.unwrap();
        assert!(matches!(answer, ConditionalAnswer::Granted(_)), "{answer:?}");
    }

    /// Its round ran to its end.
    async fn ends(&self, claim: &Claim) {
        let row = self.look().await.unwrap();
        let (name, holder, slot) = (claim.name.clone(), claim.holder, row.slot.unwrap());
        let end = SlotEnd { name, holder, slot, passed: None, lost: false };
        assert_eq!(self.store.finish_slot(&end, LONG).await.unwrap(), FinishAnswer::Finished);
    }

    async fn gives_back(&self, holder: &Holder) {
        let answer = self.store.release(&self.claim.name, holder, LONG).await.unwrap();
        assert_eq!(answer, ReleaseAnswer::Released);
    }
}

fn new_claim(name: &LeaseName) -> Claim {
    let (holder, instance) = (Holder::mint().unwrap(), Instance::named("test"));
    Claim { name: name.clone(), holder, ttl: TTL, instance }
}

fn slot(ms: i64) -> Slot {
    Slot::from_millis(ms).unwrap()
}

fn term_of(term: i64) -> Term {
    Term::new(term).unwrap()
}
