//! A lease is renewed whatever its own transactions do.

use std::time::Duration;

use futures_util::future::join;
use lease_core::GuardError;
use lease_core::store::RenewAnswer;

use super::context::GuardContext;
use super::owner::Owner;
use super::rival::SOON;
use crate::suite::process::{RENEWED, WITHIN};

/// Long enough to be seen in an expiry.
const MOMENT: Duration = Duration::from_millis(10);

/// Holds the lease to be renewed; the database may be busy where it has one writer.
async fn is_renewed(owner: &Owner, within: Duration, may_be_busy: bool) {
    match owner.renew(within).await {
        Some(answer) => assert!(answer == RENEWED, "asked to renew, the store answered {answer:?}"),
        None => assert!(may_be_busy, "a transaction that is open keeps its own lease from being renewed"),
    }
}

pub(super) async fn a_renewal_passes_beside_an_open_transaction(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let mut work = cx.begin(&owner).await;
    for n in 0..3 {
        is_renewed(&owner, SOON, cx.one_writer()).await;
        work.write(&n.to_string()).await;
    }
    is_renewed(&owner, SOON, cx.one_writer()).await;
    let written = work.written();
    work.commit().await.expect("a transaction commits whose lease was renewed beside it");
    cx.passes_on(owner, written).await;
}

pub(super) async fn a_lease_is_renewed_after_a_commit_and_after_a_rollback(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let mut work = cx.begin(&owner).await;
    work.write("1").await;
    work.commit().await.expect("a transaction under a held lease commits");
    is_renewed(&owner, WITHIN, false).await;
    let mut work = cx.begin(&owner).await;
    work.write("2").await;
    work.roll_back().await.expect("a transaction can be rolled back");
    is_renewed(&owner, WITHIN, false).await;
}

pub(super) async fn renewals_and_transactions_at_once_lose_nothing(cx: &GuardContext) {
    const EACH: usize = 20;
    let owner = cx.own("job").await;
    let renewals = async {
        for _ in 0..EACH {
            let answer = owner.renew(WITHIN).await;
            assert!(answer != Some(RenewAnswer::Lost), "beside a transaction a renewal is called lost");
            tokio::task::yield_now().await;
        }
    };
    let transactions = async {
        let mut done = Vec::new();
        for n in 0..EACH {
            let committed = async {
                let mut work = cx.try_begin(&owner.tenure()).await?;
                work.try_write(&format!("{n:02}")).await?;
                let written = work.written();
                tokio::task::yield_now().await;
                work.commit().await?;
                Ok::<_, GuardError>(written)
            };
            match committed.await {
                Ok(mut written) => done.append(&mut written),
                Err(error) => {
                    assert!(error.retry_helps(), "beside a renewal a transaction ends with: {error}");
                }
            }
        }
        done
    };
    let ((), done) = join(renewals, transactions).await;
    assert!(!done.is_empty(), "beside renewals not one of {EACH} transactions commits");
    cx.passes_on(owner, done).await;
}

pub(super) async fn a_deadline_moves_with_the_expiry_and_not_alone(cx: &GuardContext) {
    for commits in [true, false] {
        let owner = cx.own(&format!("job {commits}")).await;
        cx.pass(MOMENT).await;
        owner.pass(MOMENT);
        let (deadline, expires_at) = (owner.tenure().deadline(), cx.row(owner.name()).await.expires_at);
        let mut work = cx.begin(&owner).await;
        work.write("1").await;
        let mut left = work.written();
        if commits {
            work.commit().await.expect("a transaction under a held lease commits");
        } else {
            work.roll_back().await.expect("a transaction can be rolled back");
            left.clear();
        }
        let is_renewed = cx.row(owner.name()).await.expires_at > expires_at;
        assert!(
            is_renewed || owner.tenure().deadline() == deadline,
            "committed: {commits}: the process has its lease for longer, and the database does not"
        );
        assert!(
            is_renewed || !(commits && cx.one_writer()),
            "a transaction that lets no renewal pass beside it was committed and carried none"
        );
        cx.passes_on(owner, left).await;
    }
}
