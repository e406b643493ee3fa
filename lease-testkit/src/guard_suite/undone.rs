//! What is not committed leaves nothing.

use super::context::GuardContext;
use super::rival::Way;

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
