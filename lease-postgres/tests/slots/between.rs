//! What somebody else does between the read and the write of a claim of an instant: the read is not taken for true any more.
//! The same for every server.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lease_core::store::{
    Claim, ClaimAnswer, ConditionalAnswer, FinishAnswer, SlotAnswer, SlotEnd, Superseded, UnfinishedSlot,
};
use lease_core::{Holder, Instance, LeaseName, LeaseStore, Slot, Term};
use lease_testkit::{Direction, Proxy};
use tokio::runtime::Handle;

use crate::world::World;

/// For what must go well, on however slow a machine.
const LONG: Duration = Duration::from_secs(120);

/// No test outlives it.
const TTL: Duration = Duration::from_secs(3600);

pub(crate) async fn a_claim_of_an_instant_is_judged_again_when_the_row_has_moved_since_it_was_read(
    world: &World,
) {
    let (proxy, store) = world.wired();
    let (store, others) = (&*store, &world.beside);
    for (n, (meanwhile, expected)) in BESIDE.into_iter().enumerate() {
        let round = new_claim(&format!("n{n}"));
        store.claim_slot(&round, slot(1), LONG).await.unwrap();
        store.release(&round.name, &round.holder, LONG).await.unwrap();
        let answer = claim_beside((&proxy, store), others, &round, meanwhile).await;
        assert_eq!(answer, expected.answer(), "{meanwhile:?}");
    }
    for (n, (meanwhile, expected)) in BESIDE_A_NEW_NAME.into_iter().enumerate() {
        let round = new_claim(&format!("new {n}"));
        let answer = claim_beside((&proxy, store), others, &round, meanwhile).await;
        assert_eq!(answer, expected.answer(), "{meanwhile:?} on a new name");
    }
}

fn slot(n: i64) -> Slot {
    Slot::from_millis(n * 60_000).unwrap()
}

fn new_claim(name: &str) -> Claim {
    Claim {
        name: LeaseName::new(name).unwrap(),
        holder: Holder::mint().unwrap(),
        ttl: TTL,
        instance: Instance::named("test"),
    }
}

/// Claims instant 3 by way of the proxy, and has `meanwhile` done when its first statement has been answered.
async fn claim_beside(
    (proxy, store): (&Proxy, &dyn LeaseStore),
    others: &Arc<dyn LeaseStore>,
    round: &Claim,
    meanwhile: Meanwhile,
) -> SlotAnswer {
    // Both statements are prepared, and of a refusal it is the first alone that is sent.
    let known = new_claim("known");
    for n in 1..3 {
        store.claim_slot(&known, slot(n), LONG).await.unwrap();
        store.release(&known.name, &known.holder, LONG).await.unwrap();
    }
    proxy.reset();
    assert_eq!(store.claim_slot(&known, slot(1), LONG).await.unwrap(), SlotAnswer::Passed);
    let read = proxy.log().iter().filter(|passed| passed.direction == Direction::ToServer).count();
    let (others, former, runtime) = (Arc::clone(others), round.clone(), Handle::current());
    proxy.call_before(read as u64 + 1, Direction::ToServer, move || {
        let beside = thread::spawn(move || runtime.block_on(meanwhile.does(&*others, &former)));
        beside.join().unwrap();
    });
    let claim = Claim { holder: Holder::mint().unwrap(), ..round.clone() };
    let answer = store.claim_slot(&claim, slot(3), LONG).await.unwrap();
    assert_eq!(proxy.planned(), 0, "{meanwhile:?} was not done between the two statements");
    let row = store.inspect(&round.name, LONG).await.unwrap().row.unwrap();
    assert_eq!(matches!(answer, SlotAnswer::Granted { .. }), row.holder == claim.holder, "{row:?}");
    // What has been claimed or skipped is never behind what is on record.
    match answer {
        SlotAnswer::Granted { .. } => assert_eq!(row.slot, Some(slot(3))),
        SlotAnswer::Passed => assert!(row.slot >= Some(slot(3)), "{row:?}"),
        _ => {}
    }
    answer
}

/// The round of instant 1 that was cut short, and what somebody does about its name while instant 3 is being claimed.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    /// Its holder says that it ran to its end, and that these instants have passed.
    Finishes {
        passed: Option<i64>,
    },
    /// The same by a holder who has lost it.
    RecordsTheEnd,
    ClaimsPlainly(Then),
    ClaimsSlot(i64, Then),
    Reruns(Then),
}

#[derive(Debug, Clone, Copy)]
enum Then {
    Holds,
    Releases,
    Finishes,
}

