//! Many at once about the instants of a schedule: each is claimed once, rerun once, and never back again.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use futures_util::future::join_all;
use lease_core::Term;
use lease_core::store::{Claim, FinishAnswer, SlotAnswer, SlotEnd};
use tokio::task::yield_now;

use super::context::{Context, claim_of, end_of, slot, unfinished};
use super::process::Process;
use super::race::{CROWD, RACERS, ROUNDS, granted, has_one_winner, race, stores};

/// Claims the slot, as racers do.
async fn claim_slot(store: Process, claim: Claim, n: i64) -> Option<Term> {
    match store.claim_slot(&claim, slot(n)).await.ok() {
        SlotAnswer::Granted { term, .. } => Some(term),
        SlotAnswer::Held | SlotAnswer::Passed => None,
        SlotAnswer::NotYet(wait) => panic!("a slot of 2020 is said to come in {wait:?}"),
    }
}

pub(crate) async fn a_slot_of_a_new_name_has_one_winner(cx: &Context) {
    let stores = stores(cx).await;
    for n in 0..ROUNDS {
        slot_has_one_winner(cx, &stores, RACERS, &format!("job {n}"), 1).await;
    }
}

pub(crate) async fn a_slot_of_a_free_name_has_one_winner(cx: &Context) {
    let stores = stores(cx).await;
    for n in 0..ROUNDS {
        let round = cx.cut_short(&format!("job {n}"), slot(1)).await;
        if n % 2 == 1 {
            cx.store.finish_slot(&end_of(&round, slot(1))).await.is(FinishAnswer::Finished);
        }
        slot_has_one_winner(cx, &stores, RACERS, &format!("job {n}"), 2).await;
    }
}

pub(crate) async fn sixty_four_claims_of_one_slot_of_a_new_name_have_one_winner(cx: &Context) {
    slot_has_one_winner(cx, &stores(cx).await, CROWD, "job", 1).await;
}

pub(crate) async fn sixty_four_claims_of_one_slot_of_a_free_name_have_one_winner(cx: &Context) {
    cx.cut_short("job", slot(1)).await;
    slot_has_one_winner(cx, &stores(cx).await, CROWD, "job", 2).await;
}

async fn slot_has_one_winner(cx: &Context, stores: &[Process; 2], racers: usize, end: &str, next: i64) {
    let name = cx.name(end);
    let racers = race(stores, racers, &name, |store, claim| claim_slot(store, claim, 2)).await;
    has_one_winner(cx, &name, &racers, next).await;
    let row = cx.row(&name).await;
    assert_eq!((row.slot, row.unfinished_slot), (Some(slot(2)), Some(slot(2))));
}

pub(crate) async fn different_slots_of_a_name_have_one_winner(cx: &Context) {
    let stores = stores(cx).await;
    for n in 0..ROUNDS {
        let name = cx.name(&format!("job {n}"));
        let next = AtomicI64::new(0);
        let racers = race(&stores, RACERS, &name, |store, claim| {
            claim_slot(store, claim, next.fetch_add(1, Ordering::Relaxed))
        })
        .await;
        has_one_winner(cx, &name, &racers, 1).await;
    }
}

pub(crate) async fn a_rerun_has_one_winner(cx: &Context) {
    let stores = stores(cx).await;
    for n in 0..ROUNDS {
        rerun_has_one_winner(cx, &stores, RACERS, &format!("job {n}")).await;
    }
}

pub(crate) async fn sixty_four_reruns_of_one_round_have_one_winner(cx: &Context) {
    rerun_has_one_winner(cx, &stores(cx).await, CROWD, "job").await;
}

async fn rerun_has_one_winner(cx: &Context, stores: &[Process; 2], racers: usize, end: &str) {
    let round = cx.cut_short(end, slot(1)).await;
    let seen = unfinished(&round.name, slot(1), 1);
    let racers = race(stores, racers, &round.name, |store, claim| {
        let seen = seen.clone();
        async move { granted(store.claim_rerun(&claim, &seen).await.ok()) }
    })
    .await;
    has_one_winner(cx, &round.name, &racers, 2).await;
}

