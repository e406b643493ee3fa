//! A history made up by hand: two processes, four terms, guarded transactions, rounds, a partition, a kill, a heal.

use lab::history::{
    Answer, Ask, Change, End, Entry, Event, Fault, FaultKind, Finish, GivenUp, Guard, History, LeaseId,
    Ledger, Loss, Name, RoundId, Row, Sample, Setting, Token,
};
use lease_core::Holder;

const MS: u64 = 1_000_000;

/// Milliseconds of the story as a moment.
pub(crate) fn at(ms: u64) -> u64 {
    1_000_000_000_000 + ms * MS
}

pub(crate) const TTL: i64 = 3_000;

/// A history as it is made.
#[derive(Clone, Default)]
pub(crate) struct Story {
    pub(crate) entries: Vec<Entry>,
    calls: u64,
}

pub(crate) fn token(name: &str, holder: u8) -> Token {
    Token { name: name.parse().unwrap(), holder: Holder::from_bytes([holder; 16]) }
}

pub(crate) fn lease(name: &str, term: i64, holder: u8) -> LeaseId {
    LeaseId { name: name.parse().unwrap(), term, holder: Holder::from_bytes([holder; 16]) }
}

pub(crate) fn granted(term: i64) -> Answer {
    Answer::Granted { term, superseded: None }
}

pub(crate) const RENEWED: Answer = Answer::Renewed { step_down: false };

pub(crate) fn unknown() -> Answer {
    Answer::Failed { kind: "Timeout".to_owned(), no_effect: false }
}

impl Story {
    pub(crate) fn history(&self) -> History {
        History::new(self.entries.clone())
    }

    pub(crate) fn say(&mut self, ms: u64, process: u32, event: Event) {
        self.entries.push(Entry { at: at(ms), process, incarnation: 0, event });
    }

    /// A statement; without an answer it stays open.
    pub(crate) fn call(&mut self, process: u32, from: u64, to: u64, ask: Ask, answer: Option<Answer>) {
        self.calls += 1;
        let call = self.calls;
        self.say(from, process, Event::Asked { call, ask });
        if let Some(answer) = answer {
            self.say(to, process, Event::Answered { call, answer });
        }
    }

    pub(crate) fn claim(&mut self, process: u32, from: u64, token: Token, answer: Answer) {
        self.call(process, from, from + 5, Ask::Claim { token, ttl_ms: TTL }, Some(answer));
    }

    pub(crate) fn renew(&mut self, process: u32, from: u64, token: Token, answer: Answer) {
        self.call(process, from, from + 5, Ask::Renew { token, ttl_ms: TTL }, Some(answer));
    }

    pub(crate) fn release(&mut self, process: u32, from: u64, token: Token) {
        self.call(process, from, from + 5, Ask::Release { token }, Some(Answer::Released));
    }

    fn guard(&mut self, process: u32, from: u64, tx: u64, lease: &LeaseId, finish: Finish) {
        let mut step =
            |ms, step| self.say(from + ms, process, Event::Guard { tx, lease: lease.clone(), step });
        step(0, Guard::Began);
        step(5, Guard::Verified);
        step(7, Guard::Wrote(1));
        step(8, Guard::Commits);
        step(15, Guard::Ended(finish));
    }

    fn started(&mut self, process: u32) {
        let setting = Setting {
            ttl: 3_000 * MS,
            renew: 400 * MS,
            attempt: 1_000 * MS,
            deadline: 2_000 * MS,
            grace: 900 * MS,
            margin: 100 * MS,
        };
        self.say(0, process, Event::Started { pid: process, backend: "postgres".into(), setting });
    }

    fn believed(&mut self, process: u32, lease: &LeaseId, since: u64, until: u64) {
        let (since, until) = (at(since), at(until));
        let ms = (until - at(0)) / 1_000_000;
        self.say(ms, process, Event::Believed { lease: lease.clone(), since, until });
    }

