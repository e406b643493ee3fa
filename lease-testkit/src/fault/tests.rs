use futures_util::FutureExt;
use lease_core::store::{Claim, ClaimAnswer, DbTime, Effect, Observed, Page, SlotEnd, UnfinishedSlot};
use lease_core::{Holder, Instance, Slot, Term};

use super::*;
use crate::{ManualClock, MemoryStore};

const SECOND: Duration = Duration::from_secs(1);
const ALMOST_A_SECOND: Duration = Duration::from_millis(999);

struct Bench {
    clock: Arc<ManualClock>,
    memory: MemoryStore,
    store: FaultStore,
}

impl Bench {
    fn new() -> Self {
        let clock = ManualClock::new();
        let memory = MemoryStore::with_clock(clock.clone());
        Self { store: FaultStore::new(memory.clone(), clock.clone()), memory, clock }
    }

    async fn claim(&self, claim: &Claim) -> Result<ClaimAnswer, StoreError> {
        self.store.claim(claim, SECOND).await
    }

    /// Whether the claim has taken place, whatever was answered.
    async fn took_place(&self, claim: &Claim) -> bool {
        let row = self.memory.inspect(&claim.name, SECOND).await.unwrap().row;
        row.is_some_and(|row| row.holder == claim.holder)
    }
}

fn claim(name: &str) -> Claim {
    Claim {
        name: LeaseName::new(name).unwrap(),
        holder: Holder::mint().unwrap(),
        ttl: SECOND * 15,
        instance: Instance::named("test"),
    }
}

const GRANTED: ClaimAnswer = ClaimAnswer::Granted(Term::FIRST);

#[tokio::test]
async fn a_failure_before_the_statement_has_no_effect_and_says_so() {
    let (bench, claim) = (Bench::new(), claim("n"));
    bench.store.next(Op::Claim, Fault::FailBefore(ErrorKind::ReadOnly));
    let error = bench.claim(&claim).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::ReadOnly, Effect::None));
    assert!(!bench.took_place(&claim).await);
}

#[tokio::test]
async fn a_lost_answer_has_its_effect_and_does_not_say_so() {
    let (bench, claim) = (Bench::new(), claim("n"));
    bench.store.next(Op::Claim, Fault::FailAfter(ErrorKind::Unavailable));
    let error = bench.claim(&claim).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    assert!(bench.took_place(&claim).await);
}

#[tokio::test]
async fn a_delayed_statement_takes_place_when_the_delay_has_passed() {
    let (bench, claim) = (Bench::new(), claim("n"));
    bench.store.next(Op::Claim, Fault::DelayBefore(SECOND));
    let mut call = Box::pin(bench.claim(&claim));
    assert!(call.as_mut().now_or_never().is_none());
    bench.clock.advance(ALMOST_A_SECOND);
    assert!(call.as_mut().now_or_never().is_none());
    assert!(!bench.took_place(&claim).await);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(call.now_or_never().unwrap().unwrap(), GRANTED);
}

#[tokio::test]
async fn a_delayed_answer_comes_after_the_statement_took_place() {
    let (bench, claim) = (Bench::new(), claim("n"));
    bench.store.next(Op::Claim, Fault::DelayAfter(SECOND));
    let mut call = Box::pin(bench.claim(&claim));
    assert!(call.as_mut().now_or_never().is_none());
    assert!(bench.took_place(&claim).await);
    bench.clock.advance(SECOND);
    assert_eq!(call.now_or_never().unwrap().unwrap(), GRANTED);
}

#[tokio::test]
async fn what_hangs_never_answers_and_takes_place_only_when_it_hangs_after() {
    for (fault, takes_place) in [(Fault::HangBefore, false), (Fault::HangAfter, true)] {
        let (bench, claim) = (Bench::new(), claim("n"));
        bench.store.next(Op::Claim, fault);
        let mut call = Box::pin(bench.claim(&claim));
        assert!(call.as_mut().now_or_never().is_none());
        bench.clock.advance(SECOND * 1_000_000);
        assert!(call.as_mut().now_or_never().is_none());
        assert_eq!(bench.took_place(&claim).await, takes_place, "{fault:?}");
    }
}

#[tokio::test]
async fn a_ghost_takes_place_after_its_caller_has_gone() {
    let (bench, claim) = (Bench::new(), claim("n"));
    bench.store.next(Op::Claim, Fault::Ghost(SECOND));
    assert!(bench.claim(&claim).now_or_never().is_none());
    bench.clock.play(ALMOST_A_SECOND).await;
    assert!(!bench.took_place(&claim).await);
    bench.clock.play(Duration::from_millis(1)).await;
    assert!(bench.took_place(&claim).await);
}

#[tokio::test]
async fn queued_faults_come_first_and_once_then_the_plan_then_what_is_always_so() {
    let bench = Bench::new();
    let kind = async || bench.store.check().await.err().map(|error| error.kind());
    bench.store.always(Op::Check, Fault::FailBefore(ErrorKind::Other));
    bench.store.plan(|call| (call.number == 3).then_some(Fault::FailBefore(ErrorKind::Full)));
    bench.store.next(Op::Check, Fault::FailBefore(ErrorKind::Busy));
    bench.store.next(Op::Check, Fault::FailBefore(ErrorKind::Denied));
    let kinds = [kind().await, kind().await, kind().await, kind().await];
    assert_eq!(kinds, [ErrorKind::Busy, ErrorKind::Denied, ErrorKind::Full, ErrorKind::Other].map(Some));
    bench.store.heal();
    assert_eq!(kind().await, None);
}

