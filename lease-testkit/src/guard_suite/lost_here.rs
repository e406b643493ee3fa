//! A lease lost by the process's own word is lost, though the database would still allow the commit.

use super::context::{GuardContext, Patience, Work, is_lost};
use super::rival::{Rival, Way};

/// How often a transaction writes where nobody else may end it.
const WRITES: usize = 10;

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

pub(super) async fn a_lease_past_its_deadline_ends_the_session(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let mut work = cx.begin(&owner).await;
    work.write("1").await;
    let (prefix, mut rival) = (work.prefix.clone(), cx.rival(&owner));
    owner.pass_deadline();
    is_ended(cx, &rival, &mut work).await;
    if !cx.one_writer() {
        rival.wait_to_take(Way::Observed).await;
    }
    goes_on_in_vain(cx, work).await;
    cx.nothing_of(&prefix).await;
    rival.leave().await;
    cx.passes_on(owner, vec![]).await;
}

pub(super) async fn a_lease_given_up_ends_the_session_and_frees_the_name_then(cx: &GuardContext) {
    let owner = cx.own("job").await;
    let mut work = cx.begin(&owner).await;
    work.write("1").await;
    let (prefix, mut rival) = (work.prefix.clone(), cx.rival(&owner));
    drop(owner);
    is_ended(cx, &rival, &mut work).await;
    goes_on_in_vain(cx, work).await;
    let patience = Patience::new("give back the name of a lease whose session has ended");
    while rival.has_left_it_held().await {
        patience.wait("it is held").await;
    }
    if cx.one_writer() {
        rival.wait_to_take(Way::Expired).await;
    } else {
        // No session is left to keep it out.
        rival.take(Way::Expired).await;
    }
    cx.nothing_of(&prefix).await;
}

/// Writes until its session has been ended, which where there is one writer the program may have to do itself.
async fn is_ended(cx: &GuardContext, rival: &Rival, work: &mut Work) {
    let patience = Patience::new("end the session of a transaction whose lease is lost");
    for n in 0.. {
        let is_free = !rival.has_left_it_held().await;
        if work.try_write(&format!("late {n}")).await.is_err() || (cx.one_writer() && n == WRITES) {
            return;
        }
        assert!(!is_free, "the name is free, and the transaction of its former holder writes on");
        patience.wait("it writes on").await;
    }
}

/// Nothing that it is sent now has an effect.
async fn goes_on_in_vain(cx: &GuardContext, mut work: Work) {
    let prefix = work.prefix.clone();
    for note in ["too late", "later still"] {
        let _ = work.try_write(note).await;
    }
    cx.nothing_of(&prefix).await;
    is_lost(work.commit().await);
}
