//! Rows that no lease store writes: each column of a real table with each of many values, and everything that a store can be
//! asked about such a row.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lease_core::store::{
    Claim, Holding, Observed, Page, RenewAnswer, SlotAnswer, SlotEnd, StoreError, UnfinishedSlot,
};
use lease_core::{ErrorKind, Holder, Instance, LeaseName, LeaseStore, Slot, Term};

/// The columns, without the name: by that the row is found.
const COLUMNS: [&str; 14] = [
    "holder",
    "instance",
    "process",
    "address",
    "version",
    "term",
    "claimed_at_ms",
    "renewed_at_ms",
    "expires_at_ms",
    "ttl_ms",
    "resign_term",
    "slot_ms",
    "unfinished_slot_ms",
    "rerun_slot_ms",
];

/// What is put into each of them.
const VALUES: [Value; 12] = [
    Value::Null,
    Value::Number(i64::MIN),
    Value::Number(-1),
    Value::Number(0),
    Value::Number(1),
    Value::Number(i64::MAX - 1),
    Value::Number(i64::MAX),
    Value::Text(""),
    Value::Text("12"),
    Value::Text("FEDCBA9876543210FEDCBA9876543210"),
    Value::Text("it''s Łódź, 東京 and 🦀"),
    Value::Text("two\nlines; DROP TABLE leases"),
];

/// For what must go well, on however slow a machine.
const LONG: Duration = Duration::from_secs(120);

/// No test outlives it.
const TTL: Duration = Duration::from_secs(3600);

/// A value, shown as SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Null,
    Number(i64),
    /// Quotes are doubled.
    Text(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            // The least number is no literal.
            Self::Number(i64::MIN) => write!(f, "({} - 1)", i64::MIN + 1),
            Self::Number(number) => write!(f, "({number})"),
            Self::Text(text) => write!(f, "'{text}'"),
        }
    }
}

/// What a store is asked about a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Inspect,
    List,
    Verify,
    UnfinishedSlots,
    LastSlot,
    Renew,
    RenewMany,
    Resign,
    Claim,
    ClaimObserved,
    ClaimSlot,
    ClaimRerun,
    Finish,
    Clear,
    Release,
}

impl Ask {
    const ALL: [Self; 15] = [
        Self::Inspect,
        Self::List,
        Self::Verify,
        Self::UnfinishedSlots,
        Self::LastSlot,
        Self::Renew,
        Self::RenewMany,
        Self::Resign,
        Self::Claim,
        Self::ClaimObserved,
        Self::ClaimSlot,
        Self::ClaimRerun,
        Self::Finish,
        Self::Clear,
        Self::Release,
    ];
}

/// Puts each value into each column of rows of its own by `edit`, which is given the row's name and an assignment for
/// `UPDATE leases SET`, and says whether the table took it; then asks the store everything about each. Answers how many values
/// the table took.
///
/// # Panics
///
/// When an answer is an error that does not say in one line that the row is damaged, or that a table that takes such values is no
/// lease table; when a row that is not damaged is in trouble with one that is; and when the store panics.
pub async fn every_column_with_every_value(
    store: &Arc<dyn LeaseStore>,
    edit: impl AsyncFn(&LeaseName, &str) -> bool,
) -> usize {
    let sound = Row::new(store).await;
    let mut taken = 0;
    for column in COLUMNS {
        for value in VALUES {
            let assignment = format!("{column} = {value}");
            for ask in Ask::ALL {
                let row = Row::new(store).await;
                if !edit(&row.name, &assignment).await {
                    break;
                }
                taken += usize::from(ask == Ask::Inspect);
                if let Err(error) = row.ask(&**store, ask, &sound).await {
                    let text = error.to_string();
                    assert!(
                        matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Schema)
                            && !text.contains('\n')
                            && text.len() < 600,
                        "{assignment}, {ask:?}: {error:?}"
                    );
                }
            }
            let renewed = store.renew(&sound.name, &sound.holder, TTL, LONG).await;
            assert!(matches!(renewed, Ok(RenewAnswer::Renewed(_))), "after {assignment}: {renewed:?}");
        }
    }
    taken
}

