//! Defects of rounds.

use lab::check::Rule;
use lab::history::{Answer, Ask, End, Event, GivenUp, RoundId, Row};

use crate::plants::planted;
use crate::story::{Story, TTL, granted, row, token};

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
fn a_round_whose_end_was_recorded_after_its_name_was_lost_runs_again_only_if_that_was_claimed_before() {
    let recorded = |ms| {
        move |story: &mut Story| {
            let round = RoundId { name: "s".parse().unwrap(), slot: 2_000, term: 2 };
            story.without(|ms, event| ms == 2_030 && matches!(event, Event::RoundSettled { .. }));
            story.say(2_011, 2, Event::RoundEnded(round.clone()));
            story.say(ms, 2, Event::RoundSettled { round, end: End::LostRecorded });
        }
    };
    // The claim of the second round is sent at 2100.
    planted(&[Rule::RerunOfFinished], recorded(2_099));
    planted(&[], recorded(2_101));
}

#[test]
fn an_end_that_took_place_may_be_denied_once_somebody_else_has_the_name_and_not_before() {
    let rounds = |story: &mut Story, denied: u64, superseded: Option<GivenUp>| {
        let ask = |holder, slot| Ask::ClaimSlot { token: token("r", holder), ttl_ms: TTL, slot };
        let end =
            |holder, slot| Ask::FinishSlot { token: token("r", holder), slot, passed: None, lost: false };
        story.call(2, 14_000, 14_005, ask(40, 1_000), Some(granted(1)));
        story.call(2, 14_020, denied, end(40, 1_000), Some(Answer::FinishLost { recorded: false }));
        story.call(2, 14_100, 14_105, ask(41, 2_000), Some(Answer::Granted { term: 2, superseded }));
        story.call(2, 14_300, 14_305, end(41, 2_000), Some(Answer::Finished));
        story.say(73_011, 0, Event::FinalRow(Row { slot: 2_000, ..row("r", 2, 41, 0) }));
    };
    planted(&[], |story| rounds(story, 14_200, None));
    planted(&[Rule::Register], |story| rounds(story, 14_090, None));
    planted(&[Rule::Register], |story| rounds(story, 14_200, Some(GivenUp { slot: 1_000, rerun: false })));
}

#[test]
fn an_end_that_is_denied_ends_no_rerun_of_another() {
    planted(&[Rule::Register], |story| {
        let claim = Ask::ClaimSlot { token: token("r", 40), ttl_ms: TTL, slot: 1_000 };
        story.call(2, 14_000, 14_005, claim, Some(granted(1)));
        story.release(2, 14_020, token("r", 40));
        let rerun = Ask::ClaimRerun { token: token("r", 41), ttl_ms: TTL, slot: 1_000, term: 1 };
        story.call(2, 14_100, 14_105, rerun, Some(granted(2)));
        let end = Ask::FinishSlot { token: token("r", 40), slot: 1_000, passed: None, lost: false };
        story.call(2, 14_150, 14_200, end, Some(Answer::FinishLost { recorded: false }));
        story.release(2, 14_300, token("r", 41));
        story.say(73_011, 0, Event::FinalRow(Row { slot: 1_000, rerun: 1_000, ..row("r", 2, 41, 0) }));
    });
}
