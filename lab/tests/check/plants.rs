//! One defect each, and the rules that must find it: those and no others.

use std::collections::BTreeSet;

use lab::check::{Report, Rule, check};
use lab::history::{Answer, Ask, Event, Fault, FaultKind, Finish, Guard, Row, Seen};
use lease_core::Holder;

use crate::story::{RENEWED, Story, at, granted, lease, row, token, unknown};

fn rules(report: &Report) -> BTreeSet<Rule> {
    report.violations.iter().map(|violation| violation.rule).collect()
}

/// Plants a defect in the lawful story.
#[track_caller]
pub(crate) fn planted(expected: &[Rule], plant: impl FnOnce(&mut Story)) {
    let mut story = Story::lawful();
    plant(&mut story);
    let report = check(&story.history());
    let shown: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    assert_eq!(rules(&report), expected.iter().copied().collect(), "{}", shown.join("\n"));
    assert!(report.violations.iter().all(|violation| !violation.lines.is_empty()));
}

impl Story {
    /// Changes every event for which the closure has another.
    #[track_caller]
    pub(crate) fn change(&mut self, change: impl Fn(u64, &Event) -> Option<Event>) {
        let mut changed = 0;
        for entry in &mut self.entries {
            if let Some(event) = change((entry.at - at(0)) / 1_000_000, &entry.event) {
                entry.event = event;
                changed += 1;
            }
        }
        assert!(changed > 0, "nothing is planted");
    }

    /// Changes the answer that came at a moment.
    #[track_caller]
    pub(crate) fn answer(&mut self, when: u64, answer: &Answer) {
        self.change(|ms, event| match event {
            Event::Answered { call, .. } if ms == when => {
                Some(Event::Answered { call: *call, answer: answer.clone() })
            }
            _ => None,
        });
    }

    #[track_caller]
    pub(crate) fn without(&mut self, is_out: impl Fn(u64, &Event) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|entry| !is_out((entry.at - at(0)) / 1_000_000, &entry.event));
        assert!(self.entries.len() < before, "nothing is planted");
    }

    #[track_caller]
    fn finish(&mut self, when: u64, finish: Finish) {
        self.change(|ms, event| match event {
            Event::Guard { tx, lease, step: Guard::Ended(_) } if ms == when => {
                Some(Event::Guard { tx: *tx, lease: lease.clone(), step: Guard::Ended(finish) })
            }
            _ => None,
        });
    }

    pub(crate) fn fault(&mut self, from: u64, to: u64, kind: FaultKind, ms: i64) {
        let fault = Fault { number: from, kind, process: None, ms: Some(ms), bytes: None, at: String::new() };
        self.say(from, 0, Event::FaultBegan(fault.clone()));
        self.say(to, 0, Event::FaultEnded(fault));
    }
}

#[test]
fn a_lawful_history_passes_and_is_judged_whole() {
    let report = check(&Story::lawful().history());
    assert_eq!(report.violations, []);
    let summary = report.summary;
    assert_eq!((summary.grants, summary.rounds, summary.names_judged), (9, (4, 1), (2, 0)));
    assert_eq!((summary.recoveries, summary.growths_judged), ((1, 0), 3));
    assert_eq!((summary.loss_after_deadline.count, summary.loss_after_deadline.max_ms), (1, 3.0));
    assert_eq!(summary.left_of_ttl.count, 1);
}

#[test]
fn two_that_believe_at_once_are_found() {
    // The first holder still believes when the second has begun to.
    planted(&[Rule::Believers], |story| {
        let (lease, since, until) = (lease("n", 1, 1), at(900), at(2_100));
        story.say(2_100, 1, Event::Believed { lease, since, until });
    });
    // At a single moment.
    planted(&[Rule::Believers], |story| {
        let (lease, since, until) = (lease("n", 1, 1), at(2_500), at(2_500));
        story.say(2_500, 1, Event::Believed { lease, since, until });
    });
    // At the one moment at which both do.
    planted(&[Rule::Believers], |story| {
        let (lease, since, until) = (lease("n", 1, 1), at(2_000), at(2_027));
        story.say(2_100, 1, Event::Believed { lease, since, until });
    });
}

#[test]
fn two_may_believe_when_the_clock_of_the_database_leapt_and_not_when_it_crept() {
    let both = |story: &mut Story, by| {
        story.fault(2_018, 2_019, FaultKind::ClockStepped, by);
        let (lease, since, until) = (lease("n", 1, 1), at(900), at(2_100));
        story.say(2_100, 1, Event::Believed { lease, since, until });
    };
    planted(&[], |story| both(story, 1_001));
    planted(&[Rule::Believers], |story| both(story, 1_000));
    planted(&[Rule::Believers], |story| both(story, -5_000));
}

