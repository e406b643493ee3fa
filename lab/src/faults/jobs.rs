//! Which histories there are to be, by what was asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;

use super::attack::Length;
use super::backend::Backend;
use super::kind::{Kind, Setting};

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tier {
    /// Every kind at least twenty times on each engine, in a few minutes; but ends of a MySQL or MariaDB server, from which it needs so
    /// long to come back, six times
    Commit,
    /// Fifty histories of a minute on each engine, and others in which each kind comes at least twenty times without any beside it
    Nightly,
    /// An hour of mixed faults on each engine
    Release,
}

/// A history to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) backend: Backend,
    /// Counted from 0, within its engine.
    pub(crate) number: u32,
    pub(crate) seed: u64,
    pub(crate) kinds: Vec<Kind>,
    /// How often each must come.
    pub(crate) floors: BTreeMap<Kind, u64>,
    /// Faults of workers and connections come beside the others.
    pub(crate) mixed: bool,
    pub(crate) length: Length,
}

/// The least number of injections of each kind on each engine, and of histories, each of which lasts so long.
pub(crate) const FLOOR: u64 = 20;
pub(crate) const HISTORIES: usize = 3;
pub(crate) const LEAST: Duration = Duration::from_secs(30);

/// No history that is to reach its floors goes on for longer: a bound for machines that are slow beyond all reason.
const MOST: Duration = Duration::from_secs(900);

/// One of many histories in a long run.
const PIECE: Duration = Duration::from_secs(240);

impl Job {
    /// Whether it must have a server to itself.
    pub(crate) fn server_is_its_own(&self) -> bool {
        self.kinds.iter().any(|kind| !matches!(kind.setting(), Setting::Workers | Setting::Network))
    }

    pub(crate) fn steps_the_clock(&self) -> bool {
        self.kinds.iter().any(|kind| kind.setting() == Setting::Clock)
    }

    pub(crate) fn fills_the_disk(&self) -> bool {
        self.kinds.contains(&Kind::FullDisk)
    }
}

/// How often a kind comes in the commit tier at least. A server of the MySQL family takes five to eight seconds to come back, and all is to
/// be over in four minutes.
pub(crate) fn commit_floor(backend: Backend, kind: Kind) -> u64 {
    match (backend, kind) {
        (Backend::Mariadb | Backend::Mysql, Kind::ServerKill | Kind::ServerRestart) => 6,
        _ => FLOOR,
    }
}

/// The commit tier on one engine. A history goes on with two rows of faults beside one another, so that few histories, which a small machine
/// can bear at the same time, have all kinds.
pub(crate) fn commit(backend: Backend, wanted: &[Kind], seed: u64) -> Vec<Job> {
    use Kind::{
        Blocker, ClientKill, ClientStop, ClockBack, ClockForward, Cut, FullDisk, HalfOpen, IdleKill, Latency,
        LostAnswers, LostRequests, Partition, ReadOnly, Replace, ServerKill, ServerRestart, ServerStop,
    };
    let groups: &[&[Kind]] = match backend {
        Backend::Sqlite => {
            &[&[ClientKill, ClientStop, Blocker], &[ClockBack, ClockForward], &[ReadOnly, Replace, FullDisk]]
        }
        _ => &[
            &[ServerKill, ServerRestart, ClientKill, ClientStop],
            &[ServerStop, Blocker, LostRequests, LostAnswers],
            &[ReadOnly, ClockBack, IdleKill, Partition, Latency],
            &[ClockForward, HalfOpen, Cut],
        ],
    };
    let length = Length { least: LEAST, most: MOST };
    numbered(backend, seed, chosen(groups, wanted), true, length, |kind| commit_floor(backend, kind))
}

/// Each kind as often as it must be, and no other beside it.
pub(crate) fn one_by_one(backend: Backend, wanted: &[Kind], seed: u64) -> Vec<Job> {
    let all = Kind::of(backend);
    let groups: Vec<&[Kind]> = all.chunk_by(|one, other| one.setting() == other.setting()).collect();
    let length = Length { least: LEAST, most: MOST * 4 };
    numbered(backend, seed, chosen(&groups, wanted), false, length, |_| FLOOR)
}

fn chosen(groups: &[&[Kind]], wanted: &[Kind]) -> Vec<Vec<Kind>> {
    let kinds =
        groups.iter().map(|group| group.iter().copied().filter(|kind| wanted.contains(kind)).collect());
    kinds.filter(|kinds: &Vec<Kind>| !kinds.is_empty()).collect()
}

