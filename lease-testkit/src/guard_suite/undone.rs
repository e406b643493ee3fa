//! What is not committed leaves nothing.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;

use super::context::{GuardContext, in_time};
use super::rival::Way;

/// After how many polls a future is dropped, at most.
const POLLS: usize = 6;
/// How long a statement that goes on by itself is given to come to light.
const GHOST: Duration = Duration::from_millis(100);

pub(super) async fn a_transaction_rolled_back_leaves_nothing(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let mut work = cx.begin(&owner).await;
    work.write("undone").await;
    let prefix = work.prefix.clone();
    work.roll_back().await.expect("a transaction can be rolled back");
    cx.nothing_of(&prefix).await;
    // The lease is held as before.
    let mut work = cx.begin(&owner).await;
    work.write("done").await;
    let written = work.written();
    work.commit().await.expect("a transaction under a held lease commits");
    cx.only(&prefix, &written).await;
    cx.passes_on(owner, written).await;
}

pub(super) async fn a_dropped_transaction_leaves_nothing(cx: &GuardContext) {
    let owner = cx.own("job").await;
    for written in 0..3 {
        let mut work = cx.begin_when_free(&owner).await;
        for n in 0..written {
            work.write(&format!("{written} {n}")).await;
        }
        let prefix = work.prefix.clone();
        drop(work);
        cx.nothing_of(&prefix).await;
    }
    cx.passes_on(owner, vec![]).await;
}

pub(super) async fn a_dropped_transaction_keeps_no_successor_out(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let mut work = cx.begin(&owner).await;
    work.write("undone").await;
    drop(work);
    let mut rival = cx.rival(&owner);
    rival.wait_to_take(Way::Observed).await;
    rival.leave().await;
    cx.passes_on(owner, vec![]).await;
}

pub(super) async fn a_begin_dropped_midway_keeps_no_successor_out(cx: &GuardContext) {
    for polls in 1..=POLLS {
        let owner = cx.own(&format!("job {polls}")).await;
        let tenure = owner.tenure();
        // One that has begun meanwhile is dropped too.
        drop(dropped_after(polls, cx.try_begin(&tenure)).await);
        drop(tenure);
        let mut rival = cx.rival(&owner);
        rival.wait_to_take(Way::Observed).await;
        rival.leave().await;
        cx.passes_on(owner, vec![]).await;
    }
}

pub(super) async fn a_write_dropped_midway_leaves_nothing_and_keeps_no_successor_out(cx: &GuardContext) {
    for polls in 1..=POLLS {
        let owner = cx.own(&format!("job {polls}")).await;
        let mut work = cx.begin(&owner).await;
        work.write("1").await;
        let prefix = work.prefix.clone();
        drop(dropped_after(polls, work.try_write("2")).await);
        drop(work);
        let mut rival = cx.rival(&owner);
        rival.wait_to_take(Way::Observed).await;
        cx.nothing_of(&prefix).await;
        rival.leave().await;
        cx.passes_on(owner, vec![]).await;
    }
}

pub(super) async fn a_commit_dropped_midway_is_whole_or_nothing_and_before_a_successor(cx: &GuardContext) {
    for polls in 1..=POLLS {
        let owner = cx.own(&format!("job {polls}")).await;
        let mut work = cx.begin(&owner).await;
        work.write("1").await;
        work.write("2").await;
        let (prefix, written) = (work.prefix.clone(), work.written());
        let committed = dropped_after(polls, work.commit()).await;
        let mut rival = cx.rival(&owner);
        rival.wait_to_take(Way::Observed).await;
        let left = cx.notes(&prefix).await;
        match committed {
            Some(Ok(())) => assert!(left == written, "committed is {left:?} of {written:?}"),
            Some(Err(error)) => panic!("a transaction under a held lease does not commit: {error}"),
            None => {
                assert!(left.is_empty() || left == written, "committed is {left:?}, a part of {written:?}");
            }
        }
        sleep(GHOST).await;
        cx.only(&prefix, &left).await;
        rival.leave().await;
        cx.passes_on(owner, left).await;
    }
}

/// Drops a future when it has been polled this often; its answer, if it has come by then.
async fn dropped_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut left) = (pin!(future), polls);
    let polled = poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => {
            left -= 1;
            if left == 0 { Poll::Ready(None) } else { Poll::Pending }
        }
    });
    in_time("answer or wake its caller", polled).await
}
