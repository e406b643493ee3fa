//! Defects of time: what comes late, or is believed for too long.

use lab::check::Rule;
use lab::history::{Answer, Ask, Event, FaultKind, Finish, Guard, Ledger, Loss, Row};

use crate::plants::planted;
use crate::story::{Story, TTL, at, granted, lease, row, token, unknown};

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
fn a_row_that_expired_before_the_machine_was_started_is_lawful_by_the_clock_that_was_stepped() {
    let hour = 3_600_000;
    assert!(at(12_900) / 1_000_000 < u64::try_from(hour).unwrap());
    let read = |story: &mut Story, left| {
        story.claim(2, 12_700, token("m", 30), granted(1));
        let row = row("m", 1, 30, 2 * hour + left);
        let answer = Answer::Read { now_ms: 2 * hour, row: Some(row.clone()) };
        let ask = Ask::Inspect { name: "m".parse().map(lab::history::Name).unwrap() };
        story.call(2, 12_900, 12_905, ask, Some(answer));
        story.say(73_011, 0, Event::FinalRow(row));
    };
    let stepped = |story: &mut Story| story.fault(12_800, 12_801, FaultKind::ClockStepped, 3_600_000);
    planted(&[], |story| {
        read(story, 2_800 - hour);
        stepped(story);
    });
    planted(&[Rule::Register], |story| {
        read(story, -2_000 - hour);
        stepped(story);
    });
}

#[test]
fn a_batch_that_says_nothing_of_a_lease_may_have_renewed_it() {
    let reads = |story: &mut Story, left: i64| {
        story.claim(2, 14_000, token("m", 30), granted(1));
        let row = row("m", 1, 30, 9_000 + left);
        let ask = Ask::Inspect { name: "m".parse().map(lab::history::Name).unwrap() };
        story.call(2, 15_600, 15_605, ask, Some(Answer::Read { now_ms: 9_000, row: Some(row.clone()) }));
        story.say(73_011, 0, Event::FinalRow(row));
    };
    let batch = |story: &mut Story| {
        let ask = Ask::RenewMany { tokens: vec![token("m", 30)], ttl_ms: TTL };
        story.call(2, 15_400, 15_500, ask, Some(Answer::Many(vec![false])));
    };
    // Written at 14,000, or at 15,450.
    for left in [1_400, 2_850] {
        planted(&[], |story| {
            reads(story, left);
            batch(story);
        });
    }
    planted(&[Rule::Register], |story| reads(story, 2_850));
}

