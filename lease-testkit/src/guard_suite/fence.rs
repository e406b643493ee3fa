//! No commit comes after a successor's claim: either the claim is kept out, or the commit refused.

use std::time::Duration;

use futures_util::future::join;
use lease_core::{GuardError, Timings};
use tokio::time::sleep;

use super::context::{GuardContext, Work};
use super::owner::Owner;
use super::rival::{Rival, Tried, Way};

/// How many notes each transaction writes.
const NOTES: usize = 3;
/// How often a claim and a commit are sent at once.
const ROUNDS: usize = 20;
/// How much later the claim is sent.
const PACES: [Duration; 4] =
    [Duration::ZERO, Duration::from_micros(300), Duration::from_millis(1), Duration::from_millis(3)];
/// Where a lease so short is lost before its transaction begins, the machine is slow and needs a longer one.
const TTL_MAX: Duration = Duration::from_secs(60);

pub(super) async fn a_claim_as_observed_is_kept_out_or_the_commit_refused(cx: &GuardContext) {
    at_every_point(cx, Way::Observed).await;
}

pub(super) async fn a_claim_after_a_release_is_kept_out_or_the_commit_refused(cx: &GuardContext) {
    at_every_point(cx, Way::Released).await;
}

pub(super) async fn a_claim_after_a_clear_is_kept_out_or_the_commit_refused(cx: &GuardContext) {
    at_every_point(cx, Way::Cleared).await;
}

async fn at_every_point(cx: &GuardContext, way: Way) {
    for point in 0..=NOTES {
        let owner = cx.own(&format!("job {point}")).await;
        let (mut work, mut rival) = (cx.begin(&owner).await, cx.rival(&owner));
        for n in 0..point {
            work.write(&n.to_string()).await;
        }
        let tried = rival.try_to_take(way).await;
        for n in point..NOTES {
            if tried == Tried::KeptOut {
                work.write(&n.to_string()).await;
            } else if work.try_write(&n.to_string()).await.is_err() {
                break;
            }
        }
        let at = format!("{way:?}, tried after {point} of {NOTES} notes");
        is_on_one_side(cx, &at, (owner, rival), work, tried).await;
    }
}

/// Commits, and holds the guard to its promise.
async fn is_on_one_side(
    cx: &GuardContext,
    at: &str,
    (owner, rival): (Owner, Rival),
    work: Work,
    tried: Tried,
) {
    let (prefix, written) = (work.prefix.clone(), work.written());
    let left = match (tried, work.commit().await) {
        (_, Err(GuardError::Ended(error))) => {
            panic!("{at}: no statement of the program's ended it, and the guard says: {error}")
        }
        (Tried::Granted, Ok(())) => panic!("{at}: it committed after a successor's claim was granted"),
        (Tried::Granted, Err(error)) => {
            assert!(
                !matches!(error, GuardError::Unknown(_)) && !error.retry_helps(),
                "{at}: a successor's claim was granted, and the guard says: {error}\n  the promise says that the lease is lost"
            );
            vec![]
        }
        (_, Ok(())) => written,
        (_, Err(GuardError::Unknown(_))) => all_or_nothing(cx, &prefix, written).await,
        (Tried::KeptOut, Err(error)) if rival.has_left_it_held().await => {
            panic!("{at}: the lease is held as before, and the commit failed: {error}")
        }
        (_, Err(_)) => vec![],
    };
    cx.only(&prefix, &left).await;
    rival.leave().await;
    cx.passes_on(owner, left).await;
}

pub(super) async fn a_claim_after_an_expiry_before_the_writes_is_kept_out_or_the_commit_refused(
    cx: &GuardContext,
) {
    after_an_expiry(cx, 0).await;
}

pub(super) async fn a_claim_after_an_expiry_before_the_commit_is_kept_out_or_the_commit_refused(
    cx: &GuardContext,
) {
    after_an_expiry(cx, NOTES).await;
}

