//! Statements as they were put to a store, and what it answered.

use lease_core::store::{Effect, StoreError};
use lease_core::{Holder, LeaseName};
use serde::{Deserialize, Serialize};

use super::text;

/// A name and the token of a claim on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The name.
    #[serde(with = "text")]
    pub name: LeaseName,
    /// The token.
    #[serde(with = "text")]
    pub holder: Holder,
}

/// What a conditional statement goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The token seen.
    #[serde(with = "text")]
    pub holder: Holder,
    /// The expiry seen, by the database's clock.
    pub expires_ms: i64,
}

/// A statement. What is of a `ttl_ms` is in milliseconds, what is of a slot in those since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the statement of its name in `LeaseStore`, with its parameters")]
pub enum Ask {
    Claim {
        token: Token,
        ttl_ms: i64,
    },
    ClaimObserved {
        token: Token,
        ttl_ms: i64,
        seen: Seen,
    },
    ClaimSlot {
        token: Token,
        ttl_ms: i64,
        slot: i64,
    },
    ClaimRerun {
        token: Token,
        ttl_ms: i64,
        slot: i64,
        term: i64,
    },
    Renew {
        token: Token,
        ttl_ms: i64,
    },
    RenewMany {
        tokens: Vec<Token>,
        ttl_ms: i64,
    },
    Verify {
        token: Token,
    },
    Release {
        token: Token,
    },
    FinishSlot {
        token: Token,
        slot: i64,
        passed: Option<i64>,
        lost: bool,
    },
    Clear {
        name: Name,
        seen: Seen,
    },
    Resign {
        name: Name,
        term: i64,
    },
    Inspect {
        name: Name,
    },
    LastSlot {
        name: Name,
    },
    /// One that concerns no name, or changes none: `list`, `unfinished_slots`, `announce`, `check`, `migrate`.
    Other(String),
}

/// A name alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name(#[serde(with = "text")] pub LeaseName);

impl From<&LeaseName> for Name {
    fn from(name: &LeaseName) -> Self {
        Self(name.clone())
    }
}

/// An instant that a grant has given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// The instant.
    pub slot: i64,
    /// It had been claimed a second time.
    pub rerun: bool,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A claim of any kind is granted.
    Granted {
        /// The term.
        term: i64,
        /// What a claim of an instant gave up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        superseded: Option<GivenUp>,
    },
    /// The name is held, or locked at this moment.
    Held,
    /// Nothing was changed: something had moved.
    Moved,
    /// The instant had been claimed or skipped.
    Passed,
    /// The instant has not come.
    NotYet {
        /// So long it takes, in milliseconds.
        ms: i64,
    },
    /// The renewal took place.
    Renewed {
        /// The term is asked to step down.
        step_down: bool,
    },
    /// Of a batch, in the order asked, which renewals took place.
    Many(Vec<bool>),
    /// Refused for good: no unexpired row of this token.
    Lost,
    /// Verified, under this term.
    HeldUnder(i64),
    /// Released.
    Released,
    /// No row of this token.
    Gone,
    /// Cleared.
    Cleared,
    /// The step-down is asked for.
    Asked,
    /// The round's end is recorded, the name free.
    Finished,
    /// The round's lease was lost.
    FinishLost {
        /// Its end is recorded all the same.
        recorded: bool,
    },
    /// The row read and the database's clock; no row: never claimed.
    Read {
        /// The clock, in milliseconds since 1970.
        now_ms: i64,
        /// The row.
        row: Option<super::Row>,
    },
    /// The last instant.
    Last(Option<i64>),
    /// One that is not looked into.
    Done,
    /// An error.
    Failed {
        /// Its kind, by name.
        kind: String,
        /// Surely nothing was changed nor will be; otherwise nobody knows.
        no_effect: bool,
    },
}

impl From<&StoreError> for Answer {
    fn from(error: &StoreError) -> Self {
        Self::Failed { kind: format!("{:?}", error.kind()), no_effect: error.effect() == Effect::None }
    }
}
