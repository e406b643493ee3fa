//! Random histories of a real register, the memory store, and random defects in them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use lab::check::{Rule, check};
use lab::history::{Answer, Ask, Event, Fault, FaultKind, Name, Row, Seen};
use lease_core::store::{
    Claim, ClaimAnswer, ConditionalAnswer, DbTime, FinishAnswer, Observed, ReleaseAnswer, RenewAnswer,
    SlotAnswer, SlotEnd, UnfinishedSlot, VerifyAnswer,
};
use lease_core::{Instance, LeaseName, LeaseStore as _, Slot, Term};
use lease_testkit::{ManualClock, MemoryStore};

use crate::story::{RENEWED, Story, TTL, granted, token, unknown};

const NAMES: [&str; 2] = ["a", "b"];

/// The same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let bound = u64::try_from(of.len()).ok().filter(|bound| *bound > 0)?;
        of.get(usize::try_from(self.below(bound)).ok()?)
    }
}

struct World {
    random: Random,
    clock: Arc<ManualClock>,
    store: MemoryStore,
    story: Story,
    now: u64,
    minted: u8,
    /// The tokens granted or perhaps granted, of each name.
    known: [Vec<u8>; 2],
    seen: [Option<Row>; 2],
    /// Statements that take place later than their sender hears.
    ghosts: Vec<(u64, Ask)>,
    steps_clock: bool,
}

const WITHIN: Duration = Duration::from_secs(1);

impl World {
    fn new(seed: u64, steps_clock: bool) -> Self {
        let clock = ManualClock::new();
        Self {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            store: MemoryStore::with_clock(Arc::clone(&clock) as _),
            clock,
            story: Story::default(),
            now: 0,
            minted: 0,
            known: [vec![], vec![]],
            seen: [None, None],
            ghosts: Vec::new(),
            steps_clock,
        }
    }

    /// What the store says to a statement at this moment.
    fn ask(&self, ask: &Ask) -> Answer {
        let ttl = |ms: &i64| Duration::from_millis(ms.unsigned_abs());
        let claim = |token: &lab::history::Token, ms: &i64| Claim {
            name: token.name.clone(),
            holder: token.holder,
            ttl: ttl(ms),
            instance: Instance::current(),
        };
        let slot = |ms: i64| Slot::from_millis(ms).unwrap();
        let conditional = |answer| match answer {
            ConditionalAnswer::Granted(term) => granted(term.get()),
            ConditionalAnswer::Moved => Answer::Moved,
        };
        let store = &self.store;
        let answer = async {
            match ask {
                Ask::Claim { token, ttl_ms } => {
                    match store.claim(&claim(token, ttl_ms), WITHIN).await.unwrap() {
                        ClaimAnswer::Granted(term) => granted(term.get()),
                        ClaimAnswer::Held => Answer::Held,
                    }
                }
                Ask::ClaimObserved { token, ttl_ms, seen } => {
                    let expires_at = DbTime::from_millis(seen.expires_ms);
                    let seen = Observed { holder: seen.holder, expires_at };
                    conditional(store.claim_observed(&claim(token, ttl_ms), &seen, WITHIN).await.unwrap())
                }
                Ask::ClaimSlot { token, ttl_ms, slot: ms } => {
                    match store.claim_slot(&claim(token, ttl_ms), slot(*ms), WITHIN).await.unwrap() {
                        SlotAnswer::Granted { term, superseded } => Answer::Granted {
                            term: term.get(),
                            superseded: superseded.map(|given_up| lab::history::GivenUp {
                                slot: given_up.slot.as_millis(),
                                rerun: given_up.rerun,
                            }),
                        },
                        SlotAnswer::Held => Answer::Held,
                        SlotAnswer::Passed => Answer::Passed,
                        SlotAnswer::NotYet(_) => Answer::NotYet { ms: 1 },
                    }
                }
                Ask::ClaimRerun { token, ttl_ms, slot: ms, term } => {
                    let term = Term::new(*term).unwrap();
                    let unfinished = UnfinishedSlot { name: token.name.clone(), slot: slot(*ms), term };
                    conditional(store.claim_rerun(&claim(token, ttl_ms), &unfinished, WITHIN).await.unwrap())
                }
                Ask::FinishSlot { token, slot: ms, passed, lost } => {
                    let (name, holder) = (token.name.clone(), token.holder);
                    let passed = passed.map(slot);
                    let end = SlotEnd { name, holder, slot: slot(*ms), passed, lost: *lost };
                    match store.finish_slot(&end, WITHIN).await.unwrap() {
                        FinishAnswer::Finished => Answer::Finished,
                        FinishAnswer::Lost { recorded } => Answer::FinishLost { recorded },
                    }
                }
                Ask::Renew { token, ttl_ms } => {
                    match store.renew(&token.name, &token.holder, ttl(ttl_ms), WITHIN).await.unwrap() {
                        RenewAnswer::Renewed(_) => RENEWED,
                        RenewAnswer::Lost => Answer::Lost,
                    }
                }
                Ask::Verify { token } => {
                    match store.verify(&token.name, &token.holder, WITHIN).await.unwrap() {
                        VerifyAnswer::Held(term) => Answer::HeldUnder(term.get()),
                        VerifyAnswer::Lost => Answer::Lost,
                    }
                }
                Ask::Release { token } => {
                    match store.release(&token.name, &token.holder, WITHIN).await.unwrap() {
                        ReleaseAnswer::Released => Answer::Released,
                        ReleaseAnswer::Gone => Answer::Gone,
                    }
                }
                Ask::Inspect { name } => {
                    let seen = store.inspect(&name.0, WITHIN).await.unwrap();
                    let row = seen.row.as_ref().map(Row::from);
                    Answer::Read { now_ms: seen.now.as_millis(), row }
                }
                _ => unreachable!("not asked here"),
            }
        };
        answer.now_or_never().expect("the memory store answers at once")
    }