/// A row of a round that is held.
struct Row {
    name: LeaseName,
    holder: Holder,
    slot: Slot,
}

impl Row {
    async fn new(store: &Arc<dyn LeaseStore>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let name = LeaseName::new(&format!("damage-{number}-")).expect("a name");
        let row = Self { name, holder: mint(), slot: slot(60_000) };
        let granted = store.claim_slot(&row.claim(row.holder), row.slot, LONG).await.expect("an answer");
        assert!(matches!(granted, SlotAnswer::Granted { .. }), "{granted:?}");
        row
    }

    fn claim(&self, holder: Holder) -> Claim {
        Claim { name: self.name.clone(), holder, ttl: TTL, instance: Instance::named("damage") }
    }

    async fn ask(&self, store: &dyn LeaseStore, ask: Ask, sound: &Row) -> Result<(), StoreError> {
        let Self { name, holder, slot: round } = self;
        match ask {
            Ask::Inspect => store.inspect(name, LONG).await.map(|_| ())?,
            Ask::List => {
                let page = Page { prefix: name.to_string(), after: None, limit: 10 };
                store.list(&page, LONG).await.map(|_| ())?;
            }
            Ask::Verify => store.verify(name, holder, LONG).await.map(|_| ())?,
            Ask::UnfinishedSlots => {
                let names = [name.clone(), sound.name.clone()];
                store.unfinished_slots(&names, LONG).await.map(|_| ())?;
            }
            Ask::LastSlot => store.last_slot(name, LONG).await.map(|_| ())?,
            Ask::Renew => store.renew(name, holder, TTL, LONG).await.map(|_| ())?,
            Ask::RenewMany => {
                let leases = [self, sound].map(|row| Holding { name: row.name.clone(), holder: row.holder });
                let renewed = store.renew_many(&leases, TTL, LONG).await?;
                assert!(matches!(renewed[..], [_, Some(_)]), "beside one that is damaged: {renewed:?}");
            }
            Ask::Resign => store.resign(name, Term::FIRST, LONG).await.map(|_| ())?,
            Ask::Claim => store.claim(&self.claim(mint()), LONG).await.map(|_| ())?,
            Ask::ClaimObserved => {
                let observed = self.observed(store).await;
                store.claim_observed(&self.claim(mint()), &observed, LONG).await.map(|_| ())?;
            }
            Ask::ClaimSlot => store.claim_slot(&self.claim(mint()), slot(120_000), LONG).await.map(|_| ())?,
            Ask::ClaimRerun => {
                let unfinished = UnfinishedSlot { name: name.clone(), slot: *round, term: Term::FIRST };
                store.claim_rerun(&self.claim(mint()), &unfinished, LONG).await.map(|_| ())?;
            }
            Ask::Finish => {
                let (name, holder, slot) = (name.clone(), *holder, *round);
                let end = SlotEnd { name, holder, slot, passed: None, lost: false };
                store.finish_slot(&end, LONG).await.map(|_| ())?;
            }
            Ask::Clear => store.clear(name, &self.observed(store).await, LONG).await.map(|_| ())?,
            Ask::Release => store.release(name, holder, LONG).await.map(|_| ())?,
        }
        Ok(())
    }

    /// The row as it is seen, or if it cannot be as it may have been.
    async fn observed(&self, store: &dyn LeaseStore) -> Observed {
        let seen = store.inspect(&self.name, LONG).await.ok().and_then(|seen| seen.row);
        let unseen = Observed { holder: self.holder, expires_at: lease_core::store::DbTime::RELEASED };
        seen.map_or(unseen, |row| row.observed())
    }
}

fn mint() -> Holder {
    Holder::mint().expect("a source of random numbers")
}

fn slot(ms: i64) -> Slot {
    Slot::from_millis(ms).expect("an instant")
}