#[tokio::test]
async fn every_call_is_counted_and_logged_with_its_first_name_and_its_size() {
    let bench = Bench::new();
    let names = ["a", "b"].map(|name| LeaseName::new(name).unwrap());
    bench.store.next(Op::UnfinishedSlots, Fault::FailBefore(ErrorKind::Busy));
    assert!(bench.store.unfinished_slots(&names, SECOND).await.is_err());
    bench.clock.advance(SECOND);
    assert!(bench.store.unfinished_slots(&[], SECOND).await.is_ok());
    assert!(bench.store.last_slot(&names[1], SECOND).await.is_ok());
    let (end, op) = (bench.clock.now(), Op::UnfinishedSlots);
    assert_eq!(
        bench.store.log(),
        [
            Call { op, number: 1, name: Some(names[0].clone()), size: 2, at: end - SECOND },
            Call { op, number: 2, name: None, size: 0, at: end },
            Call { op: Op::LastSlot, number: 1, name: Some(names[1].clone()), size: 1, at: end },
        ]
    );
    assert_eq!((bench.store.calls(op), bench.store.calls(Op::Claim)), (2, 0));
}

#[tokio::test]
async fn a_plan_may_use_the_store_it_plans_for() {
    let bench = Bench::new();
    let seen = bench.store.clone();
    bench.store.plan(move |_| (seen.calls(Op::Check) > 1).then_some(Fault::FailBefore(ErrorKind::Other)));
    assert!(bench.store.check().await.is_ok());
    assert!(bench.store.check().await.is_err());
}

#[tokio::test]
async fn each_method_is_counted_as_itself_and_asks_its_own_of_the_store() {
    let bench = Bench::new();
    let (store, claim) = (&bench.store, claim("n"));
    let (name, holder) = (&claim.name, &claim.holder);
    let seen = Observed { holder: *holder, expires_at: DbTime::RELEASED };
    let slot = Slot::from_millis(1).unwrap();
    let end = SlotEnd { name: name.clone(), holder: *holder, slot, passed: None, lost: false };
    let unfinished = UnfinishedSlot { name: name.clone(), slot, term: Term::FIRST };
    // Without a table each of them fails, so that each shows what it has sent.
    bench.memory.drop_table();
    store.plan(|call| (call.op == Op::Migrate).then_some(Fault::FailBefore(ErrorKind::Schema)));
    let kinds = [
        store.migrate().await.err(),
        store.check().await.err(),
        store.claim(&claim, SECOND).await.err(),
        store.renew(name, holder, SECOND, SECOND).await.err(),
        store.renew_many(&[], SECOND, SECOND).await.err(),
        store.verify(name, holder, SECOND).await.err(),
        store.release(name, holder, SECOND).await.err(),
        store.claim_observed(&claim, &seen, SECOND).await.err(),
        store.inspect(name, SECOND).await.err(),
        store.list(&Page::default(), SECOND).await.err(),
        store.clear(name, &seen, SECOND).await.err(),
        store.resign(name, Term::FIRST, SECOND).await.err(),
        store.claim_slot(&claim, slot, SECOND).await.err(),
        store.finish_slot(&end, SECOND).await.err(),
        store.unfinished_slots(&[], SECOND).await.err(),
        store.claim_rerun(&claim, &unfinished, SECOND).await.err(),
        store.last_slot(name, SECOND).await.err(),
    ]
    .map(|error| error.map(|error| error.kind()));
    assert_eq!(kinds, [Some(ErrorKind::Schema); 17]);
    let ops: Vec<Op> = store.log().into_iter().map(|call| call.op).collect();
    assert_eq!(
        ops,
        [
            Op::Migrate,
            Op::Check,
            Op::Claim,
            Op::Renew,
            Op::RenewMany,
            Op::Verify,
            Op::Release,
            Op::ClaimObserved,
            Op::Inspect,
            Op::List,
            Op::Clear,
            Op::Resign,
            Op::ClaimSlot,
            Op::FinishSlot,
            Op::UnfinishedSlots,
            Op::ClaimRerun,
            Op::LastSlot,
        ]
    );
}

#[tokio::test]
async fn a_late_failure_takes_place_at_once_and_is_told_later() {
    let (bench, claim) = (Bench::new(), claim("n"));
    bench.store.next(Op::Claim, Fault::FailLate(SECOND, ErrorKind::Unavailable));
    let (store, sent) = (bench.store.clone(), claim.clone());
    let asking = tokio::spawn(async move { store.claim(&sent, SECOND).await });
    bench.clock.play(ALMOST_A_SECOND).await;
    assert!(bench.took_place(&claim).await && !asking.is_finished());
    bench.clock.play(SECOND).await;
    let error = asking.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
}

#[tokio::test]
async fn calls_are_in_flight_until_they_are_answered_or_dropped() {
    let (bench, claim) = (Bench::new(), claim("n"));
    bench.claim(&claim).await.unwrap();
    assert_eq!(bench.store.in_flight(), 0);
    bench.store.next(Op::Claim, Fault::HangAfter);
    let mut hung = Box::pin(bench.claim(&claim));
    assert!(hung.as_mut().now_or_never().is_none());
    assert_eq!(bench.store.in_flight(), 1);
    drop(hung);
    assert_eq!(bench.store.in_flight(), 0);
}
