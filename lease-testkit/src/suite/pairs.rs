//! Any writes at once act as if one had come after the other.

use std::sync::Arc;

use futures_util::future::join_all;
use lease_core::LeaseStore;
use lease_core::store::Claim;
use tokio::sync::Barrier;

use super::context::Context;
use super::start::{Before, Start, Write};
use super::statement::{Answer, Shape, Statement, shape};

/// How often each pair is raced.
const ROUNDS: usize = 2;
/// How many names are raced on at a time.
const AT_ONCE: usize = 4;

/// Those that meet three at a time: what happens to a round, and what may come after it.
const OF_SLOTS: [Write; 6] = [
    Write::ClaimSlot,
    Write::ClaimSlotLater,
    Write::FinishSlotPassed,
    Write::FinishSlotLost,
    Write::ClaimRerun,
    Write::Release,
];

type Outcome<const N: usize> = ([Option<Answer>; N], Option<Shape>);

pub(crate) async fn on_a_held_name_act_one_after_the_other(cx: &Context) {
    two_at_once(cx, Before::Held).await;
}

pub(crate) async fn on_an_expired_name_act_one_after_the_other(cx: &Context) {
    two_at_once(cx, Before::Expired).await;
}

pub(crate) async fn on_a_finished_name_act_one_after_the_other(cx: &Context) {
    two_at_once(cx, Before::Finished).await;
}

pub(crate) async fn on_a_new_name_act_one_after_the_other(cx: &Context) {
    two_at_once(cx, Before::New).await;
}

pub(crate) async fn three_about_a_running_round_act_one_after_the_other(cx: &Context) {
    three_at_once(cx, Before::Held).await;
}

pub(crate) async fn three_about_an_expired_round_act_one_after_the_other(cx: &Context) {
    three_at_once(cx, Before::Expired).await;
}

async fn two_at_once(cx: &Context, before: Before) {
    let any = Start::new(cx, "any", before);
    let mut effective = Vec::new();
    for write in Write::ALL {
        effective.push(any.is_changed_by(write).await);
    }
    let mut pairs = Vec::new();
    for (n, one) in Write::ALL.into_iter().enumerate() {
        for (m, two) in Write::ALL.into_iter().enumerate().skip(n) {
            // Two that change nothing have no order. To two that look at no slot a finished name is as an expired one.
            let is_new_here = before != Before::Finished || one.looks_at_slots() || two.looks_at_slots();
            if (effective[n] || effective[m]) && is_new_here {
                pairs.push([one, two]);
            }
        }
    }
    act_one_after_the_other(cx, before, &pairs).await;
}

async fn three_at_once(cx: &Context, before: Before) {
    let mut threes = Vec::new();
    for (n, one) in OF_SLOTS.into_iter().enumerate() {
        for (m, two) in OF_SLOTS.into_iter().enumerate().skip(n + 1) {
            threes.extend(OF_SLOTS.into_iter().skip(m + 1).map(|three| [one, two, three]));
        }
    }
    act_one_after_the_other(cx, before, &threes).await;
}

async fn act_one_after_the_other<const N: usize>(cx: &Context, before: Before, all: &[[Write; N]]) {
    let stores = [cx.shared_store(), cx.another_shared_store().await];
    let mut starts = Vec::new();
    for writes in all {
        for round in 0..ROUNDS {
            starts.push((*writes, Start::new(cx, &format!("{writes:?} {round}"), before)));
        }
    }
    for some in starts.chunks(AT_ONCE) {
        for made in join_all(some.iter().map(|(_, start)| start.make(&*stores[0]))).await {
            made.unwrap_or_else(|error| panic!("a name failed to be made: {error}"));
        }
    }
    if before == Before::Expired {
        cx.expire().await;
    }
    for some in starts.chunks(AT_ONCE) {
        join_all(some.iter().map(|(writes, start)| race(&stores, start, *writes))).await;
    }
}

async fn race<const N: usize>(stores: &[Arc<dyn LeaseStore>; 2], start: &Start, kinds: [Write; N]) {
    let claims = start.claims::<N>();
    let writes: [(Write, &Claim); N] = std::array::from_fn(|n| (kinds[n], &claims[n]));
    let statements =
        start.statements(&*stores[0], writes).await.unwrap_or_else(|error| panic!("inspect failed: {error}"));
    let answers = at_once(stores, &statements).await.map(Some);
    let outcome = (answers, shape(&*stores[0], start.name()).await.expect("inspect works"));
    let allowed = allowed(start, writes, &statements).await;
    assert!(
        allowed.contains(&outcome),
        "{kinds:?} ran at once on a name that was {:?}. The outcome\n  {outcome:?}\nis none that one after the other can have:\n  {allowed:?}",
        start.before()
    );
}

/// Sends all at the same moment, in turn by one process and another.
async fn at_once<const N: usize>(
    stores: &[Arc<dyn LeaseStore>; 2],
    statements: &[Statement; N],
) -> [Answer; N] {
    let start = Arc::new(Barrier::new(N));
    let tasks = statements.iter().zip(stores.iter().cycle()).map(|(statement, store)| {
        let (store, statement, start) = (Arc::clone(store), statement.clone(), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            statement.run(&*store).await.unwrap_or_else(|error| {
                panic!("{statement:?} failed beside another statement (contention is not an error): {error}")
            })
        })
    });
    let answers =
        join_all(tasks).await.into_iter().map(|task| task.expect("a statement among others failed"));
    answers.collect::<Vec<_>>().try_into().expect("as many answers as statements")
}

/// What each order gives, also when statements were refused for the row being busy.
async fn allowed<const N: usize>(
    start: &Start,
    writes: [(Write, &Claim); N],
    statements: &[Statement; N],
) -> Vec<Outcome<N>> {
    let mut outcomes = Vec::new();
    for order in orders(N) {
        let refused: Vec<usize> = (0..N).filter(|which| !order.contains(which)).collect();
        let refusals: Option<Vec<Answer>> =
            refused.iter().map(|&which| statements[which].refusal()).collect();
        if let Some(refusals) = refusals.filter(|_| !order.is_empty()) {
            let (mut answers, left) = start.model(writes, &order).await;
            for (which, refusal) in refused.into_iter().zip(refusals) {
                answers[which] = Some(refusal);
            }
            outcomes.push((answers, left));
        }
    }
    outcomes
}

/// Every order of some or all of the first `n` numbers.
fn orders(n: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![Vec::new()];
    let mut begun = 0;
    while begun < orders.len() {
        for next in (0..n).filter(|next| !orders[begun].contains(next)).collect::<Vec<_>>() {
            let longer = [&orders[begun][..], &[next]].concat();
            orders.push(longer);
        }
        begun += 1;
    }
    orders
}