pub(crate) async fn an_instant_is_claimed_or_skipped_and_never_both(cx: &Context) {
    let stores = stores(cx).await;
    for n in 0..ROUNDS {
        let round = cx.cut_short(&format!("job {n}"), slot(1)).await;
        let end = SlotEnd { passed: Some(slot(2)), ..end_of(&round, slot(1)) };
        let order = AtomicUsize::new(0);
        // The former holder's word comes late, among claims of the instant that it skips.
        let answers = race(&stores, RACERS, &round.name, |store, claim| {
            let (end, is_end) = (end.clone(), order.fetch_add(1, Ordering::Relaxed) == n);
            async move {
                if !is_end {
                    return claim_slot(store, claim, 2).await;
                }
                match store.finish_slot(&end).await.ok() {
                    FinishAnswer::Finished => Some(Term::FIRST),
                    FinishAnswer::Lost { recorded } => {
                        assert!(!recorded, "a later instant was claimed before the end was recorded");
                        None
                    }
                }
            }
        })
        .await;
        let done: Vec<_> = answers.iter().filter_map(|(_, done)| *done).collect();
        assert_eq!(
            done.len(),
            1,
            "claimed under these terms, and skipped if the first is among them: {done:?}"
        );
        let row = cx.row(&round.name).await;
        let left = (Some(slot(2)), (done[0] > Term::FIRST).then(|| slot(2)));
        assert_eq!((row.term, (row.slot, row.unfinished_slot)), (done[0], left));
    }
}

pub(crate) async fn each_instant_is_granted_once_to_eight_that_follow_one_schedule(cx: &Context) {
    const INSTANTS: i64 = 12;
    let (stores, name) = (stores(cx).await, cx.name("job"));
    let tasks = stores.iter().cycle().take(RACERS).enumerate().map(|(n, store)| {
        let (store, name) = (store.clone(), name.clone());
        tokio::spawn(async move {
            let (mut granted, mut given_up, mut next) = (Vec::new(), Vec::new(), 1);
            while next <= INSTANTS {
                let claim = claim_of(&name);
                match store.claim_slot(&claim, slot(next)).await.ok() {
                    // Half of them never finish a round.
                    SlotAnswer::Granted { superseded, .. } => {
                        granted.push(next);
                        given_up.extend(superseded.map(|given_up| given_up.slot));
                        if n < RACERS / 2 {
                            store.finish_slot(&end_of(&claim, slot(next))).await.is(FinishAnswer::Finished);
                        } else {
                            store.release(&name, &claim.holder).await.ok();
                        }
                        // The next one is another's, also where no statement waits for anything.
                        yield_now().await;
                    }
                    SlotAnswer::Held => {
                        yield_now().await;
                        continue;
                    }
                    SlotAnswer::Passed => {}
                    SlotAnswer::NotYet(wait) => panic!("a slot of 2020 is said to come in {wait:?}"),
                }
                next += 1;
            }
            (n, granted, given_up)
        })
    });
    let (mut granted, mut cut_short, mut given_up) = (Vec::new(), Vec::new(), Vec::new());
    for task in join_all(tasks).await {
        let (n, of_one, of_others) = task.expect("a replica failed");
        if n >= RACERS / 2 {
            cut_short.extend(of_one.iter().map(|&n| slot(n)));
        }
        granted.extend(of_one);
        given_up.extend(of_others);
    }
    granted.sort_unstable();
    assert_eq!(granted, (1..=INSTANTS).collect::<Vec<_>>(), "the instants granted to any of the replicas");
    // The last one has no successor to give it up.
    cut_short.retain(|&cut_short| cut_short != slot(INSTANTS));
    cut_short.sort_unstable();
    given_up.sort_unstable();
    assert_eq!(given_up, cut_short, "the instants given up are those whose rounds never finished");
}
