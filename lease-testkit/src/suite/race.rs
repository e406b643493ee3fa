//! Many at once: one winner, and never two holders.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use lease_core::store::{Claim, ClaimAnswer, ConditionalAnswer, Holding, RenewAnswer, SlotAnswer};
use lease_core::{Holder, LeaseName, Term};
use tokio::sync::Barrier;
use tokio::time::timeout;

use super::context::{Context, claim_of, holding, slot, term, unfinished};
use super::process::{Process, RENEWED, WITHIN};

/// How many race for each name, half of them on each of two stores.
pub(super) const RACERS: usize = 8;
/// How many names are raced for.
pub(super) const ROUNDS: usize = 6;
/// More than a store has connections.
pub(super) const CROWD: usize = 64;

/// Lets so many racers attempt a claim of `name` at once; the answers, with the token of each.
pub(super) async fn race<A: Future<Output = Option<Term>> + Send + 'static>(
    stores: &[Process; 2],
    racers: usize,
    name: &LeaseName,
    attempt: impl Fn(Process, Claim) -> A,
) -> Vec<(Holder, Option<Term>)> {
    let start = Arc::new(Barrier::new(racers));
    let tasks = stores.iter().cycle().take(racers).map(|store| {
        let (claim, start) = (claim_of(name), Arc::clone(&start));
        let (holder, attempt) = (claim.holder, attempt(store.clone(), claim));
        tokio::spawn(async move {
            start.wait().await;
            let Ok(answer) = timeout(WITHIN, attempt).await else {
                panic!("no answer within {WITHIN:?} to a claim by {holder:?}");
            };
            (holder, answer)
        })
    });
    join_all(tasks).await.into_iter().map(|task| task.expect("a racer failed")).collect()
}

/// Holds the store to exactly one grant, under the term next in line, of the token in the row.
pub(super) async fn has_one_winner(
    cx: &Context,
    name: &LeaseName,
    racers: &[(Holder, Option<Term>)],
    next: i64,
) {
    let granted: Vec<_> = racers.iter().filter(|(_, granted)| granted.is_some()).collect();
    assert!(
        granted.len() == 1,
        "{} of {} racers were granted {name:?}: {racers:?}",
        granted.len(),
        racers.len()
    );
    assert_eq!(granted[0].1, Some(term(next)), "the winner's term");
    let row = cx.row(name).await;
    assert_eq!((row.holder, row.term), (granted[0].0, term(next)), "the row is not the winner's");
}

async fn claim(store: Process, claim: Claim) -> Option<Term> {
    match store.claim(&claim).await.ok() {
        ClaimAnswer::Granted(term) => Some(term),
        ClaimAnswer::Held => None,
    }
}

pub(super) fn granted(answer: ConditionalAnswer) -> Option<Term> {
    match answer {
        ConditionalAnswer::Granted(term) => Some(term),
        ConditionalAnswer::Moved => None,
    }
}

pub(super) async fn stores(cx: &Context) -> [Process; 2] {
    [cx.store.clone(), cx.another().await]
}

pub(crate) async fn a_new_name_has_one_winner(cx: &Context) {
    let stores = stores(cx).await;
    for n in 0..ROUNDS {
        let name = cx.name(&format!("job {n}"));
        let racers = race(&stores, RACERS, &name, claim).await;
        has_one_winner(cx, &name, &racers, 1).await;
    }
}

pub(crate) async fn sixty_four_new_names_claimed_at_once_are_all_granted(cx: &Context) {
    let start = Arc::new(Barrier::new(CROWD));
    let stores = stores(cx).await;
    let tasks = stores.iter().cycle().take(CROWD).enumerate().map(|(n, store)| {
        let (store, claim, start) = (store.clone(), cx.claim(&format!("job {n}")), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            let Ok(answer) = timeout(WITHIN, store.claim(&claim)).await else {
                panic!("no answer within {WITHIN:?} to the claim of {:?}", claim.name);
            };
            (claim, answer.ok())
        })
    });
    for task in join_all(tasks).await {
        let (claim, answer) = task.expect("a claimer failed");
        assert_eq!(answer, ClaimAnswer::Granted(Term::FIRST), "{:?} is claimed by nobody else", claim.name);
        let row = cx.row(&claim.name).await;
        assert_eq!((row.holder, row.term), (claim.holder, Term::FIRST), "the row of {:?}", claim.name);
    }
}

pub(crate) async fn sixty_four_claims_of_one_new_name_have_one_winner(cx: &Context) {
    let (stores, name) = (stores(cx).await, cx.name("job"));
    let racers = race(&stores, CROWD, &name, claim).await;
    has_one_winner(cx, &name, &racers, 1).await;
}

pub(crate) async fn an_expired_name_has_one_winner(cx: &Context) {
    let stores = stores(cx).await;
    let mut names = Vec::new();
    for n in 0..ROUNDS {
        names.push(cx.hold_briefly(&format!("job {n}")).await.name);
    }
    cx.expire().await;
    for name in names {
        let racers = race(&stores, RACERS, &name, claim).await;
        has_one_winner(cx, &name, &racers, 2).await;
    }
}

pub(crate) async fn a_released_name_has_one_winner(cx: &Context) {
    let stores = stores(cx).await;
    for n in 0..ROUNDS {
        let former = cx.hold(&format!("job {n}")).await;
        cx.release(&former).await;
        let racers = race(&stores, RACERS, &former.name, claim).await;
        has_one_winner(cx, &former.name, &racers, 2).await;
    }
}

