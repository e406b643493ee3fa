//! The log of a trial: a line for each event, written by the work itself.

mod file;

use std::fmt;
use std::str::FromStr;

use lease_core::store::Superseded;
use lease_core::{LeaseName, Slot, Term};

pub(crate) use file::{Log, Tail, now};

use super::plan::number;

/// A line of the log.
///
/// As text: the moment, the worker, the event, the round (its name, instant and term), and what else there is:
/// `1700000000123 w3 begin rounds-1 @1700000000000 t4 asked=1700000000120 superseded=1699999999500`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Milliseconds since 1970 UTC by the clock of the one machine that all workers run on, read **before** the
    /// event. So what says that a lease is held was true at this moment or later.
    pub at: i64,
    /// The number of the worker.
    pub worker: u32,
    /// What happened.
    pub event: Event,
}

/// What is logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// `started pid=...`: the worker has begun.
    Started {
        /// Its process.
        pid: u32,
    },
    /// `ask` and a name: a claim is going to be sent. Its moment names it in the line that answers it.
    Ask(LeaseName),
    /// `refused ... asked=...`: a claim was answered, and nothing was granted.
    Refused {
        /// The name.
        name: LeaseName,
        /// The moment of the `ask`.
        asked: i64,
    },
    /// `unsure ... asked=...`: a claim has failed and may have been granted all the same.
    Unsure {
        /// The name.
        name: LeaseName,
        /// The moment of the `ask`.
        asked: i64,
    },
    /// `begin ... asked=...`, and if so `rerun` and `superseded=...` (or `superseded-rerun=...`): the work begins, its lease held.
    Begin {
        /// The round.
        round: Round,
        /// The moment of the `ask`.
        asked: i64,
        /// It is the second round of its instant.
        rerun: bool,
        /// The instant given up for this one.
        superseded: Option<Superseded>,
    },
    /// `held`: the work goes on, its lease held.
    Held(Round),
    /// `end`: the work has come to its end, its lease held.
    End(Round),
    /// `skip ... upto=...`: the round is going to be recorded as finished, and instants as skipped.
    Skip {
        /// The round.
        round: Round,
        /// The last instant skipped.
        upto: Slot,
    },
    /// What became of the round.
    Ended(Round, End),
    /// `stood ms=...`: until now, for so long, the process got nowhere, or a call of the database that has nothing to
    /// wait for.
    Stood {
        /// How long, in milliseconds.
        ms: i64,
    },
    /// `killed`: by the trial, which writes this when the process is gone.
    Killed,
    /// `died`: by itself; written by the trial when the process is gone.
    Died,
    /// `done`: the worker has nothing left to do.
    Done,
}

/// A claim of an instant that was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// The name.
    pub name: LeaseName,
    /// The instant.
    pub slot: Slot,
    /// The term.
    pub term: Term,
}

/// What became of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// `finished`: the end is recorded.
    Finished,
    /// `lost-recorded`: the lease was lost, the end is recorded all the same.
    LostRecorded,
    /// `lost`: the lease was lost, the end was not recorded by this call.
    Lost,
    /// `unrecorded`: it is unknown whether the end is recorded.
    Unrecorded,
    /// `cut`: the work has not come to its end.
    CutShort,
}

impl End {
    const ALL: [(Self, &str); 5] = [
        (Self::Finished, "finished"),
        (Self::LostRecorded, "lost-recorded"),
        (Self::Lost, "lost"),
        (Self::Unrecorded, "unrecorded"),
        (Self::CutShort, "cut"),
    ];
}

impl Event {
    /// The round that it is about.
    pub(crate) fn round(&self) -> Option<&Round> {
        match self {
            Self::Begin { round, .. }
            | Self::Held(round)
            | Self::End(round)
            | Self::Skip { round, .. }
            | Self::Ended(round, _) => Some(round),
            _ => None,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} w{} ", self.at, self.worker)?;
        match &self.event {
            Event::Started { pid } => write!(f, "started pid={pid}"),
            Event::Ask(name) => write!(f, "ask {name}"),
            Event::Refused { name, asked } => write!(f, "refused {name} asked={asked}"),
            Event::Unsure { name, asked } => write!(f, "unsure {name} asked={asked}"),
            Event::Begin { round, asked, rerun, superseded } => {
                write!(f, "begin {round} asked={asked}")?;
                if *rerun {
                    f.write_str(" rerun")?;
                }
                match superseded {
                    None => Ok(()),
                    Some(Superseded { slot, rerun: false }) => write!(f, " superseded={}", slot.as_millis()),
                    Some(Superseded { slot, rerun: true }) => {
                        write!(f, " superseded-rerun={}", slot.as_millis())
                    }
                }
            }
            Event::Held(round) => write!(f, "held {round}"),
            Event::End(round) => write!(f, "end {round}"),
            Event::Skip { round, upto } => write!(f, "skip {round} upto={}", upto.as_millis()),
            Event::Ended(round, end) => {
                let word = End::ALL.iter().find(|(known, _)| known == end).map_or("", |(_, word)| word);
                write!(f, "{word} {round}")
            }
            Event::Stood { ms } => write!(f, "stood ms={ms}"),
            Event::Killed => f.write_str("killed"),
            Event::Died => f.write_str("died"),
            Event::Done => f.write_str("done"),
        }
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} @{} t{}", self.name, self.slot.as_millis(), self.term)
    }
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let entry =
            read(&mut words).map_err(|problem| format!("{line:?} is no line of the log: {problem}"))?;
        match words.next() {
            None => Ok(entry),
            Some(word) => Err(format!("{line:?} is no line of the log: {word:?} is too much")),
        }
    }
}

