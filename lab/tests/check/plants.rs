//! One defect each, and the rules that must find it: those and no others.

use std::collections::BTreeSet;

use lab::check::{Report, Rule, check};
use lab::history::{Answer, Ask, End, Event, Fault, FaultKind, Finish, Guard, Loss, RoundId, Row, Seen};
use lease_core::Holder;

use crate::story::{RENEWED, Story, at, granted, lease, row, token, unknown};

fn rules(report: &Report) -> BTreeSet<Rule> {
    report.violations.iter().map(|violation| violation.rule).collect()
}

/// Plants a defect in the lawful story.
#[track_caller]
fn planted(expected: &[Rule], plant: impl FnOnce(&mut Story)) {
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
    fn change(&mut self, change: impl Fn(u64, &Event) -> Option<Event>) {
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
    fn answer(&mut self, when: u64, answer: &Answer) {
        self.change(|ms, event| match event {
            Event::Answered { call, .. } if ms == when => {
                Some(Event::Answered { call: *call, answer: answer.clone() })
            }
            _ => None,
        });
    }

    #[track_caller]
    fn without(&mut self, is_out: impl Fn(u64, &Event) -> bool) {
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

    fn fault(&mut self, from: u64, to: u64, kind: FaultKind, ms: i64) {
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
fn a_row_that_expires_early_is_lawful_only_if_the_clock_was_stepped() {
    let early = |story: &mut Story| story.claim(1, 5_000, token("n", 3), granted(3));
    let early = |story: &mut Story| {
        story.without(|ms, event| (7_000..7_790).contains(&ms) && !matches!(event, Event::Sample(_)));
        story.without(|_, event| matches!(event, Event::Ledger(entry) if entry.place == 3));
        early(story);
    };
    planted(&[Rule::Register], early);
    planted(&[], |story| {
        early(story);
        story.fault(4_950, 4_951, FaultKind::ClockStepped, 14_000);
    });
}

#[test]
fn belief_past_the_deadline_is_found() {
    planted(&[Rule::BeliefPastDeadline], |story| {
        let (lease, since, until) = (lease("n", 2, 2), at(4_815), at(4_821));
        story.say(4_822, 2, Event::Believed { lease, since, until });
    });
    planted(&[Rule::BeliefPastDeadline], |story| {
        let (lease, since, until) = (lease("n", 3, 3), at(9_700), at(9_700));
        story.say(9_701, 2, Event::Believed { lease, since, until });
    });
}

#[test]
fn a_loss_told_late_is_found_unless_the_process_stood_still() {
    let late = |story: &mut Story| {
        story.without(|_, event| matches!(event, Event::Lost { .. }));
        story.say(7_800, 2, Event::Lost { lease: lease("n", 2, 2), reason: Loss::Deadline });
    };
    planted(&[Rule::LossLate], late);
    planted(&[], |story| {
        late(story);
        story.say(5_400, 2, Event::Stood { ms: 500 });
    });
}

#[test]
fn work_past_the_ttl_is_found_unless_the_process_stood_still() {
    let long = |story: &mut Story| {
        story.without(|ms, event| ms == 4_900 && matches!(event, Event::WorkEnded(_)));
        story.say(8_000, 2, Event::WorkEnded(lease("n", 2, 2)));
    };
    planted(&[Rule::WorkPastTtl], long);
    planted(&[], |story| {
        long(story);
        story.say(5_400, 2, Event::Stood { ms: 500 });
    });
    // A process that never ends its work.
    planted(&[Rule::WorkPastTtl], |story| {
        story.without(|ms, event| ms == 4_900 && matches!(event, Event::WorkEnded(_)));
    });
}

#[test]
fn a_name_that_is_not_held_again_after_heal_is_found() {
    let late = |story: &mut Story| {
        story.without(|ms, event| (10_000..12_400).contains(&ms) && !matches!(event, Event::Sample(_)));
        story.change(|_, event| match event {
            Event::FinalRow(held) if held.term == 4 => {
                Some(Event::FinalRow(Row { expires_ms: 17_000, ..row("n", 3, 3, 0) }))
            }
            _ => None,
        });
    };
    planted(&[Rule::NotHeldAgain], late);
    // Nobody wants it any more; a fault comes before it can be judged.
    planted(&[], |story| {
        late(story);
        story.say(9_500, 2, Event::WantsNoMore(lab::history::Name("n".parse().unwrap())));
    });
    planted(&[], |story| {
        late(story);
        story.fault(9_900, 9_950, FaultKind::Partition, 0);
    });
}

#[test]
fn rounds_against_the_rules_are_found() {
    let begins = |story: &mut Story, ms, slot, term, rerun| {
        let round = RoundId { name: "s".parse().unwrap(), slot, term };
        story.say(ms, 2, Event::RoundBegan { round, rerun, superseded: None });
    };
    planted(&[Rule::RerunOfFinished], |story| {
        // Of its own name, whose statements nobody sees.
        story.change(|ms, event| match event {
            Event::RoundBegan { round, superseded, .. } if ms == 2_110 => Some(Event::RoundBegan {
                round: RoundId { slot: 1_000, ..round.clone() },
                rerun: true,
                superseded: *superseded,
            }),
            Event::RoundBegan { round, superseded, .. } if ms == 2_010 => Some(Event::RoundBegan {
                round: RoundId { slot: 900, ..round.clone() },
                rerun: false,
                superseded: *superseded,
            }),
            Event::RoundSettled { round, .. } if ms == 2_030 => {
                Some(Event::RoundSettled { round: round.clone(), end: End::Lost })
            }
            _ => None,
        });
        story.without(|ms, event| {
            (2_000..2_100).contains(&ms)
                && matches!(
                    event,
                    Event::RoundBegan { .. } | Event::RoundSettled { .. } | Event::RoundEnded(_)
                )
        });
    });
    planted(&[Rule::FirstTwice], |story| {
        story.change(|ms, event| match event {
            Event::RoundBegan { round, superseded, .. } if ms == 2_110 => {
                Some(Event::RoundBegan { round: round.clone(), rerun: false, superseded: *superseded })
            }
            _ => None,
        });
    });
    planted(&[Rule::RerunTwice], |story| {
        story.change(|ms, event| match event {
            Event::RoundBegan { round, superseded, .. } if ms == 2_010 => {
                Some(Event::RoundBegan { round: round.clone(), rerun: true, superseded: *superseded })
            }
            _ => None,
        });
    });
    planted(&[Rule::EndedTwice], |story| {
        let round = RoundId { name: "s".parse().unwrap(), slot: 2_000, term: 2 };
        story.say(2_011, 2, Event::RoundEnded(round));
    });
    planted(&[Rule::InstantOrder], |story| begins(story, 12_600, 3_500, 6, false));
    planted(&[Rule::Unended], |story| {
        story.without(|ms, event| ms == 2_120 && matches!(event, Event::RoundEnded(_)));
    });
    planted(&[Rule::Strange], |story| begins(story, 1_011, 1_000, 1, false));
    planted(&[Rule::SlotRow], |story| begins(story, 12_600, 9_000, 6, false));
    planted(&[Rule::SlotRow, Rule::Register], |story| {
        story.change(|_, event| match event {
            Event::FinalRow(row) if row.term == 5 => {
                Some(Event::FinalRow(Row { unfinished: 4_000, ..row.clone() }))
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