const BESIDE: [(Meanwhile, Expected); 13] = [
    (Meanwhile::Finishes { passed: Some(3) }, Expected::Passed),
    (Meanwhile::Finishes { passed: Some(4) }, Expected::Passed),
    (Meanwhile::Finishes { passed: Some(2) }, Expected::Granted(2, None)),
    (Meanwhile::Finishes { passed: None }, Expected::Granted(2, None)),
    (Meanwhile::RecordsTheEnd, Expected::Granted(2, None)),
    (Meanwhile::ClaimsPlainly(Then::Releases), Expected::Granted(3, Some((1, false)))),
    (Meanwhile::ClaimsSlot(3, Then::Releases), Expected::Passed),
    (Meanwhile::ClaimsSlot(4, Then::Finishes), Expected::Passed),
    (Meanwhile::ClaimsSlot(2, Then::Holds), Expected::Held),
    (Meanwhile::ClaimsSlot(2, Then::Releases), Expected::Granted(3, Some((2, false)))),
    (Meanwhile::ClaimsSlot(2, Then::Finishes), Expected::Granted(3, None)),
    (Meanwhile::Reruns(Then::Holds), Expected::Held),
    (Meanwhile::Reruns(Then::Releases), Expected::Granted(3, Some((1, true)))),
];

/// On a name that nobody has claimed before.
const BESIDE_A_NEW_NAME: [(Meanwhile, Expected); 4] = [
    (Meanwhile::ClaimsPlainly(Then::Holds), Expected::Held),
    (Meanwhile::ClaimsPlainly(Then::Releases), Expected::Granted(2, None)),
    (Meanwhile::ClaimsSlot(3, Then::Finishes), Expected::Passed),
    (Meanwhile::ClaimsSlot(2, Then::Releases), Expected::Granted(2, Some((2, false)))),
];

/// The answer, with the term and the instant given up.
#[derive(Debug, Clone, Copy)]
enum Expected {
    Granted(i64, Option<(i64, bool)>),
    Held,
    Passed,
}

impl Expected {
    fn answer(self) -> SlotAnswer {
        match self {
            Self::Granted(term, given_up) => SlotAnswer::Granted {
                term: Term::new(term).unwrap(),
                superseded: given_up.map(|(n, rerun)| Superseded { slot: slot(n), rerun }),
            },
            Self::Held => SlotAnswer::Held,
            Self::Passed => SlotAnswer::Passed,
        }
    }
}

impl Meanwhile {
    async fn does(self, store: &dyn LeaseStore, round: &Claim) {
        let own = Claim { holder: Holder::mint().unwrap(), ..round.clone() };
        let end = SlotEnd {
            name: round.name.clone(),
            holder: round.holder,
            slot: slot(1),
            passed: None,
            lost: matches!(self, Self::RecordsTheEnd),
        };
        let (then, claimed) = match self {
            Self::Finishes { passed } => {
                let end = SlotEnd { passed: passed.map(slot), ..end };
                assert_eq!(store.finish_slot(&end, LONG).await.unwrap(), FinishAnswer::Finished);
                return;
            }
            Self::RecordsTheEnd => {
                let recorded = FinishAnswer::Lost { recorded: true };
                assert_eq!(store.finish_slot(&end, LONG).await.unwrap(), recorded);
                return;
            }
            Self::ClaimsPlainly(then) => {
                let answer = store.claim(&own, LONG).await.unwrap();
                assert!(matches!(answer, ClaimAnswer::Granted(_)), "{answer:?}");
                (then, 0)
            }
            Self::ClaimsSlot(n, then) => {
                let answer = store.claim_slot(&own, slot(n), LONG).await.unwrap();
                assert!(matches!(answer, SlotAnswer::Granted { .. }), "{answer:?}");
                (then, n)
            }
            Self::Reruns(then) => {
                let unfinished = UnfinishedSlot { name: own.name.clone(), slot: slot(1), term: Term::FIRST };
                let answer = store.claim_rerun(&own, &unfinished, LONG).await.unwrap();
                assert!(matches!(answer, ConditionalAnswer::Granted(_)), "{answer:?}");
                (then, 1)
            }
        };
        match then {
            Then::Holds => {}
            Then::Releases => drop(store.release(&own.name, &own.holder, LONG).await.unwrap()),
            Then::Finishes => {
                let end = SlotEnd { holder: own.holder, slot: slot(claimed), ..end };
                assert_eq!(store.finish_slot(&end, LONG).await.unwrap(), FinishAnswer::Finished);
            }
        }
    }
}