fn read<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Entry, String> {
    let at = number(next(words)?)?;
    let worker = number(after("w", next(words)?)?)?;
    let event = match next(words)? {
        "started" => Event::Started { pid: counted("pid=", words)? },
        "ask" => Event::Ask(name(next(words)?)?),
        "refused" => Event::Refused { name: name(next(words)?)?, asked: counted("asked=", words)? },
        "unsure" => Event::Unsure { name: name(next(words)?)?, asked: counted("asked=", words)? },
        "begin" => {
            let (round, asked) = (round(words)?, counted("asked=", words)?);
            let (mut rerun, mut superseded) = (false, None);
            for word in words.by_ref() {
                if word == "rerun" {
                    rerun = true;
                } else if let Some(ms) = word.strip_prefix("superseded-rerun=") {
                    superseded = Some(Superseded { slot: slot(ms)?, rerun: true });
                } else {
                    superseded = Some(Superseded { slot: slot(after("superseded=", word)?)?, rerun: false });
                }
            }
            Event::Begin { round, asked, rerun, superseded }
        }
        "held" => Event::Held(round(words)?),
        "end" => Event::End(round(words)?),
        "skip" => Event::Skip { round: round(words)?, upto: slot(after("upto=", next(words)?)?)? },
        "stood" => Event::Stood { ms: counted("ms=", words)? },
        "killed" => Event::Killed,
        "died" => Event::Died,
        "done" => Event::Done,
        other => match End::ALL.iter().find(|(_, word)| *word == other) {
            Some((end, _)) => Event::Ended(round(words)?, *end),
            None => return Err(format!("{other:?} is no event")),
        },
    };
    Ok(Entry { at, worker, event })
}

fn round<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Round, String> {
    let (name, slot) = (name(next(words)?)?, slot(after("@", next(words)?)?)?);
    let term = Term::new(counted("t", words)?).ok_or("a term is positive")?;
    Ok(Round { name, slot, term })
}

fn counted<'a, T: FromStr>(begin: &str, words: &mut impl Iterator<Item = &'a str>) -> Result<T, String> {
    number(after(begin, next(words)?)?)
}

fn next<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<&'a str, String> {
    words.next().ok_or_else(|| "it ends too early".to_owned())
}

fn after<'a>(begin: &str, word: &'a str) -> Result<&'a str, String> {
    word.strip_prefix(begin).ok_or_else(|| format!("{word:?} does not begin with {begin:?}"))
}

fn slot(ms: &str) -> Result<Slot, String> {
    Slot::from_millis(number(ms)?).ok_or_else(|| "an instant is positive".to_owned())
}

fn name(text: &str) -> Result<LeaseName, String> {
    text.parse().map_err(|error: lease_core::InvalidName| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "1 w1 started pid=4711
        2 w1 begin rounds-1 @1000 t1 asked=1
        2 w12 begin rounds-1 @1000 t2 asked=-1 rerun
        2 w1 begin rounds-1 @2000 t3 asked=1 superseded=1000
        2 w1 begin rounds-1 @2000 t3 asked=1 superseded-rerun=1000
        3 w1 held rounds-1 @1000 t1
        4 w1 end rounds-1 @1000 t1
        5 w1 skip rounds-1 @1000 t1 upto=2000
        6 w1 finished rounds-1 @1000 t1
        6 w1 lost-recorded rounds-1 @1000 t1
        6 w1 lost rounds-1 @1000 t1
        6 w1 unrecorded rounds-1 @1000 t1
        6 w1 cut rounds-1 @1000 t1
        7 w1 ask rounds-1
        7 w1 refused rounds-1 asked=7
        7 w1 unsure rounds-1 asked=7
        8 w1 stood ms=600
        8 w1 killed
        8 w1 died
        8 w1 done";

    #[test]
    fn every_line_is_read_back_as_it_was_written() {
        for line in LINES.lines().map(str::trim) {
            let entry: Entry = line.parse().unwrap();
            assert_eq!(entry.to_string(), line);
        }
        for broken in ["", "1 w1", "1 w1 held", "1 w1 held a @0 t1", "1 w1 held a @1 t0", "1 w1 done done"] {
            assert!(broken.parse::<Entry>().is_err(), "{broken:?}");
        }
    }
}
