//! A scheduler's steps while one of its statements goes wrong: whatever that was, nothing is lost beyond the rules,
//! and nothing runs to its end twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lease_core::clock::{Clock, sleep_until};
use lease_core::{Error, ErrorKind, FinishAnswer, Leases, RoundEnd, SlotClaimed, SlotLease};
use lease_testkit::{Fault, Op};

use super::job::{JOB, OwnError, Record, at};
use crate::common::{SECOND, World};

const FAULTS: [Fault; 13] = [
    Fault::FailBefore(ErrorKind::Unavailable),
    Fault::FailAfter(ErrorKind::Unavailable),
    Fault::FailLate(Duration::from_secs(2), ErrorKind::Unavailable),
    Fault::FailLate(Duration::from_secs(8), ErrorKind::Unavailable),
    Fault::DelayBefore(Duration::from_secs(2)),
    Fault::DelayBefore(Duration::from_secs(8)),
    Fault::DelayAfter(Duration::from_secs(2)),
    Fault::DelayAfter(Duration::from_secs(8)),
    Fault::HangBefore,
    Fault::HangAfter,
    Fault::Ghost(Duration::from_secs(2)),
    Fault::Ghost(Duration::from_secs(12)),
    Fault::Ghost(Duration::from_secs(30)),
];

/// What a scheduler sends for a round that runs to its end, and beyond that for one that is cut short.
const WHOLE: [Op; 5] = [Op::LastSlot, Op::UnfinishedSlots, Op::ClaimSlot, Op::Renew, Op::FinishSlot];
const CUT: [Op; 2] = [Op::Release, Op::ClaimRerun];

#[derive(Clone)]
struct Scheduler {
    leases: Leases,
    clock: Arc<dyn Clock>,
    notes: Arc<Notes>,
}

#[derive(Default)]
struct Notes {
    /// The first round is cut short while its work runs.
    cut: AtomicBool,
    /// How often the work came to its end.
    ends: AtomicUsize,
    /// An end was told that is not known to have been recorded in time.
    uncertain: AtomicBool,
}

impl Scheduler {
    fn new(world: &World, leases: Leases, notes: &Arc<Notes>) -> Self {
        Self { leases, clock: world.clock.clone(), notes: Arc::clone(notes) }
    }

    async fn step(self) -> Result<(), Error> {
        self.leases.last_slot(JOB).await?;
        for found in self.leases.unfinished_slots([JOB]).await? {
            if let Some(round) = self.leases.claim_rerun(&found).await? {
                self.run(round).await;
            }
        }
        if let SlotClaimed::Granted(round) = self.leases.claim_slot(JOB, at(0), Duration::ZERO).await? {
            self.run(round).await;
        }
        Ok(())
    }

    async fn run(&self, round: SlotLease) {
        let (clock, notes) = (Arc::clone(&self.clock), Arc::clone(&self.notes));
        let work = async move |_| {
            sleep_until(&clock, clock.now() + SECOND * 5).await;
            notes.ends.fetch_add(1, Ordering::SeqCst);
            Ok::<_, OwnError>(())
        };
        let running = round.run(|| None, work);
        let done = if self.notes.cut.swap(false, Ordering::SeqCst) {
            tokio::select! {
                done = running => done,
                () = sleep_until(&self.clock, self.clock.now() + SECOND * 3) => return,
            }
        } else {
            running.await
        };
        if !matches!(done.end, RoundEnd::Finished(FinishAnswer::Finished) | RoundEnd::CutShort) {
            self.notes.uncertain.store(true, Ordering::SeqCst);
        }
    }
}

#[tokio::test]
async fn a_statement_that_goes_wrong_once_costs_no_round_but_an_unknown_rerun() {
    for (cut, op) in
        WHOLE.map(|op| (false, op)).into_iter().chain(WHOLE.into_iter().chain(CUT).map(|op| (true, op)))
    {
        for fault in FAULTS {
            let (notes, record) = play(cut, op, |store| store.next(op, fault)).await;
            let case = format!("{op:?}, {fault:?}, cut: {cut}");
            // Granted to nobody counts as cut short; what is cut short twice is given up.
            let unknown = is_granted_to_nobody(fault);
            let used_up = unknown && (op == Op::ClaimRerun || op == Op::ClaimSlot && cut);
            let rerun = cut || op == Op::ClaimSlot && unknown;
            let expected = Record { rerun: rerun.then_some(0), ..Record::finished(0) };
            assert_eq!(record, if used_up { Record::used_up(0) } else { expected }, "{case}");
            assert_eq!(notes.ends.load(Ordering::SeqCst), usize::from(!used_up), "{case}");
            assert!(!notes.uncertain.load(Ordering::SeqCst), "{case}");
        }
    }
}

/// Whether the claim takes place, and its caller is not told in time.
fn is_granted_to_nobody(fault: Fault) -> bool {
    match fault {
        Fault::FailBefore(_) | Fault::HangBefore => false,
        Fault::DelayBefore(delay) | Fault::DelayAfter(delay) => delay > SECOND * 5,
        Fault::FailAfter(_) | Fault::FailLate(..) | Fault::HangAfter | Fault::Ghost(_) => true,
    }
}

#[tokio::test]
async fn statements_that_go_wrong_for_minutes_lose_nothing_beyond_the_rules() {
    let (mut twice, mut used_up) = (0, 0);
    for op in WHOLE.into_iter().chain(CUT) {
        for fault in FAULTS {
            for cut in [false, true] {
                if !cut && CUT.contains(&op) {
                    continue;
                }
                let (notes, record) = play(cut, op, |store| store.always(op, fault)).await;
                let case = format!("{op:?}, {fault:?}, cut: {cut}");
                let ends = notes.ends.load(Ordering::SeqCst);
                assert!(record.is_settled() && record.last == Some(0), "{case}: {record:?}");
                // What ran to its end twice was told as unrecorded before.
                assert!(ends < 2 || ends == 2 && notes.uncertain.load(Ordering::SeqCst), "{case}: {ends}");
                assert!(ends > 0 || record == Record::used_up(0), "{case}: {record:?}");
                twice += usize::from(ends == 2);
                used_up += usize::from(ends == 0);
            }
        }
    }
    // Both are possible, and met here.
    assert!(twice > 0 && used_up > 0, "{twice}, {used_up}");
}

/// A replica whose statements go wrong takes two steps, then another whose do not takes two.
async fn play(cut: bool, op: Op, plan: impl FnOnce(&lease_testkit::FaultStore)) -> (Arc<Notes>, Record) {
    let world = World::new();
    let notes = Arc::new(Notes { cut: AtomicBool::new(cut), ..Notes::default() });
    plan(&world.store);
    for leases in [world.leases.clone(), world.other()] {
        for _ in 0..2 {
            let step = tokio::spawn(Scheduler::new(&world, leases.clone(), &notes).step());
            world.play(SECOND * 60).await;
            assert!(step.is_finished(), "a step is still under way");
        }
    }
    assert!(world.store.calls(op) > 0, "{op:?} was never sent");
    (notes, world.record().await)
}
