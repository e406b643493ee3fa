//! Three replicas of a scheduler over one database for the better part of an hour: statements go wrong, futures are
//! dropped, replicas are killed or stopped, and ask for instants an hour off. What ran is judged by what they noted.

mod chaos;
mod notes;
mod replica;

use std::ops::Range;
use std::time::Duration;

use lease_core::{Clock, LeaseStore};
use lease_testkit::{ManualClock, MemoryStore};
use tokio::runtime::Builder;

use super::job::JOB;
use crate::common::{SECOND, name};
use chaos::Chaos;
use notes::{Counts, Event, Notes};
use replica::Replica;

const SEEDS: Range<u64> = 1..3;
const INSTANTS: u32 = 300;
/// Between two instants.
const PERIOD: Duration = Duration::from_secs(10);
/// How far time moves before every replica has its turn: by less than the tenth of the grace in which aborted work must end.
const TURN: Duration = Duration::from_millis(400);

/// The least of what must have happened: an idle test is no test.
const FLOORS: [(Event, usize); 13] = [
    (Event::Finished, 60),
    (Event::Rerun, 10),
    (Event::GivenUp, 2),
    (Event::Skipped, 10),
    (Event::AnswerLost, 200),
    (Event::StepFailed, 100),
    (Event::Killed, 50),
    (Event::KilledInARound, 5),
    (Event::Stopped, 10),
    (Event::Dropped, 15),
    (Event::AskedAhead, 50),
    (Event::AskedBehind, 50),
    (Event::Uncertain, 2),
];

#[test]
fn no_instant_runs_to_its_end_twice_and_none_is_lost_whatever_goes_wrong() {
    for seed in SEEDS {
        println!("seed {seed}");
        let counts = play(seed);
        println!("seed {seed}: {counts:?}");
        assert_at_least(&counts, &FLOORS);
    }
}

fn assert_at_least(counts: &Counts, floors: &[(Event, usize)]) {
    for (event, floor) in floors {
        let count = counts.get(event).copied().unwrap_or(0);
        assert!(count >= *floor, "{event:?}: {count} times, at least {floor} are wanted: {counts:?}");
    }
}

/// Plays all instants and answers what has happened.
fn play(seed: u64) -> Counts {
    let clock = ManualClock::new();
    let database = MemoryStore::with_clock(clock.clone());
    let (chaos, notes) = (Chaos::new(seed, clock.clone()), Notes::new(clock.clone()));
    let mut replicas = [0, 1, 2].map(|id| Replica::start(id, &database, &clock, &chaos, &notes));
    let turn = |replicas: &mut [Replica; 3]| {
        clock.advance(TURN);
        for replica in replicas {
            replica.turn();
        }
    };
    let end = clock.now() + PERIOD * INSTANTS;
    while clock.now() < end {
        turn(&mut replicas);
        for replica in &mut replicas {
            if replica.is_up() && chaos.one_in(150) {
                replica.kill();
            } else if replica.is_up() && chaos.one_in(400) {
                replica.stop();
            }
        }
    }
    // Then nothing goes wrong any more, and nobody asks for an instant: what is left is run again.
    chaos.end();
    let settled = clock.now() + SECOND * 200;
    while clock.now() < settled {
        turn(&mut replicas);
    }
    let runtime = Builder::new_current_thread().build().unwrap();
    let left = runtime.block_on(database.inspect(&name(JOB), SECOND)).unwrap();
    let mut counts = notes.judge(left.into());
    counts.insert(Event::AnswerLost, chaos.answers_lost());
    counts
}