    /// The whole of it.
    pub(crate) fn lawful() -> Self {
        let mut story = Self::default();
        story.started(1);
        story.started(2);
        for process in [1, 2] {
            story.say(1, process, Event::Wants(Name("n".parse().unwrap())));
        }
        story.first_two_terms();
        story.third_and_fourth_term();
        story.rounds();
        story.end();
        story
    }

    /// Term 1 is given back, term 2 is lost to a partition.
    fn first_two_terms(&mut self) {
        let (one, two) = (lease("n", 1, 1), lease("n", 2, 2));
        self.claim(1, 10, token("n", 1), granted(1));
        self.say(16, 1, Event::WorkBegan(one.clone()));
        self.claim(2, 100, token("n", 9), Answer::Held);
        for from in [410, 810, 1_210, 1_610] {
            self.renew(1, from, token("n", 1), RENEWED);
        }
        self.guard(1, 500, 1, &one, Finish::Committed);
        self.guard(1, 900, 2, &one, Finish::Failed);
        self.believed(1, &one, 17, 900);
        self.believed(1, &one, 900, 2_000);
        self.say(2_003, 1, Event::WorkEnded(one.clone()));
        self.say(2_005, 1, Event::Disbelieved(one.clone()));
        self.release(1, 2_010, token("n", 1));
        self.say(2_016, 1, Event::GivenBack(one));
        self.claim(2, 2_020, token("n", 2), granted(2));
        self.say(2_026, 2, Event::WorkBegan(two.clone()));
        for from in [2_420, 2_820] {
            self.renew(2, from, token("n", 2), RENEWED);
        }
        self.guard(2, 2_500, 1, &two, Finish::Committed);
        let partition = Fault {
            number: 1,
            kind: FaultKind::Partition,
            process: Some((2, 0)),
            ms: None,
            bytes: None,
            at: String::new(),
        };
        self.say(3_000, 0, Event::FaultBegan(partition.clone()));
        let ask = |ttl_ms| Ask::Renew { token: token("n", 2), ttl_ms };
        self.call(2, 3_220, 4_220, ask(TTL), Some(unknown()));
        self.call(2, 4_220, 0, ask(TTL), None);
        self.guard(2, 4_300, 2, &two, Finish::Lost);
        self.believed(2, &two, 2_027, 4_815);
        self.say(4_821, 2, Event::Disbelieved(two.clone()));
        self.say(4_823, 2, Event::Lost { lease: two.clone(), reason: Loss::Deadline });
        self.say(4_900, 2, Event::WorkEnded(two));
        self.say(9_000, 0, Event::FaultEnded(partition));
        self.say(9_001, 0, Event::Healed);
    }

    /// The holder of term 3 is killed, and term 4 is given back.
    fn third_and_fourth_term(&mut self) {
        let (three, four) = (lease("n", 3, 3), lease("n", 4, 4));
        self.claim(1, 4_000, token("n", 8), Answer::Held);
        self.claim(1, 7_000, token("n", 3), granted(3));
        self.say(7_006, 1, Event::WorkBegan(three.clone()));
        self.renew(1, 7_400, token("n", 3), RENEWED);
        self.guard(1, 7_500, 3, &three, Finish::Committed);
        self.believed(1, &three, 7_007, 7_700);
        self.say(7_800, 0, Event::Process { process: 1, incarnation: 0, change: Change::Killed });
        self.claim(2, 9_100, token("n", 7), Answer::Held);
        self.claim(2, 10_500, token("n", 4), granted(4));
        self.say(10_506, 2, Event::WorkBegan(four.clone()));
        for from in [10_900, 11_300] {
            self.renew(2, from, token("n", 4), RENEWED);
        }
        let (read, row) = (Ask::Inspect { name: Name("n".parse().unwrap()) }, row("n", 4, 4, 24_302));
        let answer = Answer::Read { now_ms: 21_602, row: Some(row) };
        self.call(2, 11_600, 11_605, read, Some(answer));
        self.call(2, 11_610, 11_615, Ask::Verify { token: token("n", 4) }, Some(Answer::HeldUnder(4)));
        self.believed(2, &four, 10_507, 11_900);
        self.say(11_950, 2, Event::WorkEnded(four.clone()));
        self.release(2, 12_000, token("n", 4));
        self.say(12_006, 2, Event::GivenBack(four));
    }

