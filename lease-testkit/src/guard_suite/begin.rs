//! Under a lease that is lost not one statement of the program's runs.

use lease_core::GuardError;

use super::context::{GuardContext, Work, is_lost};
use super::owner::Owner;
use super::rival::Way;
use crate::Damage;

/// Holds the guard to begin nothing under the owner's lease.
async fn does_not_begin(cx: &GuardContext, owner: &Owner) {
    is_lost(begun(cx, owner).await);
    cx.nothing_of(owner.name().as_str()).await;
}

async fn begun(cx: &GuardContext, owner: &Owner) -> Result<Work, GuardError> {
    cx.try_begin(&owner.tenure()).await
}

pub(super) async fn a_lease_taken_over_is_lost(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let mut rival = cx.rival(&owner);
    rival.take(Way::Observed).await;
    does_not_begin(cx, &owner).await;
    rival.leave().await;
    does_not_begin(cx, &owner).await;
    cx.passes_on(owner, vec![]).await;
}

pub(super) async fn a_released_lease_is_lost(cx: &GuardContext) {
    let owner = cx.own("job").await;
    cx.store.release(owner.name(), &owner.holder()).await.ok();
    does_not_begin(cx, &owner).await;
    cx.passes_on(owner, vec![]).await;
}

pub(super) async fn a_cleared_lease_is_lost(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let observed = cx.row(owner.name()).await.observed();
    cx.store.clear(owner.name(), &observed).await.ok();
    does_not_begin(cx, &owner).await;
}

pub(super) async fn an_expired_lease_is_lost(cx: &GuardContext) {
    let timings = Owner::brief(cx.brief());
    let owner = Owner::claim(cx.shared_store(), cx.name("job"), timings).await;
    cx.pass(timings.ttl()).await;
    // An attempt of a ttl this short may also have no time for an answer.
    match begun(cx, &owner).await {
        Err(error) if error.retry_helps() => {}
        begun => is_lost(begun),
    }
    cx.nothing_of(owner.name().as_str()).await;
    cx.passes_on(owner, vec![]).await;
}

pub(super) async fn a_lease_whose_row_was_deleted_is_lost(cx: &GuardContext) {
    let owner = cx.own("job").await;
    cx.damage(owner.name(), Damage::RowDeleted).await;
    does_not_begin(cx, &owner).await;
}

pub(super) async fn a_lease_past_its_deadline_here_is_lost(cx: &GuardContext) {
    let owner = cx.own("job").await;
    owner.pass_deadline();
    does_not_begin(cx, &owner).await;
}

pub(super) async fn a_lease_given_up_here_is_lost(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let tenure = owner.tenure();
    let name = owner.name().clone();
    drop(owner);
    is_lost(cx.try_begin(&tenure).await);
    cx.nothing_of(name.as_str()).await;
}
