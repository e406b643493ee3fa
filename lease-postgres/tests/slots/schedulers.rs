//! Two replicas of a scheduler: the connection of the first is cut before each message of its round, both ways, and the
//! second then does what is left to do. The same for every server.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use lease_core::{
    Error, FinishAnswer, LeaseName, LeaseStore, Leases, RoundEnd, Slot, SlotClaimed, SlotLease, Timings,
};
use lease_testkit::{Direction, Proxy};

use crate::rounds::{Round, Statement};
use crate::world::World;

/// For what must go well, on however slow a machine.
const LONG: Duration = Duration::from_secs(120);

/// A ttl that is long for a round without work.
const PATIENT: Duration = Duration::from_secs(60);

/// One that [`LONG`] does not outlast: what frees a name before is no expiry, and what goes unanswered for an attempt is not the
/// fault of a slow machine.
const UNEXPIRED: Duration = Duration::from_secs(180);

pub(crate) async fn a_round_cut_anywhere_is_run_to_its_end_once(world: &World) {
    cut_everywhere(world, Step::Round, Then::Back).await;
}

pub(crate) async fn a_round_cut_anywhere_with_the_server_away_is_run_again_once_at_most(world: &World) {
    cut_everywhere(world, Step::Round, Then::Away).await;
}

pub(crate) async fn a_rerun_cut_anywhere_is_run_to_its_end_once_or_used_up(world: &World) {
    cut_everywhere(world, Step::Rerun, Then::Back).await;
}

pub(crate) async fn a_rerun_cut_anywhere_with_the_server_away_is_never_run_again(world: &World) {
    cut_everywhere(world, Step::Rerun, Then::Away).await;
}

/// What the first replica does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Claims the instant, works, finishes.
    Round,
    /// Finds a round that was cut short, claims its rerun, works, finishes.
    Rerun,
}

/// What it finds after the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The server, by another connection.
    Back,
    /// Nobody, for ever.
    Away,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    step: Step,
    then: Then,
    ttl: Duration,
    direction: Direction,
    /// The message, counted from 1.
    n: usize,
}

/// What the first replica knows of its round in the end.
type Told = Result<RoundEnd, Error>;

/// What there was left to do for the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// The instant was free: nobody had run it.
    Round,
    /// It was cut short.
    Rerun,
    /// It was cut short twice, and will not be run any more.
    GivenUp,
}

async fn cut_everywhere(world: &World, step: Step, then: Then) {
    let messages = messages(world, step).await;
    let mut ttl = match then {
        Then::Back => UNEXPIRED,
        // The end of a round is told until the row has expired.
        Then::Away => world.beside.min_ttl().max(Duration::from_millis(1_500)),
    };
    let mut outcomes = Vec::new();
    for _ in 0..SWEEPS {
        let cells = [Direction::ToServer, Direction::ToClient].into_iter().flat_map(|direction| {
            (1..=messages[direction as usize]).map(move |n| Cell { step, then, ttl, direction, n })
        });
        outcomes.extend(
            stream::iter(cells).map(|cell| cell.run(world)).buffer_unordered(8).collect::<Vec<_>>().await,
        );
        let seen = what_matters(step, then, &outcomes);
        println!("{step:?}, {then:?}: {} cuts, of them {seen:?}", outcomes.iter().flatten().count());
        if !seen.contains(&0) {
            return;
        }
        // On a slow machine too little of a round fits into a short ttl.
        if ttl * 3 <= PATIENT {
            ttl *= 3;
        }
    }
    panic!("{step:?}, {then:?}: the cuts were not where it matters: {outcomes:?}");
}

/// A statement is one message, which is not the same one each time: what must come up may take several sweeps.
const SWEEPS: usize = 8;

/// The messages of an undisturbed step, by direction.
async fn messages(world: &World, step: Step) -> [usize; 2] {
    let first = Replica::new(world, step, UNEXPIRED).await;
    first.proxy.reset();
    let told = first.does(step).await;
    assert!(matches!(told, Ok(RoundEnd::Finished(FinishAnswer::Finished))), "{told:?}");
    let log = first.proxy.log();
    [Direction::ToServer, Direction::ToClient]
        .map(|direction| log.iter().filter(|passed| passed.direction == direction).count())
}

/// How often what must come up did.
fn what_matters(step: Step, then: Then, outcomes: &[Option<(Told, Left)>]) -> Vec<usize> {
    let count = |failed: bool, expected: Left| {
        let is =
            |told: &Told| if failed { told.is_err() } else { matches!(told, Ok(RoundEnd::Unrecorded(_))) };
        outcomes.iter().flatten().filter(|(told, left)| is(told) && *left == expected).count()
    };
    match (step, then) {
        (Step::Round, Then::Back) => vec![count(true, Left::Round), count(true, Left::Rerun)],
        (Step::Rerun, Then::Back) => vec![count(true, Left::Rerun), count(true, Left::GivenUp)],
        (Step::Round, Then::Away) => vec![
            count(true, Left::Round),
            count(true, Left::Rerun),
            count(false, Left::Rerun),
            count(false, Left::Nothing),
        ],
        (Step::Rerun, Then::Away) => vec![
            count(true, Left::Rerun),
            count(true, Left::GivenUp),
            count(false, Left::GivenUp),
            count(false, Left::Nothing),
        ],
    }
}