/// Lets the lease expire behind the owner's back, and commits.
async fn after_an_expiry(cx: &GuardContext, point: usize) {
    let (owner, mut work, timings) = begun_briefly(cx, point).await;
    let mut rival = cx.rival(&owner);
    cx.pass(timings.ttl()).await;
    let tried = rival.try_to_take(Way::Expired).await;
    for n in point..NOTES {
        // The server may have ended the session of a holder that seems to be gone.
        if work.try_write(&n.to_string()).await.is_err() {
            break;
        }
    }
    let (prefix, written) = (work.prefix.clone(), work.written());
    let left = match work.commit().await {
        Err(GuardError::Ended(error)) => {
            panic!("no statement of the program's ended it, and the guard says: {error}")
        }
        Ok(()) if tried == Tried::Granted => panic!("it committed after a successor's claim was granted"),
        Ok(()) => written,
        Err(GuardError::Unknown(_)) if tried != Tried::Granted => all_or_nothing(cx, &prefix, written).await,
        Err(_) => vec![],
    };
    cx.only(&prefix, &left).await;
    rival.leave().await;
    cx.passes_on(owner, left).await;
}

/// A transaction begun under a lease as short as this machine can hold, with its first notes.
async fn begun_briefly(cx: &GuardContext, notes: usize) -> (Owner, Work, Timings) {
    let mut ttl = cx.brief();
    loop {
        let timings = Owner::brief(ttl);
        let name = cx.name(&format!("job {}", timings.ttl().as_millis()));
        let owner = Owner::claim(cx.shared_store(), name, timings).await;
        let begun = async {
            let mut work = cx.try_begin(&owner.tenure()).await?;
            for n in 0..notes {
                work.try_write(&n.to_string()).await?;
            }
            Ok::<_, GuardError>(work)
        };
        match begun.await {
            Ok(work) => return (owner, work, timings),
            Err(error) => assert!(ttl < TTL_MAX, "no transaction begins within a ttl of {ttl:?}: {error}"),
        }
        ttl = timings.ttl() * 2;
    }
}

/// What is there of a transaction of which nobody knows.
async fn all_or_nothing(cx: &GuardContext, prefix: &str, written: Vec<String>) -> Vec<String> {
    let notes = cx.notes(prefix).await;
    assert!(notes.is_empty() || notes == written, "committed are {notes:?}, a part of {written:?}");
    notes
}

pub(super) async fn a_claim_during_the_commit_comes_before_or_after_it(cx: &GuardContext) {
    for round in 0..ROUNDS {
        let owner = cx.own(&format!("job {round}")).await;
        let (mut work, mut rival) = (cx.begin(&owner).await, cx.rival(&owner));
        for n in 0..NOTES {
            work.write(&n.to_string()).await;
        }
        let (prefix, written) = (work.prefix.clone(), work.written());
        let claim = async {
            sleep(PACES[round % PACES.len()]).await;
            let tried = rival.try_to_take(Way::Observed).await;
            (tried, cx.notes(&prefix).await)
        };
        let ((tried, at_the_claim), committed) = join(claim, work.commit()).await;
        let left = match committed {
            Ok(()) => written,
            Err(GuardError::Unknown(_)) => all_or_nothing(cx, &prefix, written).await,
            Err(GuardError::Failed(error)) if error.kind().retry_helps() => vec![],
            Err(error) => {
                assert!(
                    tried == Tried::Granted || !rival.has_left_it_held().await,
                    "round {round}: the lease is held as before, and the commit failed: {error}"
                );
                vec![]
            }
        };
        if tried == Tried::Granted {
            assert!(
                at_the_claim == left,
                "round {round}: when a successor had been granted its claim there was {at_the_claim:?}, and later {left:?}"
            );
        }
        cx.only(&prefix, &left).await;
        rival.leave().await;
        cx.passes_on(owner, left).await;
    }
}