#[test]
fn a_term_issued_twice_or_out_of_order_is_found() {
    planted(&[Rule::TermTwice, Rule::TermOrder, Rule::Register], |story| story.answer(7_005, &granted(2)));
    planted(&[Rule::TermTwice, Rule::Register], |story| {
        story.change(|_, event| match event {
            Event::FinalRow(row) if row.term == 4 => {
                Some(Event::FinalRow(Row { holder: Holder::from_bytes([77; 16]), ..row.clone() }))
            }
            _ => None,
        });
    });
}

#[test]
fn a_file_of_which_every_row_was_copied_is_judged_as_one_and_one_that_was_replaced_begins_anew() {
    let again = |kind| {
        move |story: &mut Story| {
            story.fault(6_000, 6_500, kind, 500);
            story.answer(7_005, &granted(2));
        }
    };
    planted(&[Rule::TermTwice, Rule::TermOrder, Rule::Register], again(FaultKind::FileCopied));
    let mut story = Story::lawful();
    story.fault(6_000, 6_500, FaultKind::FileCopied, 500);
    let report = check(&story.history());
    assert_eq!((report.violations, report.summary.names_judged), (Vec::new(), (2, 0)));
}

#[test]
fn a_term_that_goes_back_is_found() {
    planted(&[Rule::TermOrder, Rule::Register], |story| {
        story.change(|_, event| match event {
            Event::FinalRow(row) if row.term == 4 => {
                Some(Event::FinalRow(Row { expires_ms: 1, ..self::row("n", 3, 3, 0) }))
            }
            _ => None,
        });
    });
    planted(&[Rule::TermOrder, Rule::Register], |story| story.answer(11_615, &Answer::HeldUnder(3)));
}

#[test]
fn a_ledger_whose_term_falls_is_found() {
    planted(&[Rule::LedgerOrder], |story| {
        story.change(|_, event| match event {
            Event::Ledger(entry) if entry.place == 1 => {
                let mut entry = entry.clone();
                entry.place = 10;
                Some(Event::Ledger(entry))
            }
            _ => None,
        });
    });
}

#[test]
fn answers_to_commits_that_are_not_true_are_found() {
    planted(&[Rule::CommitMissing], |story| {
        story.without(|_, event| matches!(event, Event::Ledger(entry) if entry.place == 2));
    });
    // What is not there is not missing where the ledger is not whole.
    planted(&[], |story| {
        story.without(|_, event| {
            matches!(event, Event::LedgerComplete)
                || matches!(event, Event::Ledger(entry) if entry.place == 2)
        });
    });
    for finish in [Finish::Lost, Finish::Failed, Finish::Dropped] {
        planted(&[Rule::CommitDenied], |story| story.finish(2_515, finish));
    }
    planted(&[], |story| story.finish(2_515, Finish::Unknown));
    planted(&[Rule::LedgerStrange], |story| {
        story.without(|ms, event| ms < 520 && matches!(event, Event::Guard { .. }));
    });
}

#[test]
fn a_commit_sent_after_a_later_claim_is_found() {
    let late = |story: &mut Story, from: u64| {
        for (ms, step) in [
            (0, Guard::Began),
            (5, Guard::Verified),
            (8, Guard::Commits),
            (15, Guard::Ended(Finish::Unknown)),
        ] {
            story.say(from + ms, 1, Event::Guard { tx: 9, lease: lease("n", 1, 1), step });
        }
        let name = "n".parse().unwrap();
        let entry =
            lab::history::Ledger { place: 2, name, term: 1, process: 1, incarnation: 0, tx: 9, database: 0 };
        story.say(73_021, 0, Event::Ledger(entry));
        story.change(|_, event| match event {
            Event::Ledger(entry) if entry.tx != 9 && entry.place > 1 => {
                Some(Event::Ledger(lab::history::Ledger { place: entry.place + 1, ..entry.clone() }))
            }
            _ => None,
        });
    };
    // Sent before the later claim was answered.
    planted(&[], |story| late(story, 2_010));
    planted(&[Rule::CommitAfterClaim], |story| late(story, 2_100));
}