    /// Of `s`: instant 1000 is finished; 2000 is cut short, run again and finished; 3000 is cut short and given up for 4000.
    fn rounds(&mut self) {
        let ask = |holder, slot| Ask::ClaimSlot { token: token("s", holder), ttl_ms: TTL, slot };
        self.call(2, 1_000, 1_005, ask(11, 1_000), Some(granted(1)));
        self.round(2, 1_010, (1_000, 1, 11), false, None, End::Finished);
        self.call(2, 1_100, 1_105, ask(20, 1_000), Some(Answer::Passed));
        self.call(2, 2_000, 2_005, ask(12, 2_000), Some(granted(2)));
        self.round(2, 2_010, (2_000, 2, 12), false, None, End::CutShort);
        let again = Ask::ClaimRerun { token: token("s", 13), ttl_ms: TTL, slot: 2_000, term: 2 };
        self.call(2, 2_100, 2_105, again, Some(granted(3)));
        self.round(2, 2_110, (2_000, 3, 13), true, None, End::Finished);
        self.call(2, 3_000, 3_005, ask(14, 3_000), Some(granted(4)));
        self.round(2, 3_010, (3_000, 4, 14), false, None, End::CutShort);
        let given_up = Some(GivenUp { slot: 3_000, rerun: false });
        let grant = Answer::Granted { term: 5, superseded: given_up };
        self.call(2, 12_500, 12_505, ask(15, 4_000), Some(grant));
        self.round(2, 12_510, (4_000, 5, 15), false, given_up, End::Finished);
    }

    fn round(
        &mut self,
        process: u32,
        from: u64,
        (slot, term, holder): (i64, i64, u8),
        rerun: bool,
        superseded: Option<GivenUp>,
        end: End,
    ) {
        let round = RoundId { name: "s".parse().unwrap(), slot, term };
        self.say(from, process, Event::RoundBegan { round: round.clone(), rerun, superseded });
        if end == End::Finished {
            self.say(from + 10, process, Event::RoundEnded(round.clone()));
            let ask = Ask::FinishSlot { token: token("s", holder), slot, passed: None, lost: false };
            self.call(process, from + 12, from + 15, ask, Some(Answer::Finished));
        } else {
            self.release(process, from + 12, token("s", holder));
        }
        self.say(from + 20, process, Event::RoundSettled { round, end });
    }

    fn end(&mut self) {
        for second in 0..60 {
            let sample =
                Sample { rss_bytes: Some(50 << 20), fds: Some(20), threads: Some(8), ..Sample::default() };
            self.say(13_000 + second * 1_000, 2, Event::Sample(sample));
        }
        self.say(73_000, 2, Event::Done);
        self.say(73_010, 0, Event::FinalRow(row("n", 4, 4, 0)));
        self.say(73_010, 0, Event::FinalRow(Row { slot: 4_000, rerun: 2_000, ..row("s", 5, 15, 0) }));
        for (place, term, process, tx) in [(1, 1, 1, 1), (2, 2, 2, 1), (3, 3, 1, 3)] {
            let name = "n".parse().unwrap();
            let entry = Ledger { place, name, term, process, incarnation: 0, tx, database: 0 };
            self.say(73_020, 0, Event::Ledger(entry));
        }
        self.say(73_030, 0, Event::LedgerComplete);
    }
}

pub(crate) fn row(name: &str, term: i64, holder: u8, expires_ms: i64) -> Row {
    let holder = Holder::from_bytes([holder; 16]);
    Row { name: name.parse().unwrap(), holder, term, expires_ms, slot: 0, unfinished: 0, rerun: 0 }
}