#[test]
fn what_is_denied_may_have_been_sent_before() {
    let name = || "m".parse().map(lab::history::Name).unwrap();
    let release = |story: &mut Story, to| {
        story.call(2, 15_600, to, Ask::Release { token: token("m", 30) }, Some(Answer::Gone));
    };
    let begins = |story: &mut Story| story.claim(2, 14_000, token("m", 30), granted(1));
    // Released, and claimed by another before it was sent again.
    planted(&[], |story| {
        begins(story);
        release(story, 15_800);
        story.claim(2, 15_700, token("m", 31), granted(2));
        story.say(73_011, 0, Event::FinalRow(row("m", 2, 31, 1)));
    });
    planted(&[Rule::Register], |story| {
        begins(story);
        release(story, 15_650);
        story.claim(2, 15_700, token("m", 31), granted(2));
        story.say(73_011, 0, Event::FinalRow(row("m", 2, 31, 1)));
    });
    // Renewed, and released before it was sent again.
    let renewal = |story: &mut Story| {
        let ask = Ask::Renew { token: token("m", 30), ttl_ms: TTL };
        story.call(2, 15_400, 15_800, ask, Some(Answer::Lost));
    };
    let seen = |story: &mut Story| {
        begins(story);
        let row = row("m", 1, 30, 9_000 + 2_900);
        let read = Answer::Read { now_ms: 9_000, row: Some(row) };
        story.call(2, 15_550, 15_555, Ask::Inspect { name: name() }, Some(read));
        story.release(2, 15_600, token("m", 30));
        story.say(73_011, 0, Event::FinalRow(crate::story::row("m", 1, 30, 0)));
    };
    planted(&[], |story| {
        seen(story);
        renewal(story);
    });
    planted(&[Rule::Register], seen);
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

/// The fourth term is never claimed, though it is wanted.
fn nobody_comes(story: &mut Story) {
    story.without(|ms, event| (10_000..12_400).contains(&ms) && !matches!(event, Event::Sample(_)));
    story.change(|_, event| match event {
        Event::FinalRow(held) if held.term == 4 => {
            Some(Event::FinalRow(Row { expires_ms: 17_000, ..row("n", 3, 3, 0) }))
        }
        _ => None,
    });
}

#[test]
fn a_name_that_is_not_held_again_after_heal_is_found() {
    planted(&[Rule::NotHeldAgain], nobody_comes);
    // Nobody wants it any more; a fault comes before it can be judged.
    planted(&[], |story| {
        nobody_comes(story);
        story.say(9_500, 2, Event::WantsNoMore(lab::history::Name("n".parse().unwrap())));
    });
    planted(&[], |story| {
        nobody_comes(story);
        story.fault(9_900, 9_950, FaultKind::Partition, 0);
    });
}

#[test]
fn what_the_orchestrator_stood_still_is_no_time_in_which_a_name_could_be_held_again() {
    let stood = |ms| {
        move |story: &mut Story| {
            nobody_comes(story);
            // One process after the other.
            story.say(20_000, 2, Event::Stood { ms: 3_000 });
            story.say(70_000, 0, Event::Stood { ms });
        }
    };
    planted(&[Rule::NotHeldAgain], stood(3_000));
    planted(&[], stood(60_000));
}

#[test]
fn what_the_database_is_slow_to_answer_is_no_time_in_which_a_name_could_be_held_again() {
    let looked = |to, answer: Option<Answer>| {
        move |story: &mut Story| {
            nobody_comes(story);
            let ask = Ask::Inspect { name: lab::history::Name("n".parse().unwrap()) };
            story.call(2, 10_100, to, ask, answer);
        }
    };
    let answered = Answer::Failed { kind: "Busy".to_owned(), no_effect: true };
    planted(&[], looked(72_000, Some(answered.clone())));
    planted(&[Rule::NotHeldAgain], looked(10_500, Some(answered)));
    planted(&[], looked(72_000, Some(unknown())));
    planted(&[Rule::NotHeldAgain], looked(10_500, Some(unknown())));
    // What is never answered proves nothing.
    planted(&[Rule::NotHeldAgain], looked(72_000, None));
}

#[test]
fn a_renewal_that_a_transaction_carries_on_sqlite_counts_from_when_it_has_the_file() {
    let carried = |backend: &'static str, until| {
        move |story: &mut Story| {
            story.change(|_, event| match event {
                Event::Started { pid, setting, .. } => {
                    Some(Event::Started { pid: *pid, backend: backend.to_owned(), setting: *setting })
                }
                _ => None,
            });
            // It has refused its transaction without verifying it.
            story.without(|ms, event| ms == 4_305 && matches!(event, Event::Guard { .. }));
            let lease = lease("n", 2, 2);
            let steps = [Guard::Began, Guard::Verified, Guard::Commits, Guard::Ended(Finish::Committed)];
            for (ms, step) in [2_850, 2_950, 2_960, 2_970].into_iter().zip(steps) {
                story.say(ms, 2, Event::Guard { tx: 9, lease: lease.clone(), step });
            }
            story.change(|_, event| match event {
                Event::Ledger(entry) if entry.place == 3 => {
                    Some(Event::Ledger(Ledger { place: 4, ..entry.clone() }))
                }
                _ => None,
            });
            let (name, term) = ("n".parse().unwrap(), 2);
            let entry = Ledger { place: 3, name, term, process: 2, incarnation: 0, tx: 9, database: 0 };
            story.say(73_020, 0, Event::Ledger(entry));
            let (since, until) = (at(4_815), at(until));
            story.say(4_960, 2, Event::Believed { lease, since, until });
        }
    };
    // Its deadline is at 4820 by its own renewals, and at 4950 by the one that was carried.
    planted(&[], carried("sqlite", 4_950));
    planted(&[Rule::BeliefPastDeadline], carried("sqlite", 4_951));
    planted(&[Rule::BeliefPastDeadline], carried("postgres", 4_821));
}
