//! One test per transition and per trap, in virtual time with the default timings: ttl 15 s,
//! renew 2 s, attempt 5 s, deadline 10 s.

use super::*;

fn at(ms: u64) -> Moment {
    Moment::new(Duration::from_millis(ms))
}

fn claimed_at(ms: u64) -> Renewal {
    Renewal::new(&Timings::default(), at(ms))
}

#[test]
fn the_first_renewal_is_due_one_renew_after_the_claim_started() {
    let mut renewal = claimed_at(1_000);
    assert_eq!(renewal.poll(at(1_000)), Next::Wait(at(3_000)));
    assert_eq!(renewal.poll(at(2_999)), Next::Wait(at(3_000)));
    assert_eq!(renewal.poll(at(3_000)), Next::Renew { timeout_at: at(8_000) });
}

#[test]
fn a_success_moves_the_deadline_to_the_start_of_its_attempt_not_to_its_answer() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(2_000));
    renewal.renewed(at(2_000), at(4_500));
    assert_eq!(renewal.deadline(), at(12_000));
}

#[test]
fn the_next_attempt_counts_from_the_start_of_the_last_one() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(2_000));
    renewal.renewed(at(2_000), at(3_500));
    assert_eq!(renewal.poll(at(3_500)), Next::Wait(at(4_000)));
}

#[test]
fn an_answer_slower_than_the_cadence_is_followed_at_once() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(2_000));
    renewal.renewed(at(2_000), at(6_000));
    assert_eq!(renewal.poll(at(6_000)), Next::Renew { timeout_at: at(11_000) });
}

#[test]
fn a_failure_counts_as_an_attempt_and_does_not_move_the_deadline() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(2_000));
    renewal.failed(at(2_000), at(2_001));
    assert_eq!(renewal.deadline(), at(10_000));
    assert_eq!(renewal.poll(at(2_001)), Next::Wait(at(4_000)));
    assert!(matches!(renewal.poll(at(4_000)), Next::Renew { .. }));
}

#[test]
fn a_hung_attempt_is_given_up_and_followed_by_another() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(2_000));
    assert_eq!(renewal.poll(at(6_999)), Next::Wait(at(7_000)));
    // The second attempt is cut short by the deadline.
    assert_eq!(renewal.poll(at(7_000)), Next::Renew { timeout_at: at(10_000) });
}

#[test]
fn a_renewal_that_hangs_does_not_delay_the_loss() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(7_999));
    assert_eq!(renewal.poll(at(9_999)), Next::Wait(at(10_000)));
    assert_eq!(renewal.poll(at(10_000)), Next::Lost(Loss::Deadline));
}

#[test]
fn a_success_that_arrives_after_the_deadline_does_not_revive_the_lease() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(9_000));
    renewal.renewed(at(9_000), at(10_000));
    assert_eq!(renewal.poll(at(10_000)), Next::Lost(Loss::Deadline));
    assert_eq!(renewal.deadline(), at(10_000));
}

#[test]
fn a_late_answer_of_an_attempt_given_up_still_counts_and_leaves_the_new_attempt_alone() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(2_000));
    assert!(matches!(renewal.poll(at(7_000)), Next::Renew { .. }));
    renewal.renewed(at(2_000), at(7_500));
    assert_eq!(renewal.deadline(), at(12_000));
    // The second attempt is still being waited for, now up to its own end.
    assert_eq!(renewal.poll(at(7_500)), Next::Wait(at(12_000)));
}

#[test]
fn answers_out_of_order_never_move_the_deadline_back() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(2_000));
    renewal.poll(at(7_000));
    renewal.renewed(at(7_000), at(7_100));
    renewal.renewed(at(2_000), at(7_200));
    assert_eq!(renewal.deadline(), at(17_000));
}

#[test]
fn a_refusal_is_final() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(2_000));
    renewal.refused(at(2_100));
    renewal.renewed(at(2_000), at(2_200));
    assert_eq!(renewal.poll(at(2_200)), Next::Lost(Loss::Refused));
    assert_eq!(renewal.poll(at(60_000)), Next::Lost(Loss::Refused));
}

