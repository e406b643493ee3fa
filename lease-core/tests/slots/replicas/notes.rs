//! What the replicas noted of their rounds, and whether the rules allow it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lease_core::{Clock, FinishAnswer, Moment, Round, RoundEnd, SlotLease, Stuck};
use lease_testkit::ManualClock;

use crate::slots::job::{OwnError, Record, seconds};

/// What has happened, and how often.
pub(crate) type Counts = BTreeMap<Event, usize>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// An end was recorded.
    Finished,
    Rerun,
    /// An instant was given up for a later one.
    GivenUp,
    /// An end skipped later instants.
    Skipped,
    /// A statement took place, or did so later, and its answer never came, or came too late.
    AnswerLost,
    /// A claim of a step failed, or its look for what was cut short.
    StepFailed,
    Killed,
    KilledInARound,
    Stopped,
    Dropped,
    AskedAhead,
    AskedBehind,
    /// Work ended of which nobody was told that its end is on record.
    Uncertain,
    /// An instant ran to its end twice, as is allowed then.
    Twice,
}

#[derive(Clone)]
pub(crate) struct Notes {
    clock: Arc<ManualClock>,
    start: Moment,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    runs: Vec<Run>,
    counts: Counts,
    stuck: Vec<Stuck>,
}

/// One run of an instant. Times and instants are in seconds since the test began.
#[derive(Debug, Clone)]
struct Run {
    replica: usize,
    term: i64,
    slot: i64,
    rerun: bool,
    superseded: Option<(i64, bool)>,
    begun_at: i64,
    returned: Option<Returned>,
    /// Said to have passed, and not before its time.
    passed: Option<i64>,
    told: Option<Told>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Returned {
    Value,
    Failure,
}

/// What the scheduler was told of the end of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Finished(FinishAnswer),
    CutShort,
    Unrecorded,
    /// It went away, or was killed.
    Nobody,
}

const FINISHED: Option<Told> = Some(Told::Finished(FinishAnswer::Finished));

impl Told {
    pub(crate) fn of(round: &Round<(), OwnError>) -> Self {
        match round.end {
            RoundEnd::Finished(answer) => Self::Finished(answer),
            RoundEnd::CutShort => Self::CutShort,
            RoundEnd::Unrecorded(_) => Self::Unrecorded,
        }
    }
}

impl Notes {
    pub(crate) fn new(clock: Arc<ManualClock>) -> Self {
        let start = clock.now();
        Self { clock, start, inner: Arc::default() }
    }

    /// What the database's clock reads.
    pub(crate) fn now(&self) -> i64 {
        self.clock.now().since(self.start).as_secs().cast_signed()
    }

    pub(crate) fn count(&self, event: Event) {
        *self.inner.lock().unwrap().counts.entry(event).or_default() += 1;
    }

    /// A round was granted. The answer stands for this run of it.
    pub(crate) fn begun(&self, replica: usize, round: &SlotLease) -> usize {
        let run = Run {
            replica,
            term: round.lease().term().get(),
            slot: seconds(round.slot()),
            rerun: round.is_rerun(),
            superseded: round.superseded().map(|given_up| (seconds(given_up.slot), given_up.rerun)),
            begun_at: self.now(),
            returned: None,
            passed: None,
            told: None,
        };
        let mut inner = self.inner.lock().unwrap();
        inner.runs.push(run);
        inner.runs.len() - 1
    }

    pub(crate) fn returned(&self, run: usize, failed: bool) {
        let returned = if failed { Returned::Failure } else { Returned::Value };
        self.inner.lock().unwrap().runs[run].returned = Some(returned);
    }

    pub(crate) fn passed(&self, run: usize, passed: i64) {
        self.inner.lock().unwrap().runs[run].passed = Some(passed).filter(|passed| *passed <= self.now());
    }

    pub(crate) fn told(&self, run: usize, told: Told) {
        self.inner.lock().unwrap().runs[run].told = Some(told);
    }

    /// All work ends when it is aborted, so this never comes.
    pub(crate) fn stuck(&self, work: &Stuck) {
        self.inner.lock().unwrap().stuck.push(work.clone());
    }