#[test]
fn answers_that_no_order_explains_are_found() {
    // Granted while another holds it.
    planted(&[Rule::Register], |story| {
        story.answer(7_005, &Answer::Held);
        story.without(|ms, event| ms > 7_005 && ms < 7_750 && !matches!(event, Event::Guard { .. }));
        story.claim(1, 4_900, token("n", 3), granted(3));
    });
    // Renewed when it had expired.
    planted(&[Rule::Register], |story| {
        story.renew(1, 10_420, token("n", 3), RENEWED);
        story.change(|ms, event| match event {
            Event::Asked { call, ask: Ask::Claim { token, .. } } if ms == 10_500 => {
                Some(Event::Asked { call: *call, ask: Ask::Claim { token: token.clone(), ttl_ms: 3_000 } })
            }
            _ => None,
        });
    });
    // Refused while it is held.
    planted(&[Rule::Register], |story| story.answer(1_215, &Answer::Lost));
    // Refused though it is free.
    planted(&[Rule::Register], |story| story.claim(2, 73_005, token("n", 50), Answer::Held));
    // Verified by a token that has been replaced.
    planted(&[Rule::Register], |story| {
        story.call(1, 2_100, 2_105, Ask::Verify { token: token("n", 1) }, Some(Answer::HeldUnder(2)));
    });
    // Taken as observed from one that is not there any more.
    planted(&[Rule::Register], |story| {
        let seen = Seen { holder: Holder::from_bytes([2; 16]), expires_ms: 1 };
        let ask = Ask::ClaimObserved { token: token("n", 4), ttl_ms: 3_000, seen };
        story.change(|ms, event| match event {
            Event::Asked { call, .. } if ms == 10_500 => Some(Event::Asked { call: *call, ask: ask.clone() }),
            _ => None,
        });
    });
    // Given back by one that has been replaced, and gone though it was not.
    planted(&[Rule::Register], |story| story.release(1, 2_100, token("n", 1)));
    planted(&[Rule::Register], |story| story.answer(2_015, &Answer::Gone));
    // Read with an expiry that nobody wrote.
    planted(&[Rule::Register], |story| {
        let answer = Answer::Read { now_ms: 21_602, row: Some(row("n", 4, 4, 24_602)) };
        story.answer(11_605, &answer);
    });
}

#[test]
fn answers_about_instants_that_no_order_explains_are_found() {
    // An instant granted that is on record.
    planted(&[Rule::Register], |story| {
        story.change(|ms, event| match event {
            Event::Asked { call, ask: Ask::ClaimSlot { token, ttl_ms, .. } } if ms == 12_500 => {
                let ask = Ask::ClaimSlot { token: token.clone(), ttl_ms: *ttl_ms, slot: 3_000 };
                Some(Event::Asked { call: *call, ask })
            }
            _ => None,
        });
    });
    planted(&[Rule::Register], |story| story.answer(12_505, &granted(5)));
    planted(&[Rule::Register], |story| story.answer(1_025, &Answer::FinishLost { recorded: true }));
    planted(&[Rule::Register], |story| {
        let last = Ask::LastSlot { name: lab::history::Name("s".parse().unwrap()) };
        story.call(2, 2_500, 2_505, last, Some(Answer::Last(Some(1_000))));
    });
}

#[test]
fn what_nobody_knows_may_have_happened_and_explains_what_needs_it() {
    // The release that freed the name has no answer.
    planted(&[], |story| story.answer(2_015, &unknown()));
    // It was never sent.
    planted(&[Rule::Register], |story| {
        story.answer(2_015, &Answer::Failed { kind: "Full".into(), no_effect: true });
    });
    // A term that nobody knows of was granted to a claim without an answer, and only by one.
    planted(&[], |story| {
        story.answer(10_505, &granted(5));
        story.change(|_, event| match event {
            Event::FinalRow(row) if row.term == 4 => Some(Event::FinalRow(Row { term: 5, ..row.clone() })),
            Event::Answered { call, answer: Answer::HeldUnder(4) } => {
                Some(Event::Answered { call: *call, answer: Answer::HeldUnder(5) })
            }
            Event::Answered { call, answer: Answer::Read { now_ms, row: Some(row) } } => {
                let row = Some(Row { term: 5, ..row.clone() });
                Some(Event::Answered { call: *call, answer: Answer::Read { now_ms: *now_ms, row } })
            }
            _ => None,
        });
        story.call(1, 7_600, 0, Ask::Claim { token: token("n", 60), ttl_ms: 1 }, None);
    });
    planted(&[Rule::Register], |story| {
        story.answer(10_505, &granted(5));
        story.without(|ms, _| (11_600..11_610).contains(&ms));
        story.change(|_, event| match event {
            Event::FinalRow(row) if row.term == 4 => Some(Event::FinalRow(Row { term: 5, ..row.clone() })),
            Event::Answered { call, answer: Answer::HeldUnder(4) } => {
                Some(Event::Answered { call: *call, answer: Answer::HeldUnder(5) })
            }
            _ => None,
        });
    });
}

#[test]
fn what_grows_is_found_and_what_only_moves_is_not() {
    let sampled = |story: &mut Story, of: fn(u64) -> u64| {
        story.change(|ms, event| match event {
            Event::Sample(sample) => {
                let mut sample = sample.clone();
                sample.fds = Some(of(ms / 1_000));
                Some(Event::Sample(sample))
            }
            _ => None,
        });
    };
    planted(&[Rule::Growth], |story| sampled(story, |second| 20 + second));
    planted(&[], |story| sampled(story, |second| if second == 70 { 500 } else { 20 + second % 5 }));
    planted(&[Rule::Growth], |story| {
        story.change(|ms, event| match event {
            Event::Sample(sample) => {
                let mut sample = sample.clone();
                sample.rss_bytes = Some((50 << 20) + ms * 1_000);
                Some(Event::Sample(sample))
            }
            _ => None,
        });
    });
}