/// So much time of mixed faults on one engine, in that many histories or in pieces: of these kinds, or of all. What the published
/// limit of forward steps allows would hide what it does not, so of all only each fifth history has them.
pub(crate) fn mixed(
    backend: Backend,
    wanted: Option<&[Kind]>,
    seed: u64,
    time: Duration,
    histories: Option<u32>,
) -> Vec<Job> {
    let count = histories.unwrap_or_else(|| {
        u32::try_from(time.as_secs().div_ceil(PIECE.as_secs())).unwrap_or(u32::MAX).max(1)
    });
    let each = time / count;
    let length = Length { least: each, most: each };
    let all = Kind::of(backend);
    let of = |number: u32| match wanted {
        Some(wanted) => all.iter().copied().filter(|kind| wanted.contains(kind)).collect(),
        None if number % 5 == 4 => all.clone(),
        None => all.iter().copied().filter(|kind| *kind != Kind::ClockForward).collect(),
    };
    numbered(backend, seed, (0..count).map(of).collect(), true, length, |_| 0)
}

fn numbered(
    backend: Backend,
    seed: u64,
    groups: Vec<Vec<Kind>>,
    mixed: bool,
    length: Length,
    floor: impl Fn(Kind) -> u64,
) -> Vec<Job> {
    let job = |(number, kinds): (u32, Vec<Kind>)| Job {
        backend,
        number,
        // The first has the seed itself: so a single history is replayed by its own.
        seed: seed.wrapping_add(u64::from(number)),
        floors: kinds.iter().map(|kind| (*kind, floor(*kind))).collect(),
        kinds,
        mixed,
        length,
    };
    (0..).zip(groups).map(job).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::plan::Plan;
    use super::*;

    const ALL: [Backend; 4] = [Backend::Postgres, Backend::Mariadb, Backend::Mysql, Backend::Sqlite];

    #[test]
    fn the_commit_tier_has_every_kind_of_an_engine_once_and_enough_histories() {
        for backend in ALL {
            let jobs = commit(backend, &Kind::of(backend), 7);
            let mut kinds: Vec<_> = jobs.iter().flat_map(|job| job.kinds.clone()).collect();
            kinds.sort_unstable();
            assert_eq!(kinds, Kind::of(backend));
            assert!(jobs.len() >= HISTORIES);
            assert!(jobs.iter().all(|job| job.length.least >= LEAST));
            let floors: BTreeMap<_, _> = jobs.iter().flat_map(|job| job.floors.clone()).collect();
            let lower: Vec<_> = floors.iter().filter(|(_, floor)| **floor < FLOOR).collect();
            let is_slow = matches!(backend, Backend::Mariadb | Backend::Mysql);
            assert_eq!(lower.len(), if is_slow { 2 } else { 0 }, "{lower:?}");
        }
    }

    #[test]
    fn every_kind_of_an_engine_comes_twenty_times_with_none_beside_it() {
        for backend in ALL {
            let jobs = one_by_one(backend, &Kind::of(backend), 7);
            let kinds: Vec<_> = jobs.iter().flat_map(|job| job.kinds.clone()).collect();
            assert_eq!(kinds.len(), Kind::of(backend).len());
            assert!(jobs.iter().all(|job| !job.mixed && job.floors.values().all(|floor| *floor >= FLOOR)));
            assert!(jobs.iter().all(|job| job.floors.len() == job.kinds.len()));
        }
    }

    #[test]
    fn a_mixed_run_has_every_kind_and_mostly_no_forward_steps() {
        let kinds = Kind::of(Backend::Mysql);
        let jobs = mixed(Backend::Mysql, None, 7, Duration::from_secs(3_600), None);
        assert_eq!(jobs.len(), 15);
        assert_eq!(jobs.iter().map(|job| job.length.least).sum::<Duration>(), Duration::from_secs(3_600));
        let steps: Vec<_> = jobs.iter().map(|job| job.kinds.contains(&Kind::ClockForward)).collect();
        assert_eq!(steps.iter().filter(|steps| **steps).count(), 3);
        let mut counts = BTreeMap::new();
        for injection in Plan::new(7, &jobs[4].kinds, 3, Duration::from_secs(4)).take(kinds.len()) {
            *counts.entry(injection.kind).or_insert(0) += 1;
        }
        assert_eq!(counts, kinds.into_iter().map(|kind| (kind, 1)).collect());
    }

    #[test]
    fn a_history_is_replayed_by_its_own_seed() {
        let jobs = mixed(Backend::Sqlite, None, 7, Duration::from_secs(120), Some(3));
        let again = mixed(Backend::Sqlite, Some(&jobs[2].kinds), jobs[2].seed, jobs[2].length.least, Some(1));
        assert_eq!(again, [Job { number: 0, ..jobs[2].clone() }]);
    }
}
