//! A moment in as few bytes as tell it from every other: hashed in one go, as it is for every step of the checker.

use std::hash::{Hash, Hasher};

use super::world::{Answer, Flight, Life, PROCESSES, Process, What, World};

/// Of a process.
const BYTES: usize = 38;

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut all = [0; PROCESSES * BYTES + 12];
        let Self { row, left, healed, term_repeated, all: processes } = self;
        let head = [
            row.expires.cast_unsigned(),
            u8::from(row.born) | u8::from(*term_repeated) << 1 | u8::from(row.stepped) << 2,
            row.behind,
            left.claims,
            left.crashes,
            left.odd,
            left.back,
            left.forward,
            left.suspends,
            healed.map_or(u8::MAX, |since| since),
        ];
        let (first, rest) = all.split_at_mut(12);
        first[..10].copy_from_slice(&head);
        for (process, bytes) in processes.iter().zip(rest.chunks_exact_mut(BYTES)) {
            pack(process, bytes);
        }
        state.write(&all);
    }
}

fn pack(process: &Process, bytes: &mut [u8]) {
    let Process { owns, life, ending, duty, watch, flights, suspended, odd } = process;
    let life = match *life {
        Life::Absent => [0; 5],
        Life::Idle => [1, 0, 0, 0, 0],
        Life::Asking { token, ago } => [2, token, ago, 0, 0],
        Life::Holding { token, machine } => {
            let [good, started, asking] = machine.bytes();
            [3, token, good, started, asking]
        }
    };
    bytes[..5].copy_from_slice(&life);
    bytes[5] = *owns;
    bytes[6] = *ending;
    bytes[7] = *duty;
    bytes[8] = u8::from(*suspended) | u8::from(*odd) << 1;
    if let Some(watch) = watch {
        bytes[9] = 1;
        bytes[10..15].copy_from_slice(&watch.bytes());
    }
    for (flight, bytes) in flights.iter().zip(bytes[15..].chunks_exact_mut(11)) {
        if let Some(flight) = flight {
            pack_flight(*flight, bytes);
        }
    }
}

fn pack_flight(flight: Flight, bytes: &mut [u8]) {
    let Flight { what, token, ago, answer } = flight;
    let what = match what {
        What::Claim => [1, 0, 0],
        What::Take { current, expires } => [2, u8::from(current), expires.cast_unsigned()],
        What::Renew => [3, 0, 0],
        What::Release => [4, 0, 0],
        What::Look => [5, 0, 0],
    };
    bytes[..3].copy_from_slice(&what);
    bytes[3] = token;
    bytes[4] = ago;
    match answer {
        None => {}
        Some(Answer::Yes) => bytes[5] = 1,
        Some(Answer::No) => bytes[5] = 2,
        Some(Answer::Seen(sight)) => {
            bytes[5] = 3;
            bytes[6..11].copy_from_slice(&[
                u8::from(sight.live),
                u8::from(sight.same),
                u8::from(sight.current),
                sight.expires.cast_unsigned(),
                sight.clock.cast_unsigned(),
            ]);
        }
    }
}
