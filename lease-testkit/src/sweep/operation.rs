//! What is asked, as values that another process can be given.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, DbTime, Effect, FinishAnswer, Holding, Observed,
    ReleaseAnswer, RenewAnswer, ResignAnswer, SlotAnswer, SlotEnd, StoreError, Superseded, UnfinishedSlot,
};
use lease_core::{Holder, Instance, LeaseName, LeaseStore, Slot, Term};

/// No sweep outlives it.
pub(super) const TTL: Duration = Duration::from_secs(3600);

/// The ttl of a renewal: so its effect can be told from a claim's in the same millisecond.
pub(super) const RENEWED_TTL: Duration = Duration::from_secs(7200);

/// Instants long ago.
pub(super) const FIRST: i64 = 60_000;
pub(super) const SECOND: i64 = 2 * FIRST;
pub(super) const THIRD: i64 = 3 * FIRST;

/// How many leases a batch has.
const BATCH: usize = 3;

/// A statement that writes, by the row that it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// `claim` of a name without a row.
    ClaimNew,
    /// `claim` of a name that was released.
    ClaimFree,
    /// `claim_observed` of a name that somebody holds.
    ClaimObserved,
    /// `renew`.
    Renew,
    /// `renew_many` of three leases.
    RenewMany,
    /// `release`.
    Release,
    /// `clear` of a name that somebody holds.
    Clear,
    /// `resign`.
    Resign,
    /// `claim_slot` of a name without a row.
    SlotNew,
    /// `claim_slot` of a name whose last round was cut short.
    SlotNext,
    /// `finish_slot` of a round that is held, two instants later.
    Finish,
    /// `finish_slot` of a round whose rerun somebody else holds.
    FinishLost,
    /// `claim_rerun`.
    Rerun,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::ClaimNew,
        Self::ClaimFree,
        Self::ClaimObserved,
        Self::Renew,
        Self::RenewMany,
        Self::Release,
        Self::Clear,
        Self::Resign,
        Self::SlotNew,
        Self::SlotNext,
        Self::Finish,
        Self::FinishLost,
        Self::Rerun,
    ];

    /// Whether a store asks again after an answer that never came: twice is the same as once.
    pub(super) fn is_repeated(self) -> bool {
        matches!(self, Self::Renew | Self::RenewMany | Self::Release | Self::Resign | Self::Finish)
    }

    /// Whether it takes a name for a new holder.
    pub(super) fn claims(self) -> bool {
        matches!(
            self,
            Self::ClaimNew
                | Self::ClaimFree
                | Self::ClaimObserved
                | Self::SlotNew
                | Self::SlotNext
                | Self::Rerun
        )
    }
}

/// One of them, with all that it is asked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) operation: Operation,
    /// The name is `sweep-` and this.
    pub(super) number: u64,
    /// Who claims, renews, ends or gives back.
    pub(super) holder: Holder,
    /// The row as it was seen.
    pub(super) seen: Observed,
    /// The term as it was seen.
    pub(super) term: i64,
}

/// What was said to who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// The one answer that says that all of it took place.
    Done,
    /// Of a batch, what was said of each lease: renewed, or nothing.
    Partly(Vec<bool>),
    /// Any other answer.
    Otherwise(String),
    Failed {
        effect: Effect,
        error: String,
    },
    /// Who asked was killed first.
    Nothing,
}

impl Request {
    pub(super) fn names(&self) -> Vec<LeaseName> {
        let count = if self.operation == Operation::RenewMany { BATCH } else { 1 };
        let name = |n| LeaseName::new(&format!("sweep-{}-{n}", self.number)).expect("a name");
        (0..count).map(name).collect()
    }

    pub(super) fn name(&self) -> LeaseName {
        self.names().swap_remove(0)
    }

    pub(super) fn claim(&self) -> Claim {
        claim(self.name(), self.holder)
    }

    pub(super) fn end(&self) -> SlotEnd {
        let passed = (self.operation == Operation::Finish).then(|| slot(THIRD));
        SlotEnd { name: self.name(), holder: self.holder, slot: slot(FIRST), passed, lost: false }
    }

    pub(super) async fn ask(&self, store: &dyn LeaseStore, within: Duration) -> Told {
        self.answer(store, within)
            .await
            .unwrap_or_else(|error| Told::Failed { effect: error.effect(), error: format!("{error:?}") })
    }