pub(crate) async fn an_observed_state_has_one_winner(cx: &Context) {
    let stores = stores(cx).await;
    for n in 0..ROUNDS {
        let former = cx.hold(&format!("job {n}")).await;
        let seen = cx.row(&former.name).await.observed();
        let racers = race(&stores, RACERS, &former.name, move |store, claim| async move {
            granted(store.claim_observed(&claim, &seen).await.ok())
        })
        .await;
        has_one_winner(cx, &former.name, &racers, 2).await;
    }
}

pub(crate) async fn claims_of_every_kind_on_one_free_name_have_one_winner(cx: &Context) {
    let stores = stores(cx).await;
    for n in 0..ROUNDS {
        let round = cx.cut_short(&format!("job {n}"), slot(1)).await;
        let seen = cx.row(&round.name).await.observed();
        let cut_short = unfinished(&round.name, slot(1), 1);
        let kind = AtomicUsize::new(n);
        let racers = race(&stores, RACERS, &round.name, |store, own| {
            let kind = kind.fetch_add(1, Ordering::Relaxed) % 4;
            let cut_short = cut_short.clone();
            async move {
                match kind {
                    0 => claim(store, own).await,
                    1 => granted(store.claim_observed(&own, &seen).await.ok()),
                    2 => granted(store.claim_rerun(&own, &cut_short).await.ok()),
                    _ => match store.claim_slot(&own, slot(2)).await.ok() {
                        SlotAnswer::Granted { term, .. } => Some(term),
                        _ => None,
                    },
                }
            }
        })
        .await;
        has_one_winner(cx, &round.name, &racers, 2).await;
    }
}

pub(crate) async fn no_two_hold_at_once_and_no_term_repeats(cx: &Context) {
    const EACH: usize = 10;
    let (stores, name, holders) = (stores(cx).await, cx.name("job"), Arc::new(AtomicUsize::new(0)));
    let tasks = stores.iter().cycle().take(RACERS).map(|store| {
        let (store, name, holders) = (store.clone(), name.clone(), Arc::clone(&holders));
        tokio::spawn(async move {
            let mut terms = Vec::new();
            while terms.len() < EACH {
                let own = claim_of(&name);
                if let Some(term) = claim(store.clone(), own.clone()).await {
                    assert_eq!(
                        holders.fetch_add(1, Ordering::SeqCst),
                        0,
                        "term {term} is not the only one held"
                    );
                    store.renew(&own).await.is(RENEWED);
                    holders.fetch_sub(1, Ordering::SeqCst);
                    store.release(&name, &own.holder).await.ok();
                    terms.push(term.get());
                } else {
                    tokio::task::yield_now().await;
                }
            }
            terms
        })
    });
    let lists = join_all(tasks).await.into_iter().map(|task| task.expect("a claimer failed"));
    let terms: Vec<i64> = lists.flatten().collect();
    let distinct: BTreeSet<i64> = terms.iter().copied().collect();
    let all: BTreeSet<i64> = (1..).take(RACERS * EACH).collect();
    assert_eq!(distinct, all, "the terms granted were {terms:?}");
}

pub(crate) async fn renewals_of_a_lease_from_two_processes_are_not_lost(cx: &Context) {
    let (stores, held) = (stores(cx).await, cx.hold("job").await);
    let tasks = stores.iter().cycle().take(RACERS).enumerate().map(|(n, store)| {
        let (store, held) = (store.clone(), held.clone());
        tokio::spawn(async move {
            for _ in 0..10 {
                if n < RACERS / 2 {
                    store.renew(&held).await.is(RENEWED);
                } else {
                    // A batch may skip a row that is locked; it may not claim more than that.
                    store.renew_many(&[holding(&held)], held.ttl).await.ok();
                }
            }
        })
    });
    for task in join_all(tasks).await {
        task.expect("a renewal among others failed");
    }
    cx.store.renew(&held).await.is(RENEWED);
}

pub(crate) async fn batches_in_opposite_orders_neither_fail_nor_lose_a_lease(cx: &Context) {
    let (stores, mut held) = (stores(cx).await, Vec::new());
    for n in 0..ROUNDS {
        held.push(cx.hold(&format!("job {n}")).await);
    }
    let mut batch: Vec<Holding> = held.iter().map(holding).collect();
    let tasks = stores.iter().cycle().take(RACERS).map(|store| {
        // Each wants first what the other has last: row by row, that is a deadlock.
        batch.reverse();
        let (store, batch, ttl) = (store.clone(), batch.clone(), held[0].ttl);
        tokio::spawn(async move {
            for _ in 0..10 {
                // A row that another batch has locked may be skipped.
                store.renew_many(&batch, ttl).await.ok();
            }
        })
    });
    for task in join_all(tasks).await {
        task.expect("a batch among others failed");
    }
    for lease in &held {
        cx.store.renew(lease).await.is(RENEWED);
    }
}

pub(crate) async fn a_holder_renews_while_others_claim(cx: &Context) {
    let (stores, held) = (stores(cx).await, cx.hold("job").await);
    let tasks = stores.iter().cycle().take(RACERS).map(|store| {
        let (store, name) = (store.clone(), held.name.clone());
        tokio::spawn(async move {
            for _ in 0..10 {
                store.claim(&claim_of(&name)).await.is(ClaimAnswer::Held);
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for _ in 0..20 {
        cx.store.renew(&held).await.is(RENEWED);
    }
    for task in join_all(tasks).await {
        task.expect("a claim of a held name failed");
    }
    cx.store.renew(&held).await.is(RENEWED);
    assert_eq!(cx.row(&held.name).await.term, term(1));
    cx.release(&held).await;
    cx.store.renew(&held).await.is(RenewAnswer::Lost);
}
