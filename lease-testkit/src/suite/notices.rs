//! Who waits is told that a name was given back, where the engine can tell.

use std::time::Duration;

use lease_core::store::{DbTime, LeaseRow, Notices};
use lease_core::{LeaseName, LeaseStore};
use tokio::time::timeout;

use super::context::{Context, claim_of, slot};
use super::same::same_row;

/// A listener may have to connect first, and a notice be lost: that is allowed, that nothing is ever heard is not.
const TRIES: u32 = 60;
const PATIENCE: Duration = Duration::from_secs(1);

/// Gives the name back again and again until that is heard, or the store has found out that it can hear nothing.
async fn is_heard(cx: &Context, listening: &dyn LeaseStore, notices: &mut Notices, name: &LeaseName) {
    for _ in 0..TRIES {
        if listening.notices().is_none() {
            return;
        }
        let held = cx.hold_again(name).await;
        cx.release(&held).await;
        cx.store.announce(name).await.ok();
        if timeout(PATIENCE, notices.about(name)).await.is_ok() {
            return;
        }
    }
    panic!("{name:?} was given back {TRIES} times, and another process that listens heard of none");
}

pub(crate) async fn a_name_that_one_process_gives_back_is_heard_of_by_another_that_listens(cx: &Context) {
    // Where the engine tells nothing, there is nothing to keep.
    let listening = cx.another_shared_store().await;
    let Some(mut notices) = listening.notices() else { return };
    for _ in 0..3 {
        is_heard(cx, &*listening, &mut notices, &cx.name("job")).await;
    }
}

pub(crate) async fn names_of_any_kind_can_be_told(cx: &Context) {
    let room = 191 - cx.prefix().len();
    let ends = ["it's; \"quoted\" \\ `back` $1 %s", "ä\u{1f980}", &"x".repeat(room)];
    let listening = cx.another_shared_store().await;
    let mut notices = listening.notices();
    for end in ends {
        let name = cx.name(end);
        cx.store.announce(&name).await.ok();
        if let Some(notices) = &mut notices {
            is_heard(cx, &*listening, notices, &name).await;
        }
    }
}

pub(crate) async fn telling_changes_no_row_and_makes_none(cx: &Context) {
    let held = cx.hold("held").await;
    let round = cx.cut_short("round", slot(1)).await;
    let never = claim_of(&cx.name("never"));
    let before = [cx.row(&held.name).await, cx.row(&round.name).await];
    for store in [cx.store.clone(), cx.another().await] {
        for name in [&held.name, &round.name, &never.name] {
            store.announce(name).await.ok();
        }
    }
    same_row(&cx.row(&held.name).await, &before[0]);
    same_row(&cx.row(&round.name).await, &LeaseRow { expires_at: DbTime::RELEASED, ..before[1].clone() });
    assert_eq!(cx.find_row(&never.name).await, None, "telling made a row");
}
