//! What a history says, found once for all checkers.

use std::collections::{BTreeMap, HashMap};

use lease_core::LeaseName;

use super::limits;
use crate::history::{Answer, Ask, Change, Entry, Event, FaultKind, History, LeaseId, Setting};

/// An incarnation: process, and how often it had been started before.
pub(super) type Who = (u32, u32);

/// What is said of one incarnation.
#[derive(Debug, Clone, Default)]
pub(super) struct Life {
    pub(super) setting: Option<Setting>,
    pub(super) backend: String,
    /// When it was gone, in order or not.
    pub(super) ended: Option<u64>,
    /// During these it stood still, in order; they may overlap.
    pub(super) stood: Vec<(u64, u64)>,
    /// During these it stood still, or the database was slow to answer it; in order too.
    held_up: Vec<(u64, u64)>,
}

impl Life {
    /// For how much of a time it stood still, by what is proven.
    pub(super) fn stood_within(&self, from: u64, to: u64) -> u64 {
        within(&self.stood, from, to)
    }

    /// For how much of a time it stood still, or waited for an answer for longer than a healthy database takes.
    pub(super) fn held_up_within(&self, from: u64, to: u64) -> u64 {
        within(&self.held_up, from, to)
    }
}

/// How much of a time lies in spans that are in order and may overlap.
fn within(spans: &[(u64, u64)], from: u64, to: u64) -> u64 {
    let (mut sum, mut upto) = (0, from);
    for (begin, end) in spans {
        let (begin, end) = ((*begin).max(upto), (*end).min(to));
        if begin < end {
            sum += end - begin;
            upto = end;
        }
    }
    sum
}

/// A fault, from its begin to its end.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) kind: FaultKind,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) ms: i64,
    at: String,
    number: (Who, u64),
}

/// The steps of the database's clock, in order, with the sums of them up to each.
#[derive(Debug, Default)]
pub(super) struct ClockSteps {
    /// From when to when, and by how much forward and back all up to this one went.
    steps: Vec<(u64, u64, u64, u64)>,
}

impl ClockSteps {
    fn of<'a>(faults: impl Iterator<Item = &'a Span>) -> Self {
        let (mut forward, mut back) = (0, 0);
        let steps = faults.map(|step| {
            let by = nanos(step.ms.unsigned_abs());
            if step.ms > 0 {
                forward += by;
            } else {
                back += by;
            }
            (step.from, step.to, forward, back)
        });
        Self { steps: steps.collect() }
    }

    /// By how much the clock may have gone forward, and back, between two moments.
    pub(super) fn between(&self, from: u64, to: u64) -> (u64, u64) {
        // They are in the order of their begins; one that ends late only makes more of it.
        let sums =
            |upto: usize| upto.checked_sub(1).map_or((0, 0), |last| (self.steps[last].2, self.steps[last].3));
        let before = sums(self.steps.partition_point(|(_, end, ..)| *end < from));
        let after = sums(self.steps.partition_point(|(begin, ..)| *begin <= to));
        (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1))
    }
}

/// A statement, and what became of it. The numbers are places in the entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) asked: usize,
    /// `None`: open.
    pub(super) answered: Option<usize>,
}

