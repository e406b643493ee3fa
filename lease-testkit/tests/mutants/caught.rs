//! That a case fails on a broken store, and passes on the healthy one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_testkit::{Case, cases};
use tokio::time::timeout;

use super::broken::Broken;
use super::gates::Gates;
use super::mutant::Mutant;
use crate::common::OnMemory;

/// A store may take this long for a case that it passes or fails in a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(120);
/// These never answer, which is as good as a failure. Of any other one that is not done in time nobody knows
/// whether it would pass.
const HANGING: [Broken; 3] = [Broken::VerifyHangs, Broken::DroppedKeepsConnection, Broken::TellsNobody];
/// That a store hangs is seen by its taking so much longer than the healthy one, this long at least, and at most so long:
/// a case that is told nothing gives up after a minute, which is a failure and no hanging.
const HANGS: (u32, Duration, Duration) = (50, Duration::from_secs(5), Duration::from_secs(30));

/// Holds each of the cases to pass on the healthy store and not to pass on the broken one.
pub(crate) async fn is_caught(broken: Broken, names: &[&str]) {
    for name in names {
        let case = *cases()
            .iter()
            .find(|case| case.name() == *name)
            .unwrap_or_else(|| panic!("no case {name:?} is left in the suite to catch {broken:?}"));
        let healthy = OnMemory::new(|memory, _| Arc::new(memory));
        let start = Instant::now();
        assert_eq!(outcome(case, healthy, PATIENCE).await, Outcome::Passed, "{name} on the healthy store");
        let (caught, limit) = if HANGING.contains(&broken) {
            (Outcome::Hung, (start.elapsed() * HANGS.0).clamp(HANGS.1, HANGS.2))
        } else {
            (Outcome::Failed, PATIENCE)
        };
        let gates = Arc::<Gates>::default();
        let mutant =
            OnMemory::new(move |memory, _| Arc::new(Mutant::new(memory, broken, Arc::clone(&gates))));
        assert_eq!(outcome(case, mutant, limit).await, caught, "{name} did not catch {broken:?}");
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Hung,
}

async fn outcome(case: Case, subject: OnMemory, limit: Duration) -> Outcome {
    let mut task = tokio::spawn(async move { case.run(subject).await });
    match timeout(limit, &mut task).await {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(_)) => Outcome::Failed,
        Err(_) => {
            task.abort();
            Outcome::Hung
        }
    }
}