    pub(crate) fn killed(&self, replica: usize) {
        self.count(Event::Killed);
        let mut in_a_round = false;
        for run in &mut self.inner.lock().unwrap().runs {
            if run.replica == replica && run.told.is_none() {
                run.told = Some(Told::Nobody);
                in_a_round = true;
            }
        }
        if in_a_round {
            self.count(Event::KilledInARound);
        }
    }

    /// Holds every run against the rules, and the record that is left. Answers what has happened.
    pub(crate) fn judge(&self, left: Record) -> Counts {
        let (mut runs, counts) = {
            let inner = self.inner.lock().unwrap();
            assert!(inner.stuck.is_empty(), "work ran on after its grace: {:?}", inner.stuck);
            (inner.runs.clone(), inner.counts.clone())
        };
        // The database's own order.
        runs.sort_by_key(|run| run.term);
        for (n, run) in runs.iter().enumerate() {
            let (before, after) = (&runs[..n], &runs[n + 1..]);
            granted_by_the_rules(run, before);
            ended_by_the_rules(run, after);
            if !runs.iter().any(|other| other.slot == run.slot && other.returned.is_some()) {
                accounted_for(run, after, left);
            }
        }
        assert!(left.is_settled(), "something is left to be done: {left:?}");
        with_counts(counts, &runs)
    }
}

fn granted_by_the_rules(run: &Run, before: &[Run]) {
    assert!(run.slot <= run.begun_at, "granted before its time: {run:?}");
    for earlier in before {
        let in_order = if run.rerun { earlier.slot <= run.slot } else { earlier.slot < run.slot };
        assert!(in_order, "granted after a later one, or again:\n{earlier:?}\n{run:?}");
        assert!(
            earlier.slot < run.slot || !earlier.rerun,
            "granted again after its rerun:\n{earlier:?}\n{run:?}"
        );
    }
    assert!(!run.rerun || run.superseded.is_none(), "a rerun gives nothing up: {run:?}");
}

fn ended_by_the_rules(run: &Run, after: &[Run]) {
    let cut_short = run.told == Some(Told::CutShort);
    assert!(!cut_short || run.returned != Some(Returned::Value), "ran to its end and was cut short: {run:?}");
    for later in after {
        if run.told == FINISHED {
            let last = run.passed.unwrap_or(run.slot).max(run.slot);
            assert!(later.slot > last, "granted though it was finished or skipped:\n{run:?}\n{later:?}");
            assert!(
                later.superseded.is_none_or(|(slot, _)| slot != run.slot),
                "given up though it was finished:\n{run:?}\n{later:?}"
            );
        }
    }
}

/// An instant whose work never returned is run again, given up for a later one, or left as the last of all. A later
/// one may have been granted to nobody, and is then run again or given up in its turn.
fn accounted_for(run: &Run, after: &[Run], left: Record) {
    let given_up = match after.first() {
        Some(next) if next.rerun => return,
        Some(next) => next.superseded,
        None => left.unfinished.map(|slot| (slot, left.rerun == Some(slot))),
    };
    match given_up {
        Some((slot, rerun)) if slot == run.slot => {
            assert!(rerun || !run.rerun, "its rerun is forgotten: {run:?}");
        }
        Some((slot, _)) => assert!(slot > run.slot, "an older one is given up in its place: {run:?}"),
        None => panic!("it is lost: {run:?}"),
    }
}

fn with_counts(mut counts: Counts, runs: &[Run]) -> Counts {
    let those = |which: &dyn Fn(&Run) -> bool| runs.iter().filter(|run| which(run)).count();
    counts.insert(Event::Finished, those(&|run| run.told == FINISHED));
    counts.insert(Event::Rerun, those(&|run| run.rerun));
    counts.insert(Event::GivenUp, those(&|run| run.superseded.is_some()));
    counts.insert(Event::Skipped, those(&|run| run.told == FINISHED && run.passed > Some(run.slot)));
    counts.insert(Event::Uncertain, those(&|run| run.returned.is_some() && run.told != FINISHED));
    let ended: Vec<_> = runs.iter().filter(|run| run.returned == Some(Returned::Value)).collect();
    // That the first one was not told as recorded has been seen above.
    let twice = ended.windows(2).filter(|pair| pair[0].slot == pair[1].slot).count();
    counts.insert(Event::Twice, twice);
    counts
}