    async fn answer(&self, store: &dyn LeaseStore, within: Duration) -> Result<Told, StoreError> {
        let (name, holder, seen) = (self.name(), &self.holder, &self.seen);
        let granted = Term::new(self.term + 1).expect("a term");
        Ok(match self.operation {
            Operation::ClaimNew | Operation::ClaimFree => {
                told(store.claim(&self.claim(), within).await?, ClaimAnswer::Granted(granted))
            }
            Operation::ClaimObserved => {
                let answer = store.claim_observed(&self.claim(), seen, within).await?;
                told(answer, ConditionalAnswer::Granted(granted))
            }
            Operation::Renew => match store.renew(&name, holder, RENEWED_TTL, within).await? {
                RenewAnswer::Renewed(_) => Told::Done,
                other @ RenewAnswer::Lost => Told::Otherwise(format!("{other:?}")),
            },
            Operation::RenewMany => {
                let leases: Vec<_> =
                    self.names().into_iter().map(|name| Holding { name, holder: *holder }).collect();
                let answers = store.renew_many(&leases, RENEWED_TTL, within).await?;
                Told::Partly(answers.iter().map(Option::is_some).collect())
            }
            Operation::Release => told(store.release(&name, holder, within).await?, ReleaseAnswer::Released),
            Operation::Clear => told(store.clear(&name, seen, within).await?, ClearAnswer::Cleared),
            Operation::Resign => {
                let term = Term::new(self.term).expect("a term");
                told(store.resign(&name, term, within).await?, ResignAnswer::Asked)
            }
            Operation::SlotNew => {
                let answer = store.claim_slot(&self.claim(), slot(SECOND), within).await?;
                told(answer, SlotAnswer::Granted { term: granted, superseded: None })
            }
            Operation::SlotNext => {
                let answer = store.claim_slot(&self.claim(), slot(SECOND), within).await?;
                let superseded = Some(Superseded { slot: slot(FIRST), rerun: false });
                told(answer, SlotAnswer::Granted { term: granted, superseded })
            }
            Operation::Finish => told(store.finish_slot(&self.end(), within).await?, FinishAnswer::Finished),
            Operation::FinishLost => {
                told(store.finish_slot(&self.end(), within).await?, FinishAnswer::Lost { recorded: true })
            }
            Operation::Rerun => {
                let unfinished = cut_short(name, FIRST, self.term);
                let answer = store.claim_rerun(&self.claim(), &unfinished, within).await?;
                told(answer, ConditionalAnswer::Granted(granted))
            }
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "answers are small, and made for this")]
fn told<T: PartialEq + fmt::Debug>(answer: T, done: T) -> Told {
    if answer == done { Told::Done } else { Told::Otherwise(format!("{answer:?}")) }
}

pub(super) fn claim(name: LeaseName, holder: Holder) -> Claim {
    Claim { name, holder, ttl: TTL, instance: Instance::named("sweep") }
}

pub(super) fn slot(ms: i64) -> Slot {
    Slot::from_millis(ms).expect("an instant")
}

pub(super) fn cut_short(name: LeaseName, ms: i64, term: i64) -> UnfinishedSlot {
    UnfinishedSlot { name, slot: slot(ms), term: Term::new(term).expect("a term") }
}

/// In one word for each field, for the environment of another process.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, number, holder, seen, term } = self;
        write!(f, "{operation:?} {number} {holder} {} {} {term}", seen.holder, seen.expires_at.as_millis())
    }
}

impl FromStr for Request {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("not a request: {text}");
        let [operation, number, holder, seen_holder, expiry, term] = text.split(' ').collect::<Vec<_>>()[..]
        else {
            return Err(bad());
        };
        let known = |known: &Operation| format!("{known:?}") == operation;
        Ok(Self {
            operation: Operation::ALL.into_iter().find(known).ok_or_else(bad)?,
            number: number.parse().map_err(|_| bad())?,
            holder: holder.parse().map_err(|_| bad())?,
            seen: Observed {
                holder: seen_holder.parse().map_err(|_| bad())?,
                expires_at: DbTime::from_millis(expiry.parse().map_err(|_| bad())?),
            },
            term: term.parse().map_err(|_| bad())?,
        })
    }
}

/// One line, for the standard output of another process.
impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Partly(each) => {
                let each: String = each.iter().map(|is| if *is { '1' } else { '0' }).collect();
                write!(f, "partly {each}")
            }
            Self::Otherwise(answer) => write!(f, "otherwise {answer}"),
            Self::Failed { effect: Effect::None, error } => write!(f, "without-effect {error}"),
            Self::Failed { effect: Effect::Unknown, error } => write!(f, "failed {error}"),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

impl FromStr for Told {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let failed = |effect| Self::Failed { effect, error: rest.to_owned() };
        Ok(match word {
            "done" => Self::Done,
            "partly" => Self::Partly(rest.chars().map(|is| is == '1').collect()),
            "otherwise" => Self::Otherwise(rest.to_owned()),
            "without-effect" => failed(Effect::None),
            "failed" => failed(Effect::Unknown),
            "nothing" => Self::Nothing,
            _ => return Err(format!("not what is told: {text}")),
        })
    }
}
