//! What a case works with.

use std::sync::Arc;
use std::time::Duration;

use lease_core::store::{Claim, DbTime, Holding, LeaseRow, SlotEnd, UnfinishedSlot};
use lease_core::{Holder, Instance, LeaseName, LeaseStore, Slot, Term};

use super::process::Process;
use super::{Damage, Subject};

/// The ttl of a lease that a case needs to be held still, however slow the machine.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A store under test, and names on it that no other case and no other run uses.
pub(crate) struct Context {
    subject: Arc<dyn Subject>,
    /// The store under test.
    pub(crate) store: Process,
    unique: String,
}

impl Context {
    pub(crate) fn new(subject: Arc<dyn Subject>) -> Self {
        let store = Process::new(subject.store());
        let token = Holder::mint().expect("the system's random source can be read");
        Self { subject, store, unique: format!("t{}/", &token.hex().as_str()[..16]) }
    }

    /// What all names of this context begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.unique
    }

    /// A name of this context.
    pub(crate) fn name(&self, end: &str) -> LeaseName {
        let text = format!("{}{end}", self.unique);
        LeaseName::new(&text).expect("the suite's names are valid")
    }

    /// A claim of a name of this context, with a token of its own, not sent yet.
    pub(crate) fn claim(&self, end: &str) -> Claim {
        claim_of(&self.name(end))
    }

    /// A lease that stays held.
    pub(crate) async fn hold(&self, end: &str) -> Claim {
        self.grant(self.claim(end)).await
    }

    /// A lease that [`expire`](Self::expire) ends.
    pub(crate) async fn hold_briefly(&self, end: &str) -> Claim {
        self.grant(Claim { ttl: self.brief(), ..self.claim(end) }).await
    }

    /// A lease of a name that is free and had holders before.
    pub(crate) async fn hold_again(&self, name: &LeaseName) -> Claim {
        self.grant(claim_of(name)).await
    }

    async fn grant(&self, claim: Claim) -> Claim {
        self.store.claim(&claim).await.granted();
        claim
    }

    /// A held round of `slot`.
    pub(crate) async fn round(&self, end: &str, slot: Slot) -> Claim {
        let claim = self.claim(end);
        self.store.claim_slot(&claim, slot).await.granted();
        claim
    }

    /// A round of `slot` that was cut short: its lease has been given back, its end never recorded.
    pub(crate) async fn cut_short(&self, end: &str, slot: Slot) -> Claim {
        let claim = self.round(end, slot).await;
        self.release(&claim).await;
        claim
    }

    /// Gives a lease back.
    pub(crate) async fn release(&self, claim: &Claim) {
        self.store.release(&claim.name, &claim.holder).await.ok();
    }

    /// The row of a name that has one.
    pub(crate) async fn row(&self, name: &LeaseName) -> LeaseRow {
        let row = self.find_row(name).await;
        row.unwrap_or_else(|| panic!("inspect finds no row of {name:?}, which has been claimed"))
    }

    /// The row of a name.
    pub(crate) async fn find_row(&self, name: &LeaseName) -> Option<LeaseRow> {
        self.store.inspect(name).await.ok().row
    }

    /// The database's clock.
    pub(crate) async fn now(&self) -> DbTime {
        self.store.inspect(&self.name("clock")).await.ok().now
    }

    /// The ttl of a lease that is meant to expire.
    pub(crate) fn brief(&self) -> Duration {
        self.store.min_ttl()
    }

    /// Lets every lease of [`brief`](Self::brief) ttl expire.
    pub(crate) async fn expire(&self) {
        self.pass(self.brief()).await;
    }

    /// Lets at least `time` pass on the database's clock. However a subject does it, the database's
    /// own word is what counts.
    pub(crate) async fn pass(&self, time: Duration) {
        let start = self.now().await;
        loop {
            let left = time.saturating_sub(self.now().await.since(start));
            if left.is_zero() {
                return;
            }
            self.subject.pass(left).await;
        }
    }

    /// A store as a second process has it.
    pub(crate) async fn another(&self) -> Process {
        Process::new(self.subject.another().await)
    }

    /// Two processes' stores on a database without the table.
    pub(crate) async fn without_table(&self) -> [Process; 2] {
        self.subject.without_table().await.map(Process::new)
    }

    /// Changes a row behind the store's back.
    pub(crate) async fn damage(&self, name: &LeaseName, damage: Damage) {
        self.subject.damage(name, damage).await;
    }

    /// The store itself, for statements as values.
    pub(crate) fn shared_store(&self) -> Arc<dyn LeaseStore> {
        self.subject.store()
    }

    /// A second process's store itself.
    pub(crate) async fn another_shared_store(&self) -> Arc<dyn LeaseStore> {
        self.subject.another().await
    }
}

/// A claim with a token of its own, not sent yet.
pub(crate) fn claim_of(name: &LeaseName) -> Claim {
    Claim {
        name: name.clone(),
        holder: Holder::mint().expect("the system's random source can be read"),
        ttl: LONG,
        instance: Instance::named("suite.example:4711 blue").address("192.0.2.7:8080").version("1.4.2"),
    }
}

/// The row that a granted claim leaves on a name without slots, granted at `at`.
pub(crate) fn row_of(claim: &Claim, granted: Term, at: DbTime) -> LeaseRow {
    LeaseRow {
        name: claim.name.clone(),
        holder: claim.holder,
        instance: claim.instance.name().to_string(),
        process: claim.instance.process_facts().to_string(),
        address: claim.instance.address_text().to_string(),
        version: claim.instance.version_text().to_string(),
        term: granted,
        claimed_at: at,
        renewed_at: at,
        expires_at: after(at, claim.ttl),
        ttl: claim.ttl,
        resign_term: 0,
        slot: None,
        unfinished_slot: None,
        rerun_slot: None,
    }
}

/// The time `duration` after `at`.
pub(crate) fn after(at: DbTime, duration: Duration) -> DbTime {
    DbTime::from_millis(at.as_millis() + lease_core::store::millis(duration))
}

/// The `n`th term.
pub(crate) fn term(n: i64) -> Term {
    Term::new(n).expect("the suite's terms are positive")
}

/// The `n`th minute of a schedule that began in September 2020.
pub(crate) fn slot(n: i64) -> Slot {
    slot_at(1_600_000_000_000 + n * 60_000)
}

/// The slot of a count of milliseconds since 1970.
pub(crate) fn slot_at(ms: i64) -> Slot {
    Slot::from_millis(ms).expect("the suite's slots are positive")
}

/// The lease of a claim, as a batch names it.
pub(crate) fn holding(claim: &Claim) -> Holding {
    Holding { name: claim.name.clone(), holder: claim.holder }
}

/// The end of a round whose lease is believed to be held, with no instant overrun.
pub(crate) fn end_of(round: &Claim, slot: Slot) -> SlotEnd {
    SlotEnd { name: round.name.clone(), holder: round.holder, slot, passed: None, lost: false }
}

/// A cut-short round, as [`LeaseStore::unfinished_slots`] names it.
pub(crate) fn unfinished(name: &LeaseName, slot: Slot, seen: i64) -> UnfinishedSlot {
    UnfinishedSlot { name: name.clone(), slot, term: term(seen) }
}