    fn pass(&mut self, to: u64) {
        self.ghosts.sort_by_key(|(at, _)| *at);
        while self.ghosts.first().is_some_and(|(at, _)| *at <= to) {
            let (at, ask) = self.ghosts.remove(0);
            self.clock.advance(Duration::from_millis(at.saturating_sub(self.now)));
            self.now = self.now.max(at);
            self.ask(&ask);
        }
        self.clock.advance(Duration::from_millis(to - self.now));
        self.now = to;
    }

    fn statement(&mut self, name: usize) -> Ask {
        let text: LeaseName = NAMES[name].parse().unwrap();
        let of_known = |world: &mut Self| {
            // Mostly the last one.
            let known = &world.known[name];
            let last = known.last().copied();
            if world.random.below(4) > 0 { last } else { world.random.one(&known.clone()).copied() }
        };
        let db_now = 1_700_000_000_000 + i64::try_from(self.now).unwrap();
        let seen = self.seen[name].clone();
        match (self.random.below(12), of_known(self), seen) {
            (0..4, Some(holder), _) => Ask::Renew { token: token(NAMES[name], holder), ttl_ms: TTL },
            (4, Some(holder), _) => Ask::Verify { token: token(NAMES[name], holder) },
            (5, Some(holder), _) => Ask::Release { token: token(NAMES[name], holder) },
            (6, ..) => Ask::Inspect { name: Name(text) },
            (7, _, Some(row)) => {
                let seen = Seen { holder: row.holder, expires_ms: row.expires_ms };
                Ask::ClaimObserved { token: self.mint(name), ttl_ms: TTL, seen }
            }
            (8, _, Some(row)) if row.unfinished > 0 => {
                let (slot, term) = (row.unfinished, row.term);
                Ask::ClaimRerun { token: self.mint(name), ttl_ms: TTL, slot, term }
            }
            (9, Some(holder), Some(row)) if row.slot > 0 => {
                let passed = (self.random.below(3) == 0).then_some(db_now - 50);
                let lost = self.random.below(4) == 0;
                Ask::FinishSlot { token: token(NAMES[name], holder), slot: row.slot, passed, lost }
            }
            (10, ..) => {
                let slot = db_now - 100 + i64::try_from(self.random.below(120)).unwrap();
                Ask::ClaimSlot { token: self.mint(name), ttl_ms: TTL, slot }
            }
            _ => Ask::Claim { token: self.mint(name), ttl_ms: TTL },
        }
    }

    fn mint(&mut self, name: usize) -> lab::history::Token {
        self.minted = self.minted.checked_add(1).expect("short histories");
        token(NAMES[name], self.minted)
    }

