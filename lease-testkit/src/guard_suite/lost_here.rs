//! A lease lost by the process's own word is lost, though the database would still allow the commit.

use super::context::{GuardContext, is_lost};
use super::rival::Way;

pub(super) async fn past_the_deadline_nothing_is_committed(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let mut work = cx.begin(&owner).await;
    work.write("1").await;
    let prefix = work.prefix.clone();
    owner.pass_deadline();
    // The session may be ended by now, or not yet.
    let _ = work.try_write("2").await;
    is_lost(work.commit().await);
    cx.nothing_of(&prefix).await;
    cx.passes_on(owner, vec![]).await;
}

pub(super) async fn under_a_lease_given_up_nothing_is_committed(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let mut work = cx.begin(&owner).await;
    work.write("1").await;
    let prefix = work.prefix.clone();
    drop(owner);
    is_lost(work.commit().await);
    cx.nothing_of(&prefix).await;
}

pub(super) async fn a_name_given_up_in_a_transaction_is_given_back(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let mut work = cx.begin(&owner).await;
    work.write("1").await;
    let (prefix, mut rival) = (work.prefix.clone(), cx.rival(&owner));
    drop(owner);
    is_lost(work.commit().await);
    rival.wait_to_take(Way::Expired).await;
    cx.nothing_of(&prefix).await;
}