/// The steps of a guarded transaction, as places in the entries.
#[derive(Debug, Clone, Default)]
pub(super) struct Tx {
    pub(super) began: Option<usize>,
    pub(super) verified: Option<usize>,
    pub(super) commits: Option<usize>,
    pub(super) ended: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) entries: &'a [Entry],
    /// The moment of the last line.
    pub(super) over: u64,
    pub(super) lives: BTreeMap<Who, Life>,
    pub(super) faults: Vec<Span>,
    pub(super) clock: ClockSteps,
    /// From when to when the file was being replaced.
    replaced: Vec<(u64, u64)>,
    /// Names whose rows were changed by hand; an empty one stands for all.
    edited: Vec<String>,
    pub(super) healed: Vec<u64>,
    /// In the order in which they were asked.
    pub(super) calls: Vec<Call>,
    pub(super) guards: BTreeMap<(Who, u64), Tx>,
    /// The moments at which a renewal that has succeeded was sent, in order, the claim among them.
    pub(super) renewals: HashMap<LeaseId, Vec<u64>>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let entries = history.entries();
        let mut facts = Facts {
            entries,
            over: entries.last().map_or(0, |last| last.at),
            lives: BTreeMap::new(),
            faults: Vec::new(),
            clock: ClockSteps::default(),
            replaced: Vec::new(),
            edited: Vec::new(),
            healed: Vec::new(),
            calls: Vec::new(),
            guards: BTreeMap::new(),
            renewals: HashMap::new(),
        };
        facts.read();
        facts.join_renewals();
        facts.clock = ClockSteps::of(facts.faults(FaultKind::ClockStepped));
        let replaced = facts.faults(FaultKind::FileReplaced).map(|span| (span.from, span.to)).collect();
        let edited = facts.faults(FaultKind::RowsEdited).map(|span| span.at.clone()).collect();
        (facts.replaced, facts.edited) = (replaced, edited);
        facts.join_what_held_up();
        facts
    }

    fn join_what_held_up(&mut self) {
        for call in &self.calls {
            let Some(answered) = call.answered.map(|place| &self.entries[place]) else { continue };
            let asked = &self.entries[call.asked];
            // No answer in the time of an attempt, or none at all, is no sign of health either.
            let is_none = matches!(&answered.event, Event::Answered { answer: Answer::Failed { kind, .. }, .. }
                if ["Timeout", "Unavailable"].contains(&kind.as_str()));
            let late = asked.at.saturating_add(if is_none { 0 } else { limits::PROMPT });
            if late < answered.at {
                let who = (asked.process, asked.incarnation);
                self.lives.entry(who).or_default().held_up.push((late, answered.at));
            }
        }
        for life in self.lives.values_mut() {
            life.held_up.extend_from_slice(&life.stood);
            life.stood.sort_unstable();
            life.held_up.sort_unstable();
        }
    }

    fn read(&mut self) {
        let mut open: HashMap<(Who, u64), usize> = HashMap::new();
        let mut stopped: HashMap<Who, u64> = HashMap::new();
        // The moment of an answer can be that of its question: by the line's place alone they are told apart.
        for (place, entry) in self.entries.iter().enumerate() {
            let who = (entry.process, entry.incarnation);
            let life = self.lives.entry(who).or_default();
            match &entry.event {
                Event::Started { backend, setting, .. } => {
                    life.setting = Some(*setting);
                    life.backend.clone_from(backend);
                }
                Event::Done => life.ended = Some(entry.at),
                Event::Stood { ms } => {
                    life.stood.push((entry.at.saturating_sub(ms * 1_000_000), entry.at));
                }
                Event::Process { process, incarnation, change } => {
                    let other = (*process, *incarnation);
                    let life = self.lives.entry(other).or_default();
                    match change {
                        Change::Killed | Change::Died(_) => life.ended = Some(entry.at),
                        Change::Stopped => {
                            stopped.insert(other, entry.at);
                        }
                        Change::Continued => {
                            life.stood.extend(stopped.remove(&other).map(|from| (from, entry.at)));
                        }
                    }
                }
                Event::Asked { call, .. } => {
                    open.insert((who, *call), self.calls.len());
                    self.calls.push(Call { asked: place, answered: None });
                }
                Event::Answered { call, .. } => {
                    if let Some(call) = open.remove(&(who, *call)) {
                        self.calls[call].answered = Some(place);
                    }
                }
                Event::FaultBegan(fault) => self.faults.push(Span {
                    kind: fault.kind,
                    from: entry.at,
                    to: u64::MAX,
                    ms: fault.ms.unwrap_or(0),
                    number: (who, fault.number),
                    at: fault.at.clone(),
                }),
                Event::FaultEnded(fault) => {
                    let number = (who, fault.number);
                    if let Some(span) = self.faults.iter_mut().rev().find(|span| span.number == number) {
                        span.to = entry.at;
                    }
                }
                Event::Healed => self.healed.push(entry.at),
                Event::Guard { tx, step, .. } => {
                    use crate::history::Guard;
                    let tx = self.guards.entry((who, *tx)).or_default();
                    match step {
                        Guard::Began => tx.began = Some(place),
                        Guard::Commits => tx.commits = Some(place),
                        Guard::Ended(_) => tx.ended = Some(place),
                        Guard::Verified => tx.verified = Some(place),
                        Guard::Wrote(_) => {}
                    }
                }
                _ => {}
            }
        }
        for (who, from) in stopped {
            let life = self.lives.entry(who).or_default();
            life.stood.push((from, life.ended.unwrap_or(u64::MAX)));
        }
    }

    /// Of each lease when it was renewed. A statement and the lease have the token in common.
    fn join_renewals(&mut self) {
        let mut terms: HashMap<_, i64> = HashMap::new();
        let mut sent: Vec<(LeaseId, u64)> = Vec::new();
        for call in &self.calls {
            let asked = &self.entries[call.asked];
            let Some(answered) = call.answered else { continue };
            let (Event::Asked { ask, .. }, Event::Answered { answer, .. }) =
                (&asked.event, &self.entries[answered].event)
            else {
                continue;
            };
            match (ask, answer) {
                (
                    Ask::Claim { token, .. }
                    | Ask::ClaimObserved { token, .. }
                    | Ask::ClaimSlot { token, .. }
                    | Ask::ClaimRerun { token, .. },
                    Answer::Granted { term, .. },
                ) => {
                    terms.insert(token.holder, *term);
                    let lease = LeaseId { name: token.name.clone(), term: *term, holder: token.holder };
                    sent.push((lease, asked.at));
                }
                (Ask::Renew { token, .. }, Answer::Renewed { .. }) => {
                    if let Some(term) = terms.get(&token.holder) {
                        let lease = LeaseId { name: token.name.clone(), term: *term, holder: token.holder };
                        sent.push((lease, asked.at));
                    }
                }
                (Ask::RenewMany { tokens, .. }, Answer::Many(renewed)) => {
                    for (token, _) in tokens.iter().zip(renewed).filter(|(_, renewed)| **renewed) {
                        if let Some(term) = terms.get(&token.holder) {
                            let lease =
                                LeaseId { name: token.name.clone(), term: *term, holder: token.holder };
                            sent.push((lease, asked.at));
                        }
                    }
                }
                _ => {}
            }
        }
        // On SQLite a guarded transaction carries a renewal, which counts from when it has the file's lock.
        for ((who, _), tx) in &self.guards {
            let carries = self.lives.get(who).is_some_and(|life| life.backend == "sqlite");
            if let (true, Some(verified)) = (carries, tx.verified)
                && let Event::Guard { lease, .. } = &self.entries[verified].event
            {
                sent.push((lease.clone(), self.entries[verified].at));
            }
        }
        for (lease, at) in sent {
            self.renewals.entry(lease).or_default().push(at);
        }
        for sent in self.renewals.values_mut() {
            sent.sort_unstable();
        }
    }

    /// The last successful renewal of a lease that was sent before a moment.
    pub(super) fn renewed_before(&self, lease: &LeaseId, at: u64) -> Option<u64> {
        let sent = self.renewals.get(lease)?;
        sent[..sent.partition_point(|sent| *sent <= at)].last().copied()
    }

    pub(super) fn life(&self, entry: &Entry) -> Option<&Life> {
        self.lives.get(&(entry.process, entry.incarnation))
    }

    /// The setting of who wrote a line.
    pub(super) fn setting(&self, entry: &Entry) -> Option<Setting> {
        self.life(entry)?.setting
    }

    /// The longest ttl of all processes, in nanoseconds.
    pub(super) fn ttl(&self) -> u64 {
        let settings = self.lives.values().filter_map(|life| life.setting);
        settings.map(|setting| setting.ttl).max().unwrap_or(0)
    }

    pub(super) fn faults(&self, kind: FaultKind) -> impl Iterator<Item = &Span> {
        self.faults.iter().filter(move |fault| fault.kind == kind)
    }

    /// In which database a moment is: how often the file had been replaced. `None`: while it was being replaced.
    pub(super) fn database_at(&self, at: u64) -> Option<usize> {
        let over = self.replaced.partition_point(|(_, to)| *to < at);
        let is_on = self.replaced.get(over).is_some_and(|(from, _)| *from <= at);
        (!is_on).then_some(over)
    }

    /// Whether nothing is promised of the rows of a name.
    pub(super) fn is_edited(&self, name: &str) -> bool {
        self.edited.iter().any(|edited| edited.is_empty() || edited == name)
    }
}

/// The name that a statement is about, if one and if it can tell something of its row.
pub(super) fn name_of(ask: &Ask) -> Option<&LeaseName> {
    match ask {
        Ask::Claim { token, .. }
        | Ask::ClaimObserved { token, .. }
        | Ask::ClaimSlot { token, .. }
        | Ask::ClaimRerun { token, .. }
        | Ask::Renew { token, .. }
        | Ask::Verify { token }
        | Ask::Release { token }
        | Ask::FinishSlot { token, .. } => Some(&token.name),
        Ask::Clear { name, .. } | Ask::Inspect { name } | Ask::LastSlot { name } => Some(&name.0),
        Ask::RenewMany { .. } | Ask::Resign { .. } | Ask::Other(_) => None,
    }
}

pub(super) fn nanos(ms: u64) -> u64 {
    ms * 1_000_000
}

/// For people: seconds from the first line.
pub(super) fn seconds(facts: &Facts<'_>, at: u64) -> String {
    let since = at.saturating_sub(facts.entries.first().map_or(0, |first| first.at));
    format!("{}.{:03} s", since / 1_000_000_000, since / 1_000_000 % 1_000)
}
