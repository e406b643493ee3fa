//! Which instants can be slots, and as what they are kept.

use std::time::{Duration, SystemTime};

use lease_core::{Error, ErrorKind, FinishAnswer, Slot, SlotClaimed};

use super::job::{JOB, at, round, slot};
use crate::common::{MS, SECOND, World};

/// An instant of a calendar library: microseconds since 1970, with a conversion of its own.
#[derive(Debug, Clone, Copy)]
struct Calendar(i128);

impl From<Calendar> for SystemTime {
    fn from(Calendar(micros): Calendar) -> Self {
        let whole = |micros: i128| {
            let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
            Duration::new(u64::try_from(seconds).unwrap(), u32::try_from(rest * 1_000).unwrap())
        };
        if micros < 0 { Self::UNIX_EPOCH - whole(-micros) } else { Self::UNIX_EPOCH + whole(micros) }
    }
}

const LAST: i128 = i64::MAX as i128 * 1_000;

#[tokio::test]
async fn instants_that_can_be_no_slot_are_refused_and_nothing_is_sent() {
    let world = World::new();
    let held = round(&world.leases, 0).await;
    let sent = world.store.log().len();
    for micros in [i128::from(i64::MIN), -1, 0, 1, 999, LAST + 1_000, LAST + 1_000_000] {
        let instant = Calendar(micros);
        let claimed = world.leases.claim_slot(JOB, instant, Duration::ZERO).await;
        let finished = held.finish(Some(instant.into())).await;
        for error in [claimed.unwrap_err(), finished.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{instant:?}");
            assert!(error.to_string().starts_with("a slot must be at "), "{error}");
            assert!(!error.retry_helps());
        }
    }
    let error = world.leases.claim_slot("", at(0), SECOND).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(world.store.log().len(), sent);
    // Nothing was done: the round is still held, and can be finished.
    assert!(held.lease().check());
    assert_eq!(held.finish(None).await.unwrap(), FinishAnswer::Finished);
}

#[tokio::test]
async fn instants_are_kept_in_whole_milliseconds_cut_down() {
    for (micros, kept) in [(1_000, 1), (1_999, 1), (1_700_000_000_123_999, 1_700_000_000_123)] {
        let world = World::new();
        let claimed = world.leases.claim_slot(JOB, Calendar(micros), Duration::ZERO).await.unwrap();
        let round = super::job::granted(claimed);
        assert_eq!(round.slot().as_millis(), kept);
        round.finish(Some(Calendar(micros + 1_500).into())).await.unwrap();
        let last = world.leases.last_slot(JOB).await.unwrap().unwrap();
        assert_eq!(i128::from(last.as_millis()), (micros + 1_500) / 1_000);
        // Another instant within the same millisecond is the same slot.
        let again = world.leases.claim_slot(JOB, Calendar(micros + 1_500), Duration::ZERO).await;
        assert!(matches!(again.unwrap(), SlotClaimed::Passed));
    }
}

#[tokio::test]
async fn the_last_millisecond_of_the_column_is_an_instant_that_has_not_come() {
    let world = World::new();
    for micros in [LAST, LAST + 999] {
        let claimed = world.leases.claim_slot(JOB, Calendar(micros), Duration::ZERO).await.unwrap();
        let SlotClaimed::NotYet(left) = claimed else { panic!("{claimed:?}") };
        assert_eq!(left.as_millis(), (i64::MAX - slot(0).as_millis()).unsigned_abs().into());
    }
    let round = round(&world.leases, 0).await;
    round.finish(Some(Calendar(LAST).into())).await.unwrap();
    assert_eq!(world.leases.last_slot(JOB).await.unwrap(), Some(slot(0)));
}

#[tokio::test]
async fn a_slot_is_an_instant_like_any_other_and_reads_back_as_itself() {
    let world = World::new();
    world.play(MS * 250).await;
    let asked = Slot::new(at(0) + MS * 250).unwrap();
    let claimed = world.leases.claim_slot(JOB, asked, Duration::ZERO).await.unwrap();
    let round = super::job::granted(claimed);
    assert_eq!((round.slot(), round.slot().to_string().as_str()), (asked, "@1700100000.250"));
    round.release().await.unwrap();
    let found = super::job::unfinished(&world.leases).await.remove(0);
    assert_eq!(found.slot, asked);
    let again: Result<SlotClaimed, Error> =
        world.leases.claim_slot(found.name.clone(), found.slot, Duration::ZERO).await;
    assert!(matches!(again.unwrap(), SlotClaimed::Passed));
}
