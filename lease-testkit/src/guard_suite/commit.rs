//! What is committed, and when it is seen.

use super::context::GuardContext;

pub(super) async fn what_is_written_is_seen_after_the_commit_and_not_before(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let mut work = cx.begin(&owner).await;
    for note in ["1", "2", "3"] {
        work.write(note).await;
        cx.nothing_of(&work.prefix).await;
    }
    let (prefix, written) = (work.prefix.clone(), work.written());
    work.commit().await.expect("a transaction under a held lease commits");
    cx.only(&prefix, &written).await;
    cx.passes_on(owner, written).await;
}

pub(super) async fn a_transaction_that_writes_nothing_commits(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let work = cx.begin(&owner).await;
    work.commit().await.expect("a transaction under a held lease commits");
    cx.passes_on(owner, vec![]).await;
}

pub(super) async fn transactions_one_after_the_other_commit(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let mut all = Vec::new();
    for n in 0..10 {
        let mut work = cx.begin(&owner).await;
        work.write(&n.to_string()).await;
        all.append(&mut work.written());
        let prefix = work.prefix.clone();
        work.commit().await.expect("a transaction under a held lease commits");
        cx.only(&prefix, &all).await;
    }
}
