//! Transactions that are open at once.

use super::context::GuardContext;
use super::owner::Owner;
use super::rival::{Tried, Way};

pub(super) async fn two_transactions_of_a_lease_commit(cx: &GuardContext) {
    let timings = if cx.one_writer() { Owner::hasty() } else { Owner::lasting() };
    let owner = Owner::claim(cx.shared_store(), cx.name("job"), timings).await;
    let mut one = cx.begin(&owner).await;
    one.write("one").await;
    let prefix = one.prefix.clone();
    let mut written = one.written();
    match cx.try_begin(&owner.tenure()).await {
        Ok(mut other) => {
            other.write("other").await;
            written.append(&mut other.written());
            other.commit().await.expect("a transaction beside another of its lease commits");
        }
        Err(error) => {
            assert!(cx.one_writer() && error.retry_helps(), "beside another none begins: {error}");
        }
    }
    one.commit().await.expect("a transaction beside another of its lease commits");
    cx.only(&prefix, &written).await;
    cx.passes_on(owner, written).await;
}

pub(super) async fn the_loss_of_one_lease_is_not_the_others(cx: &GuardContext) {
    let (lost, held) = (cx.own("lost").await, cx.own("held").await);
    let mut rival = cx.rival(&lost);
    if cx.one_writer() {
        rival.take(Way::Observed).await;
        let mut work = cx.begin(&held).await;
        work.write("1").await;
        let (prefix, written) = (work.prefix.clone(), work.written());
        work.commit().await.expect("a lease is held though another one is lost");
        cx.only(&prefix, &written).await;
        return;
    }
    let (mut doomed, mut work) = (cx.begin(&lost).await, cx.begin(&held).await);
    doomed.write("1").await;
    work.write("1").await;
    let tried = rival.try_to_take(Way::Observed).await;
    let (prefix, written) = (work.prefix.clone(), work.written());
    work.commit().await.expect("a lease is held though another one is lost");
    cx.only(&prefix, &written).await;
    let (prefix, written) = (doomed.prefix.clone(), doomed.written());
    let left = match (doomed.commit().await, tried) {
        (Ok(()), Tried::Granted) => panic!("it committed after a successor's claim was granted"),
        (Ok(()), _) => written,
        (Err(_), _) => vec![],
    };
    cx.only(&prefix, &left).await;
}
