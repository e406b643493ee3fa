use super::*;
use crate::store::DbTime;
use crate::{Holder, Term};

fn timings() -> Timings {
    Timings::default()
}

fn at(ms: u64) -> Moment {
    Moment::new(Duration::from_millis(ms))
}

fn seen(expires_at: i64, ttl: Duration) -> Inspection {
    let row = LeaseRow {
        name: "nightly".parse().unwrap(),
        holder: Holder::from_bytes([7; 16]),
        instance: String::new(),
        process: String::new(),
        address: String::new(),
        version: String::new(),
        term: Term::FIRST,
        claimed_at: DbTime::from_millis(1),
        renewed_at: DbTime::from_millis(1),
        expires_at: DbTime::from_millis(expires_at),
        ttl,
        resign_term: 0,
        slot: None,
        unfinished_slot: None,
        rerun_slot: None,
    };
    Inspection { now: DbTime::from_millis(1_000), row: Some(row) }
}

fn look(observer: &mut Observer, expires_at: i64, moments: [u64; 2]) -> Look {
    let mut seen = seen(expires_at, Duration::from_secs(15));
    // A clock that was stepped back, so that the rows live.
    seen.now = DbTime::from_millis(i64::try_from(moments[0]).unwrap() - 1_000_000);
    observer.look(&seen, moments.map(at), &timings())
}

#[test]
fn patience_counts_from_the_answer_that_showed_a_row_to_the_question_that_shows_it_again() {
    let mut observer = Observer::default();
    // Read at some moment between the two.
    assert_eq!(look(&mut observer, 9_000, [0, 4_000]), Look::Changed(at(19_500)));
    assert_eq!(look(&mut observer, 9_000, [10_000, 10_001]), Look::Unchanged(at(19_500)));
    // A process that stood still before its answer came, or after.
    assert_eq!(look(&mut observer, 9_000, [19_499, 90_000]), Look::Unchanged(at(19_500)));
    let dead = seen(9_000, Duration::ZERO).row.unwrap().observed();
    assert_eq!(look(&mut observer, 9_000, [19_500, 19_501]), Look::Dead(dead));
}

#[test]
fn a_row_that_moves_and_a_name_that_is_free_begin_anew() {
    let mut observer = Observer::default();
    look(&mut observer, 9_000, [0, 0]);
    // Forward or back: the clock of the database may have been stepped.
    assert_eq!(look(&mut observer, 9_001, [90_000, 90_000]), Look::Changed(at(105_500)));
    assert_eq!(look(&mut observer, 9_000, [180_000, 180_000]), Look::Changed(at(195_500)));
    assert_eq!(look(&mut observer, -800_000, [270_000, 270_000]), Look::Free);
    assert_eq!(look(&mut observer, 9_000, [280_000, 280_000]), Look::Changed(at(295_500)));
    let gone = Inspection { now: DbTime::from_millis(1_000), row: None };
    assert_eq!(observer.look(&gone, [at(290_000); 2], &timings()), Look::Free);
    assert_eq!(look(&mut observer, 9_000, [300_000, 300_000]), Look::Changed(at(315_500)));
    // Another holder, the same expiry.
    let mut other = seen(9_000, Duration::from_secs(15));
    other.row.as_mut().unwrap().holder = Holder::from_bytes([8; 16]);
    assert!(matches!(observer.look(&other, [at(400_000); 2], &timings()), Look::Changed(_)));
}

#[test]
fn while_the_clock_of_the_database_stands_still_nobody_is_dead() {
    let mut observer = Observer::default();
    let frozen = seen(9_000, Duration::from_secs(15));
    let mut look = |clock, moments: [u64; 2]| {
        let now = DbTime::from_millis(clock);
        observer.look(&Inspection { now, ..frozen.clone() }, moments.map(at), &timings())
    };
    assert_eq!(look(1_000, [0, 0]), Look::Changed(at(15_500)));
    // A holder that renews writes what is there already.
    assert_eq!(look(1_000, [15_500, 15_600]), Look::Unchanged(at(31_100)));
    assert_eq!(look(1_000, [40_000, 40_000]), Look::Unchanged(at(55_500)));
    // It goes again: what it would have shown since this look counts, and nothing before.
    assert_eq!(look(1_001, [45_000, 45_000]), Look::Unchanged(at(60_500)));
    // It is stepped back, and goes.
    assert_eq!(look(-14_000, [50_000, 50_000]), Look::Unchanged(at(60_500)));
    assert_eq!(look(-3_501, [60_499, 60_499]), Look::Unchanged(at(60_500)));
    assert!(matches!(look(-3_500, [60_500, 60_500]), Look::Dead(_)));
}

#[test]
fn a_clock_that_stood_still_for_a_moment_between_two_looks_did_not_go_all_the_time() {
    for (stood_still, dead_at) in [(49, 15_500), (50, 21_500)] {
        let mut observer = Observer::default();
        look_at(&mut observer, -20_000, 0);
        assert_eq!(look_at(&mut observer, -14_000 - stood_still, 6_000), Look::Unchanged(at(dead_at)));
    }
}

#[test]
fn looks_that_follow_each_other_at_once_do_not_begin_anew() {
    let mut observer = Observer::default();
    for ms in 0..15_500 {
        // A clock of 20 ms.
        let look = look_at(&mut observer, i64::try_from(ms / 20 * 20).unwrap() - 20_000, ms);
        assert!(!matches!(look, Look::Dead(_)), "{ms}");
    }
    assert!(matches!(look_at(&mut observer, -4_500, 15_500), Look::Dead(_)));
}

fn look_at(observer: &mut Observer, clock: i64, ms: u64) -> Look {
    let now = DbTime::from_millis(clock);
    observer.look(&Inspection { now, ..seen(9_000, Duration::from_secs(15)) }, [at(ms); 2], &timings())
}

#[test]
fn a_clock_that_stands_still_is_seen_to_by_looks_that_follow_each_other_at_once_too() {
    let mut observer = Observer::default();
    for ms in (0..40_000).step_by(5) {
        assert!(!matches!(look_at(&mut observer, -20_000, ms), Look::Dead(_)), "{ms}");
    }
}

#[test]
fn a_row_whose_ttl_says_nothing_is_waited_for_as_long_as_ours() {
    let mut observer = Observer::default();
    let mut by_hand = seen(9_000, Duration::ZERO);
    assert_eq!(observer.look(&by_hand, [at(0); 2], &timings()), Look::Changed(at(15_500)));
    // Stepped back by ten seconds.
    by_hand.now = DbTime::from_millis(-9_000);
    assert_eq!(observer.look(&by_hand, [at(14_000); 2], &timings()), Look::Unchanged(at(15_500)));
}

#[test]
fn a_ttl_without_end_is_waited_for_without_end() {
    let mut observer = Observer::default();
    let for_ever = seen(9_000, Duration::MAX);
    let never = Moment::new(Duration::MAX);
    assert_eq!(observer.look(&for_ever, [at(5), at(6)], &timings()), Look::Changed(never));
    assert_eq!(observer.look(&for_ever, [at(u64::MAX / 2); 2], &timings()), Look::Unchanged(never));
}
