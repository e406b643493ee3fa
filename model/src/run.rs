//! Runs a model through all its states, and finds the shortest way to what is wrong with it.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::thread;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Path};

/// A model whose steps can be told to people.
pub trait Told: Model {
    /// A step in one line.
    fn words(&self, before: &Self::State, action: &Self::Action, after: &Self::State) -> String;
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Figures {
    /// States, each counted once.
    pub states: usize,
    /// How many steps the farthest is away.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// The properties that do not hold.
    pub broken: BTreeSet<&'static str>,
}

/// Goes through all states. `progress` hears how many there are so far, now and then.
///
/// # Panics
///
/// When a step does.
pub fn all_states<M>(model: M, threads: usize, progress: impl Fn(usize)) -> (Figures, impl Checker<M>)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + PartialEq,
{
    let since = Instant::now();
    let checker = model.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_bfs();
    let mut told = Instant::now();
    while !checker.is_done() {
        thread::sleep(Duration::from_millis(5));
        if told.elapsed() >= Duration::from_secs(3) {
            told = Instant::now();
            progress(checker.unique_state_count());
        }
        if !checker.discoveries().is_empty() {
            break;
        }
    }
    let checker = checker.join();
    let figures = Figures {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: since.elapsed(),
        broken: checker.discoveries().into_keys().collect(),
    };
    (figures, checker)
}

/// The shortest way to a state in which a property does not hold, a line a step. `None`: it holds in all of them.
///
/// # Panics
///
/// When a step does.
pub fn shortest<M>(model: impl Fn() -> M, property: &'static str) -> Option<Vec<String>>
where
    M: Told + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + PartialEq,
{
    let wanted = || HasDiscoveries::AnyOf(BTreeSet::from([property]));
    let mut found = None;
    let mut depth = usize::MAX;
    // The checker finishes what it has begun, and may so come to a longer one: until there is none that is shorter.
    loop {
        let builder = model().checker().finish_when(wanted()).target_max_depth(depth);
        let checker = builder.spawn_bfs().join();
        let Some(path) = checker.discovery(property) else { return found };
        let steps = path.into_vec();
        depth = steps.len();
        found = Some(lines(checker.model(), &steps));
    }
}

/// Whether a property holds in all states, whatever becomes of others.
///
/// # Panics
///
/// When a step does.
pub fn holds<M>(model: M, property: &'static str, threads: usize) -> bool
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + PartialEq,
{
    let wanted = HasDiscoveries::AnyOf(BTreeSet::from([property]));
    model.checker().threads(threads).finish_when(wanted).spawn_bfs().join().discovery(property).is_none()
}

/// A path, a line a step.
pub fn told<M: Told>(model: &M, path: Path<M::State, M::Action>) -> Vec<String>
where
    M::State: Clone + PartialEq,
    M::Action: Clone + PartialEq,
{
    lines(model, &path.into_vec())
}

fn lines<M: Told>(model: &M, steps: &[(M::State, Option<M::Action>)]) -> Vec<String> {
    let told = |pair: &[(M::State, Option<M::Action>)]| {
        let [(before, Some(action)), (after, _)] = pair else { return None };
        Some(model.words(before, action, after))
    };
    steps.windows(2).filter_map(told).collect()
}
