//! The store beside the reference model, statement by statement.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lease_core::store::{Claim, LeaseRow, Observed, SlotEnd};
use lease_core::{LeaseName, LeaseStore, Slot};

use super::context::{Context, LONG, claim_of, end_of, holding, slot, slot_at, term, unfinished};
use super::process::WITHIN;
use super::statement::{Statement, shape};
use crate::random::Random;
use crate::{ManualClock, MemoryStore};

/// Statements in each walk.
const STEPS: u32 = 150;
/// The walks: the same for every store and every run.
const SEEDS: Range<u64> = 1..5;

pub(crate) async fn random_statements_are_answered_as_the_reference_model_answers_them(cx: &Context) {
    for seed in SEEDS {
        Walk::new(cx, seed).run().await;
    }
}

/// A random walk over the statements on one name. All leases are long, so that time plays no part.
struct Walk {
    seed: u64,
    random: Random,
    name: LeaseName,
    store: Arc<dyn LeaseStore>,
    model: MemoryStore,
    clock: Arc<ManualClock>,
    /// The latest claims, granted or not.
    claims: Vec<Claim>,
    /// States seen at the same step in the store and in the model.
    seen: Vec<[Observed; 2]>,
    /// The model's row after the last step: statements that ask about it have something to find.
    row: Option<LeaseRow>,
}

impl Walk {
    fn new(cx: &Context, seed: u64) -> Self {
        let (name, clock) = (cx.name(&format!("walk {seed}")), ManualClock::new());
        Self {
            seed,
            random: Random(seed),
            claims: vec![claim_of(&name)],
            name,
            store: cx.shared_store(),
            model: MemoryStore::with_clock(clock.clone()),
            clock,
            seen: Vec::new(),
            row: None,
        }
    }

    async fn run(&mut self) {
        for step in 0..STEPS {
            let [asked, asked_of_model] = self.statement(step);
            let answer = asked.run(&*self.store).await;
            let expected = asked_of_model.run(&self.model).await.expect("the model never fails here");
            let seed = self.seed;
            match answer {
                Ok(answer) => assert!(
                    answer == expected,
                    "walk {seed}, step {step}: {asked:?}\n  the store answered {answer:?}\n  the model answers {expected:?}"
                ),
                Err(error) => panic!("walk {seed}, step {step}: {asked:?} failed: {error}"),
            }
            let rows = [shape(&*self.store, &self.name).await, shape(&self.model, &self.name).await];
            let [found, modelled] = rows.map(|row| row.expect("inspect works"));
            assert!(
                found == modelled,
                "walk {seed}, step {step}: after {asked:?}\n  the store's row is {found:?}\n  the model's is {modelled:?}"
            );
            self.look().await;
            self.clock.advance(Duration::from_millis(1));
        }
    }

    async fn look(&mut self) {
        let rows =
            [self.store.inspect(&self.name, WITHIN).await, self.model.inspect(&self.name, WITHIN).await];
        if let [Some(row), Some(modelled)] = rows.map(|read| read.expect("inspect works").row) {
            self.seen.push([row.observed(), modelled.observed()]);
            self.row = Some(modelled);
        }
    }

    /// The next statement, as the store and as the model is asked it.
    fn statement(&mut self, step: u32) -> [Statement; 2] {
        // No two expiries of a walk are the same, however fast it goes.
        let ttl = LONG + Duration::from_secs(step.into());
        let claim = Claim { ttl, ..claim_of(&self.name) };
        let known = self.random.late(&self.claims).clone();
        let name = self.name.clone();
        let slot = self.slot();
        let last_term = self.row.as_ref().map_or(1, |row| row.term.get());
        let seen = term((last_term - i64::from(self.random.below(4) / 3)).max(1));
        let statement = match self.random.below(16) {
            0 | 1 => Statement::Claim(claim.clone()),
            2 => Statement::Renew(holding(&known), ttl),
            3 => Statement::RenewMany(vec![holding(&known), holding(&claim)], ttl),
            4 => Statement::Verify(holding(&known)),
            5 | 6 => Statement::Release(holding(&known)),
            7 if !self.seen.is_empty() => {
                let seen = *self.random.late(&self.seen);
                self.claims.push(claim.clone());
                return seen.map(|seen| Statement::ClaimObserved(claim.clone(), seen));
            }
            8 if !self.seen.is_empty() => {
                let seen = *self.random.late(&self.seen);
                return seen.map(|seen| Statement::Clear(name.clone(), seen));
            }
            9 => Statement::Resign(name, seen),
            10 | 11 => Statement::ClaimSlot(claim.clone(), slot),
            12 => {
                let passed = (self.random.below(2) == 0).then(|| self.slot());
                let lost = self.random.below(3) == 0;
                Statement::FinishSlot(SlotEnd { passed, lost, ..end_of(&known, slot) })
            }
            13 => Statement::UnfinishedSlots(vec![name]),
            14 => Statement::ClaimRerun(claim.clone(), unfinished(&name, slot, seen.get())),
            _ => Statement::LastSlot(name),
        };
        if let Statement::Claim(_) | Statement::ClaimSlot(..) | Statement::ClaimRerun(..) = statement {
            self.claims.push(claim);
        }
        [statement.clone(), statement]
    }

    /// The last instant on record or one near it, or one that never comes.
    fn slot(&mut self) -> Slot {
        let last = self.row.as_ref().and_then(|row| row.slot).unwrap_or(slot(1_000)).as_millis();
        match self.random.below(9) {
            0 => slot_at(i64::MAX),
            1 => slot_at(last - 1),
            2..=5 => slot_at(last),
            _ => slot_at(last + 1),
        }
    }
}