impl Cell {
    /// `None`: there was no such message this time.
    async fn run(self, world: &World) -> Option<(Told, Left)> {
        let first = Replica::new(world, self.step, self.ttl).await;
        if self.then == Then::Away {
            first.proxy.refuse();
        }
        first.proxy.cut_before(self.n as u64, self.direction);
        let told = first.does(self.step).await;
        if first.proxy.planned() > 0 {
            return None;
        }
        let left = first.leaves(world).await;
        let runs = first.runs.load(Ordering::SeqCst);
        let expected: &[(usize, Left)] = match (self.step, &told) {
            (_, Ok(RoundEnd::Finished(_))) => &[(1, Left::Nothing)],
            (Step::Round, Ok(RoundEnd::Unrecorded(_))) => &[(2, Left::Rerun), (1, Left::Nothing)],
            (Step::Round, Err(_)) => &[(1, Left::Round), (1, Left::Rerun)],
            (Step::Round, Ok(RoundEnd::CutShort)) => &[(1, Left::Rerun)],
            (Step::Rerun, Ok(RoundEnd::Unrecorded(_))) => &[(1, Left::GivenUp), (1, Left::Nothing)],
            (Step::Rerun, Err(_)) => &[(1, Left::Rerun), (0, Left::GivenUp)],
            (Step::Rerun, Ok(RoundEnd::CutShort)) => &[(0, Left::GivenUp)],
        };
        assert!(
            expected.contains(&(runs, left)),
            "{self:?}: {told:?}, then {left:?}: run to its end {runs} times"
        );
        Some((told, left))
    }
}

/// The first replica, by way of its proxy; its connections have been used before.
struct Replica {
    proxy: Proxy,
    leases: Leases,
    name: LeaseName,
    slot: Slot,
    runs: Arc<AtomicUsize>,
}

impl Replica {
    async fn new(world: &World, step: Step, ttl: Duration) -> Self {
        let (proxy, store) = world.wired();
        let statement = match step {
            Step::Round => Statement::ClaimNew,
            Step::Rerun => Statement::ClaimRerun,
        };
        let warms = leases(Arc::clone(&store), UNEXPIRED);
        let warms = Self::of(proxy, warms, &Round::before(world, statement).await);
        let told = warms.does(step).await;
        assert!(matches!(told, Ok(RoundEnd::Finished(_))), "{told:?}");
        Self::of(warms.proxy, leases(store, ttl), &Round::before(world, statement).await)
    }

    fn of(proxy: Proxy, leases: Leases, round: &Round) -> Self {
        Self { proxy, leases, name: round.name(), slot: round.slot(), runs: Arc::default() }
    }

    async fn does(&self, step: Step) -> Told {
        let round = match step {
            Step::Round => {
                match self.leases.claim_slot(self.name.clone(), self.slot, Duration::ZERO).await? {
                    SlotClaimed::Granted(round) => round,
                    other => panic!("{other:?}"),
                }
            }
            Step::Rerun => {
                let unfinished = self.leases.unfinished_slots([self.name.clone()]).await?;
                let [unfinished] = &unfinished[..] else { panic!("{unfinished:?}") };
                self.leases.claim_rerun(unfinished).await?.expect("nobody else is there")
            }
        };
        Ok(self.works(round).await)
    }

    async fn works(&self, round: SlotLease) -> RoundEnd {
        let runs = Arc::clone(&self.runs);
        let work = |_| async move {
            runs.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(())
        };
        round.run(|| None, work).await.end
    }

    /// What the second replica, by the straight way, finds to be done, and does.
    async fn leaves(&self, world: &World) -> Left {
        let second = leases(Arc::clone(&world.beside), UNEXPIRED);
        let give_up = Instant::now() + LONG;
        loop {
            let (found, round) = match &second.unfinished_slots([self.name.clone()]).await.unwrap()[..] {
                [] => match second.claim_slot(self.name.clone(), self.slot, Duration::ZERO).await.unwrap() {
                    SlotClaimed::Granted(round) => (Left::Round, Some(round)),
                    _ => (Left::Nothing, None),
                },
                [unfinished] => (Left::Rerun, second.claim_rerun(unfinished).await.unwrap()),
                more => panic!("{more:?}"),
            };
            if let Some(round) = round {
                let end = self.works(round).await;
                assert!(matches!(end, RoundEnd::Finished(FinishAnswer::Finished)), "{end:?}");
                return found;
            }
            let seen = world.beside.inspect(&self.name, LONG).await.unwrap();
            if let Some(row) = seen.row.filter(|row| !row.is_live(seen.now)) {
                if row.unfinished_slot.is_none() {
                    return Left::Nothing;
                }
                if row.rerun_slot == Some(self.slot) {
                    return Left::GivenUp;
                }
            }
            assert!(Instant::now() < give_up, "{:?} is neither finished nor free", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn leases(store: Arc<dyn LeaseStore>, ttl: Duration) -> Leases {
    let timings = Timings::from_ttl(ttl).unwrap();
    Leases::builder_shared(store).timings(timings).on_stuck(|_| {}).build().unwrap()
}