#[test]
fn a_refusal_after_the_deadline_leaves_the_first_reason() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(9_000));
    renewal.refused(at(10_000));
    assert_eq!(renewal.poll(at(10_000)), Next::Lost(Loss::Deadline));
}

#[test]
fn spurious_polls_change_nothing() {
    let mut renewal = claimed_at(1_000);
    for ms in [1_000, 1_500, 2_999] {
        let before = renewal.clone();
        renewal.poll(at(ms));
        assert_eq!(renewal, before);
    }
    renewal.poll(at(3_000));
    for ms in [3_000, 3_001, 7_999] {
        let before = renewal.clone();
        assert_eq!(renewal.poll(at(ms)), Next::Wait(at(8_000)));
        assert_eq!(renewal, before);
    }
}

#[test]
fn attempts_are_due_on_the_grid_of_ticks_and_stay_on_their_tick_when_sent_late() {
    let mut renewal = claimed_at(1_234);
    assert_eq!(renewal.poll(at(1_234)), Next::Wait(at(3_200)));
    // The driver is 7 ms late; the next tick is 20 ticks on all the same.
    assert!(matches!(renewal.poll(at(3_207)), Next::Renew { .. }));
    renewal.renewed(at(3_207), at(3_210));
    assert_eq!(renewal.poll(at(3_210)), Next::Wait(at(5_200)));
}

#[test]
fn a_poll_after_a_long_pause_says_lost_rather_than_renew() {
    let mut renewal = claimed_at(0);
    assert_eq!(renewal.poll(at(3_600_000)), Next::Lost(Loss::Deadline));
}

#[test]
fn with_every_attempt_failing_at_once_the_lease_is_lost_at_the_deadline_after_four_tries() {
    let mut renewal = claimed_at(0);
    let (mut now, mut tries) = (at(0), 0);
    loop {
        match renewal.poll(now) {
            Next::Renew { .. } => {
                tries += 1;
                renewal.failed(now, now);
            }
            Next::Wait(until) => now = until,
            Next::Lost(loss) => {
                assert_eq!((loss, now, tries), (Loss::Deadline, at(10_000), 4));
                return;
            }
        }
    }
}

#[test]
fn a_carried_renewal_moves_the_deadline_and_leaves_the_cadence() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(2_000));
    renewal.carried(at(3_000), at(4_000));
    assert_eq!(renewal.deadline(), at(13_000));
    // The attempt under way is still being waited for, up to its own end.
    assert_eq!(renewal.poll(at(4_000)), Next::Wait(at(7_000)));
    renewal.failed(at(2_000), at(4_500));
    assert!(matches!(renewal.poll(at(4_500)), Next::Renew { .. }));
}

#[test]
fn a_carried_renewal_of_long_ago_changes_nothing() {
    let mut renewal = claimed_at(0);
    renewal.poll(at(2_000));
    renewal.renewed(at(2_000), at(2_100));
    let before = renewal.clone();
    renewal.carried(at(1_000), at(2_200));
    assert_eq!(renewal, before);
}

#[test]
fn a_carried_renewal_that_is_told_late_is_no_less_true() {
    let mut renewal = claimed_at(0);
    // It was committed before the deadline of 10 s; the machine is asked only now.
    renewal.carried(at(9_000), at(11_000));
    assert_eq!(renewal.deadline(), at(19_000));
    assert!(matches!(renewal.poll(at(11_000)), Next::Renew { .. }));
}

#[test]
fn a_carried_renewal_revives_no_lease_that_is_lost() {
    let mut refused = claimed_at(0);
    refused.refused(at(1_000));
    refused.carried(at(900), at(1_100));
    assert_eq!(refused.poll(at(1_100)), Next::Lost(Loss::Refused));

    let mut late = claimed_at(0);
    late.poll(at(10_000));
    late.carried(at(9_000), at(10_000));
    assert_eq!(late.poll(at(10_000)), Next::Lost(Loss::Deadline));
}

#[test]
fn a_lease_whose_carried_renewals_end_is_lost_at_their_deadline() {
    let mut renewal = claimed_at(0);
    renewal.carried(at(1_000), at(1_500));
    renewal.carried(at(1_000), at(11_000));
    assert_eq!(renewal.poll(at(11_000)), Next::Lost(Loss::Deadline));
}
