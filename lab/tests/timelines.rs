//! The pictures in docs/timelines are what the library does, and what they say of the order of things is so.

use std::fs;
use std::path::Path;
use std::time::Duration;

use lab::timelines::pictures;
use lab::timelines::play::{BACK, CRASH, HEALTHY, Mishap, PARTITION, THERE, play};
use lease_testkit::Op;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[test]
fn the_pictures_are_those_of_the_library_as_it_is() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/timelines");
    for picture in pictures().unwrap() {
        let committed = fs::read_to_string(folder.join(picture.file)).unwrap_or_default();
        assert!(
            committed == picture.page.svg(),
            "docs/timelines/{} is not what the library does: look at what has changed, and draw it anew with `cargo xtask timelines`",
            picture.file
        );
    }
}

#[test]
fn no_text_of_a_picture_is_in_the_way_of_another() {
    for picture in pictures().unwrap() {
        assert_eq!(picture.page.muddles(), Vec::<String>::new(), "{}", picture.file);
    }
}

#[test]
fn handing_over_takes_a_release_a_notice_and_a_claim() {
    let played = play(&HEALTHY).unwrap();
    let (a, b) = (&played.row[0], &played.row[1]);
    assert_eq!((a.by.as_str(), a.term.as_str(), b.by.as_str(), b.term.as_str()), ("A", "1", "B", "2"));
    assert_eq!(played.a.ends, Some(HEALTHY.a_works));
    assert_eq!(a.until, HEALTHY.a_works + THERE);
    // The answer to the release, the notice, the claim.
    assert_eq!(b.since, a.until + BACK + THERE + THERE);
    assert_eq!(played.b.begins, Some(b.since + BACK));
    let renewals = played.a.calls.iter().filter(|sent| matches!(sent.op, Op::Renew | Op::RenewMany));
    let at: Vec<Duration> = renewals.map(|sent| sent.at).collect();
    assert_eq!(at, [seconds(2.0), seconds(4.0), seconds(6.0)]);
}

#[test]
fn who_is_killed_keeps_the_name_until_its_row_expires() {
    let played = play(&CRASH).unwrap();
    let (a, b) = (&played.row[0], &played.row[1]);
    let Some(Mishap::Killed(killed)) = CRASH.mishap else { panic!("nobody is killed") };
    assert!(played.a.calls.iter().all(|sent| sent.at < killed), "the dead send nothing: {played:#?}");
    assert_eq!((played.a.lost, played.a.ends), (None, None));
    assert_eq!((a.renewed, a.until), (seconds(2.2), seconds(17.2)));
    assert!(a.until <= b.since && b.since < a.until + seconds(1.0), "{played:#?}");
    assert_eq!(played.b.begins, Some(b.since + BACK));
}

#[test]
fn who_is_cut_off_has_given_up_before_its_successor_can_begin() {
    let played = play(&PARTITION).unwrap();
    let (a, b) = (&played.row[0], &played.row[1]);
    let renewal = played.a.calls.iter().rfind(|sent| sent.ran.is_some()).unwrap();
    let (lost, aborted) = (played.a.lost.unwrap(), played.a.ends.unwrap());
    assert_eq!(lost, renewal.at + played.timings.deadline());
    assert_eq!(aborted, lost + played.timings.grace() * 9 / 10);
    let grace_ends = lost + played.timings.grace();
    assert_eq!(a.until, renewal.ran.unwrap() + played.timings.ttl());
    assert!(
        lost < aborted && aborted < grace_ends && grace_ends < a.until && a.until <= b.since,
        "{played:#?}"
    );
    assert_eq!(played.b.begins, Some(b.since + BACK));
    // The table of docs/guarantees.md, whose zero is when the last good renewal was sent.
    let unanswered = played.a.calls.iter().filter(|sent| sent.ran.is_none());
    let unanswered: Vec<_> = unanswered.take(2).map(|sent| (sent.at, sent.ended)).collect();
    let after = |n: f64| renewal.at + seconds(n);
    assert_eq!(unanswered, [(after(2.0), Some(after(7.0))), (after(7.0), Some(after(10.0)))]);
}
