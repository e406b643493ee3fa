//! Defects planted into the models, each with the property that finds it.

use crate::guards::{self, Fence, GuardModel, HONEST, NO_LATE_COMMIT};
use crate::lease::world::Left;
use crate::lease::{self, HELD_AGAIN, LeaseModel, ONE_BELIEVER, ONE_WORK, TERMS};
use crate::parts::{NOTHING_LEFT, SMALL};
use crate::run::shortest;
use crate::slots::{self, SlotModel};

/// A model with a defect.
#[derive(Debug, Clone, Copy)]
pub enum Defect {
    /// In the lease.
    Lease(lease::Planted, lease::Bounds),
    /// In a guard.
    Guard(guards::Planted, Fence),
    /// In slots.
    Slots(slots::Planted),
}

const TRANSACTIONS: guards::Bounds = guards::Bounds { processes: 2, transactions: 2, terms: 2, begun: 2 };
const INSTANTS: slots::Bounds = slots::Bounds { processes: 2, instants: 2, terms: 3, back: 0, ghosts: 1 };

/// All of them, with the property that each breaks.
pub fn planted() -> Vec<(Defect, &'static str)> {
    use guards::Planted as G;
    use lease::Planted as L;
    use slots::Planted as S;
    let left = Left { claims: 3, ..NOTHING_LEFT };
    let calm = lease::Bounds { left, ..SMALL };
    let drift = lease::Bounds { left: Left { odd: 1, ..left }, ..SMALL };
    let release = lease::Bounds { release: true, ..calm };
    let observe = lease::Bounds { observe: true, left: Left { claims: 2, ..left }, ..SMALL };
    let back = Left { claims: 1, crashes: 1, back: 1, ..NOTHING_LEFT };
    let heal = lease::Bounds { heal: true, left: back, back: &[3], ..observe };
    let lease = |planted, bounds, property| (Defect::Lease(planted, bounds), property);
    let guard = |planted, fence| (Defect::Guard(planted, fence), NO_LATE_COMMIT);
    let slot = |planted, property| (Defect::Slots(planted), property);
    vec![
        lease(L::DeadlineFromAnswer, calm, ONE_BELIEVER),
        lease(L::NoMargin, drift, ONE_WORK),
        lease(L::ReleaseOfAnybody, release, ONE_BELIEVER),
        lease(L::TermNotRaised, calm, TERMS),
        lease(L::ClaimOfTheLiving, calm, ONE_BELIEVER),
        lease(L::ObserveTooShort, observe, ONE_WORK),
        lease(L::NobodyObserves, heal, HELD_AGAIN),
        lease(L::LateGrantHandedOut, calm, ONE_BELIEVER),
        guard(G::PlainSelect, Fence::Postgres),
        guard(G::ClaimKeepsTheKey, Fence::Postgres),
        guard(G::VerifiedAtBeginOnly, Fence::Mysql),
        guard(G::FenceApart, Fence::Mysql),
        guard(G::CommitRunsOn, Fence::Mysql),
        guard(G::VerifiedOutside, Fence::Sqlite),
        guard(G::NotVerified, Fence::Sqlite),
        (Defect::Guard(G::KilledWhileCommitting, Fence::Mysql), HONEST),
        (Defect::Guard(G::UnknownSaidFailed, Fence::Postgres), HONEST),
        slot(S::FinishOfAnybody, slots::OWN_NAME_ONLY),
        slot(S::ClaimWithoutComparing, slots::IN_ORDER),
        slot(S::ClaimComparesTheTermOnly, slots::GIVEN_UP_RIGHTLY),
        slot(S::RerunComparesTheTermOnly, slots::NEVER_AGAIN),
        slot(S::RerunNotRecorded, slots::ONCE_AND_A_RERUN),
        slot(S::ClaimedEarly, slots::NOT_EARLY),
        slot(S::PassedEarly, slots::NOT_EARLY),
        slot(S::LostEndClearsAny, slots::NONE_FORGOTTEN),
        slot(S::FinishForgets, slots::NEVER_AGAIN),
    ]
}

impl Defect {
    /// The shortest way to where the property does not hold, a line a step.
    pub fn trace(self, property: &'static str) -> Option<Vec<String>> {
        match self {
            Self::Lease(planted, bounds) => shortest(|| LeaseModel::new(bounds, Some(planted)), property),
            Self::Guard(planted, fence) => {
                shortest(|| GuardModel::new(fence, TRANSACTIONS, Some(planted)), property)
            }
            Self::Slots(planted) => shortest(|| SlotModel::new(INSTANTS, Some(planted)), property),
        }
    }

    /// The same without the defect: `None`, where all is well.
    pub fn without(self, property: &'static str) -> Option<Vec<String>> {
        match self {
            Self::Lease(_, bounds) => shortest(|| LeaseModel::new(bounds, None), property),
            Self::Guard(_, fence) => shortest(|| GuardModel::new(fence, TRANSACTIONS, None), property),
            Self::Slots(_) => shortest(|| SlotModel::new(INSTANTS, None), property),
        }
    }
}
