//! Any two writes at once act as if one had come after the other.

use std::sync::Arc;

use lease_core::LeaseStore;
use lease_core::store::Claim;
use tokio::sync::Barrier;

use super::context::Context;
use super::start::{Start, Write};
use super::statement::{Answer, Shape, Statement, shape};

/// How often each pair is raced.
const ROUNDS: usize = 2;

type Outcome = ([Option<Answer>; 2], Shape);

pub(crate) async fn on_a_held_name_act_one_after_the_other(cx: &Context) {
    act_one_after_the_other(cx, false).await;
}

pub(crate) async fn on_an_expired_name_act_one_after_the_other(cx: &Context) {
    act_one_after_the_other(cx, true).await;
}

async fn act_one_after_the_other(cx: &Context, expired: bool) {
    let stores = [cx.shared_store(), cx.another_shared_store().await];
    let mut starts = Vec::new();
    for (n, one) in Write::ALL.into_iter().enumerate() {
        for two in Write::ALL.into_iter().skip(n) {
            for round in 0..ROUNDS {
                let start = Start::make(cx, &format!("{one:?} {two:?} {round}"), expired).await;
                starts.push(([one, two], start));
            }
        }
    }
    if expired {
        cx.expire().await;
    }
    for ([one, two], start) in starts {
        let claims = start.claims::<2>();
        let writes = [(one, &claims[0]), (two, &claims[1])];
        let statements = start
            .statements(&*stores[0], writes)
            .await
            .unwrap_or_else(|error| panic!("inspect failed: {error}"));
        let allowed = allowed(&start, writes, &statements).await;
        let answers = at_once(&stores, &statements).await.map(Some);
        let left =
            shape(&*stores[0], start.name()).await.expect("inspect works").expect("rows are never deleted");
        let outcome = (answers, left);
        assert!(
            allowed.contains(&outcome),
            "{one:?} and {two:?} ran at once on {} name. The outcome\n  {outcome:?}\nis none that one after the other can have:\n  {allowed:?}",
            if expired { "an expired" } else { "a held" }
        );
    }
}

/// Sends both at the same moment, each by its own process.
async fn at_once(stores: &[Arc<dyn LeaseStore>; 2], statements: &[Statement; 2]) -> [Answer; 2] {
    let start = Arc::new(Barrier::new(2));
    let [one, two] = [0, 1].map(|which| {
        let (store, statement) = (Arc::clone(&stores[which]), statements[which].clone());
        let start = Arc::clone(&start);
        tokio::spawn(async move {
            start.wait().await;
            statement.run(&*store).await.unwrap_or_else(|error| {
                panic!("{statement:?} failed beside another statement (contention is not an error): {error}")
            })
        })
    });
    [
        one.await.expect("the first of two statements failed"),
        two.await.expect("the second of two statements failed"),
    ]
}

/// What either order gives, and what is left when a statement was refused for the row being busy.
async fn allowed(start: &Start, writes: [(Write, &Claim); 2], statements: &[Statement; 2]) -> Vec<Outcome> {
    let mut outcomes = vec![start.model(writes, &[0, 1]).await, start.model(writes, &[1, 0]).await];
    for (refused, other) in [(0, 1), (1, 0)] {
        if let Some(refusal) = statements[refused].refusal() {
            let (mut answers, left) = start.model(writes, &[other]).await;
            answers[refused] = Some(refusal);
            outcomes.push((answers, left));
        }
    }
    outcomes
}