    fn step(&mut self) {
        let pause = match self.random.below(40) {
            0 => 3_500,
            1..6 => self.random.below(800),
            _ => self.random.below(60),
        };
        self.pass(self.now + 1 + pause);
        if self.steps_clock && self.random.below(60) == 0 {
            let by = [-14_000, -1_000, 1_000, 14_000][usize::try_from(self.random.below(4)).unwrap()];
            let fault = Fault {
                number: self.now,
                kind: FaultKind::ClockStepped,
                process: None,
                ms: Some(by),
                bytes: None,
                at: String::new(),
            };
            self.store.step_clock(by);
            self.story.say(self.now, 0, Event::FaultBegan(fault.clone()));
            self.story.say(self.now + 1, 0, Event::FaultEnded(fault));
            self.pass(self.now + 2);
        }
        let name = usize::try_from(self.random.below(2)).unwrap();
        let ask = self.statement(name);
        let process = 1 + u32::try_from(self.random.below(3)).unwrap();
        // Questions are before the statement and answers after, so those of several overlap.
        let from = self.now.saturating_sub(self.random.below(40));
        let to = self.now + 1 + self.random.below(40);
        let minted = match &ask {
            Ask::Claim { token, .. }
            | Ask::ClaimObserved { token, .. }
            | Ask::ClaimSlot { token, .. }
            | Ask::ClaimRerun { token, .. } => Some(token.holder),
            _ => None,
        };
        let answer = match self.random.below(100) {
            0..4 => {
                self.ask(&ask);
                unknown()
            }
            4..8 => unknown(),
            8..11 => {
                self.ghosts.push((self.now + self.random.below(3_000), ask.clone()));
                unknown()
            }
            11..13 => Answer::Failed { kind: "Full".into(), no_effect: true },
            _ => self.ask(&ask),
        };
        if let Answer::Read { row, .. } = &answer {
            self.seen[name].clone_from(row);
        }
        let may_hold = matches!(answer, Answer::Granted { .. } | Answer::Failed { no_effect: false, .. });
        if may_hold && minted.is_some() {
            self.known[name].push(self.minted);
        }
        let answer = (self.random.below(50) > 0).then_some(answer);
        self.story.call(process, from, to, ask, answer);
    }
}

fn lawful(seed: u64, steps_clock: bool) -> Story {
    let mut world = World::new(seed, steps_clock);
    for _ in 0..150 {
        world.step();
    }
    world.pass(world.now + 4_000);
    for name in NAMES {
        let name: LeaseName = name.parse().unwrap();
        let row = world.store.inspect(&name, WITHIN).now_or_never().unwrap().unwrap().row;
        if let Some(row) = row {
            world.story.say(world.now, 0, Event::FinalRow(Row::from(&row)));
        }
    }
    world.story
}

const HISTORIES: u64 = 200;

#[test]
fn histories_of_a_real_register_are_lawful() {
    let (mut judged, mut left) = (0, 0);
    for seed in 1..=HISTORIES {
        let report = check(&lawful(seed, seed % 2 == 0).history());
        let shown: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        assert!(report.is_clean(), "seed {seed}: {}", shown.join("\n"));
        judged += report.summary.names_judged.0;
        left += report.summary.names_judged.1;
    }
    assert!(left * 20 <= judged, "{left} of {judged} names were not judged");
}

/// Changes one answer to another that the question can have; `None` where there is none.
fn corrupted(answer: &Answer, random: &mut Random) -> Option<Answer> {
    Some(match answer {
        Answer::Granted { term, superseded } => {
            let other = if random.below(2) == 0 { term + 1 } else { (term - 1).max(1) };
            if other == *term {
                return None;
            }
            Answer::Granted { term: other, superseded: *superseded }
        }
        Answer::HeldUnder(term) => Answer::HeldUnder(term + 1),
        Answer::Renewed { .. } => Answer::Lost,
        Answer::Lost => RENEWED,
        Answer::Gone => Answer::Released,
        Answer::Released => Answer::Gone,
        Answer::Held => granted(i64::try_from(1 + random.below(30)).unwrap()),
        _ => return None,
    })
}

#[test]
fn most_random_defects_are_found() {
    let (mut planted, mut found, mut missed) = (0, 0, Vec::new());
    for seed in 1..=HISTORIES {
        let mut story = lawful(seed, false);
        let mut random = Random(seed | 1 << 40);
        let answers: Vec<usize> = (0..story.entries.len())
            .filter(|at| matches!(story.entries[*at].event, Event::Answered { .. }))
            .collect();
        let Some(at) = random.one(&answers).copied() else { continue };
        let Event::Answered { call, answer } = &story.entries[at].event else { continue };
        let Some(other) = corrupted(answer, &mut random) else { continue };
        // A verification that is refused is no renewal that is granted.
        let is_verify = story.entries.iter().any(|entry| {
            matches!(&entry.event, Event::Asked { call: asked, ask: Ask::Verify { .. } } if asked == call)
        });
        if is_verify && other == RENEWED {
            continue;
        }
        missed.push(format!("seed {seed}: {answer:?} as {other:?}"));
        story.entries[at].event = Event::Answered { call: *call, answer: other };
        let report = check(&story.history());
        planted += 1;
        let is_found = report
            .violations
            .iter()
            .any(|violation| matches!(violation.rule, Rule::Register | Rule::TermTwice | Rule::TermOrder));
        if is_found {
            found += 1;
            missed.pop();
        }
    }
    println!("{found} of {planted} found; not: {missed:#?}");
    assert!(planted >= 60 && found * 10 >= planted * 8, "{found} of {planted}: {missed:#?}");
}
