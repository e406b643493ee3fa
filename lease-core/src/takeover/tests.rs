use super::*;
use crate::store::DbTime;
use crate::{Holder, Term};

const MARGIN: Duration = Duration::from_millis(500);

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
    // A clock that goes, if slowly, so that the rows live.
    seen.now = DbTime::from_millis(1_000 + i64::try_from(moments[0] / 100).unwrap());
    observer.look(&seen, moments.map(at), MARGIN)
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
    assert_eq!(look(&mut observer, 1_000, [270_000, 270_000]), Look::Free);
    assert_eq!(look(&mut observer, 9_000, [280_000, 280_000]), Look::Changed(at(295_500)));
    let gone = Inspection { now: DbTime::from_millis(1_000), row: None };
    assert_eq!(observer.look(&gone, [at(290_000); 2], MARGIN), Look::Free);
    assert_eq!(look(&mut observer, 9_000, [300_000, 300_000]), Look::Changed(at(315_500)));
    // Another holder, the same expiry.
    let mut other = seen(9_000, Duration::from_secs(15));
    other.row.as_mut().unwrap().holder = Holder::from_bytes([8; 16]);
    assert!(matches!(observer.look(&other, [at(400_000); 2], MARGIN), Look::Changed(_)));
}

#[test]
fn while_the_clock_of_the_database_stands_still_nobody_is_dead() {
    let mut observer = Observer::default();
    let frozen = seen(9_000, Duration::from_secs(15));
    assert_eq!(observer.look(&frozen, [at(0); 2], MARGIN), Look::Changed(at(15_500)));
    // A holder that renews writes what is there already.
    assert_eq!(observer.look(&frozen, [at(15_500), at(15_600)], MARGIN), Look::Unchanged(at(31_100)));
    let mut going = frozen;
    going.now = DbTime::from_millis(1_001);
    assert!(matches!(observer.look(&going, [at(31_100); 2], MARGIN), Look::Dead(_)));
}

#[test]
fn a_ttl_without_end_is_waited_for_without_end() {
    let mut observer = Observer::default();
    let for_ever = seen(9_000, Duration::MAX);
    let never = Moment::new(Duration::MAX);
    assert_eq!(observer.look(&for_ever, [at(5), at(6)], MARGIN), Look::Changed(never));
    assert_eq!(observer.look(&for_ever, [at(u64::MAX / 2); 2], MARGIN), Look::Unchanged(never));
}
