//! Processes that take a lease from one another while its transactions are open.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lease_core::{GuardError, LeaseName, LeaseStore};
use tokio::time::sleep;

use super::context::{GuardContext, in_time};
use super::owner::Owner;
use super::rival::{SOON, is_contention};
use crate::suite::process::WITHIN;

const PROCESSES: usize = 3;
/// How often the lease changes hands, at least.
const GRANTS: usize = 40;
/// How many transactions a holder makes before it gives the lease up by itself.
const EACH: usize = 3;
/// How long a transaction is open, so that others have time to come.
const OPEN: Duration = Duration::from_millis(2);
/// How long a process waits before it takes over, in milliseconds; each begins at another one.
const PACES: [u64; 5] = [1, 7, 3, 2, 11];

/// What all processes know of each other.
#[derive(Default)]
struct Shared {
    grants: AtomicUsize,
    /// The latest term of which a process knows that it was granted.
    latest: AtomicI64,
}

/// What a process has seen and done in the end.
#[derive(Default)]
struct Account {
    /// The notes there were of earlier terms, when this one had been granted.
    seen: Vec<(i64, BTreeSet<String>)>,
    /// What became of each transaction, by its two notes.
    ended: Vec<([String; 2], Ended)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Committed,
    NotCommitted,
    Unknown,
}

pub(super) async fn no_note_of_an_earlier_term_appears_after_a_grant(cx: &GuardContext) {
    let name = cx.name("job");
    let stores = [cx.shared_store(), cx.another_shared_store().await];
    let shared = Shared::default();
    let processes = stores.iter().cycle().take(PROCESSES).enumerate();
    let processes = processes.map(|(number, store)| process(cx, number, store, &name, &shared));
    let accounts = join_all(processes).await;

    let left: BTreeSet<String> = cx.notes(&format!("{name}/")).await.into_iter().collect();
    for (term, seen) in accounts.iter().flat_map(|account| &account.seen) {
        let now: BTreeSet<String> = left.iter().filter(|note| term_of(note) < *term).cloned().collect();
        assert!(
            now == *seen,
            "after the grant of term {term} notes of earlier terms came or went: {:?}",
            now.symmetric_difference(seen)
        );
    }
    for (notes, ended) in accounts.iter().flat_map(|account| &account.ended) {
        let there = notes.each_ref().map(|note| left.contains(note));
        let allowed: &[[bool; 2]] = match ended {
            Ended::Committed => &[[true; 2]],
            Ended::NotCommitted => &[[false; 2]],
            Ended::Unknown => &[[true; 2], [false; 2]],
        };
        assert!(allowed.contains(&there), "of {notes:?}, which ended as {ended:?}, there is {there:?}");
    }
}

async fn process(
    cx: &GuardContext,
    number: usize,
    store: &Arc<dyn LeaseStore>,
    name: &LeaseName,
    shared: &Shared,
) -> Account {
    let mut account = Account::default();
    for attempt in number.. {
        if shared.grants.load(Ordering::SeqCst) >= GRANTS {
            break;
        }
        // Now too early for the transaction that is open, now in the middle of it, now late.
        sleep(Duration::from_millis(PACES[attempt % PACES.len()])).await;
        let Some(owner) = take_over(store, name).await else { continue };
        shared.grants.fetch_add(1, Ordering::SeqCst);
        shared.latest.fetch_max(owner.term(), Ordering::SeqCst);
        let notes = cx.notes(&format!("{name}/")).await;
        let earlier = notes.into_iter().filter(|note| term_of(note) < owner.term());
        account.seen.push((owner.term(), earlier.collect()));
        for n in 0..EACH {
            let notes = ["a", "b"].map(|end| format!("{}/{n}{end}", owner.term()));
            let ended = transaction(cx, &owner, &notes, shared).await;
            account.ended.push((notes.map(|note| format!("{name}/{note}")), ended));
        }
    }
    account
}

async fn transaction(cx: &GuardContext, owner: &Owner, notes: &[String; 2], shared: &Shared) -> Ended {
    let mut overtaken = false;
    let committed = async {
        let mut work = cx.try_begin(&owner.tenure()).await?;
        for note in notes {
            work.try_write(note).await?;
            sleep(OPEN / 2).await;
        }
        overtaken = shared.latest.load(Ordering::SeqCst) > owner.term();
        work.commit().await
    };
    match committed.await {
        Ok(()) => {
            assert!(!overtaken, "term {} committed after a later term was granted", owner.term());
            Ended::Committed
        }
        Err(GuardError::Unknown(_)) => Ended::Unknown,
        Err(_) => Ended::NotCommitted,
    }
}

/// Frees the name, whoever holds it, and claims it.
async fn take_over(store: &Arc<dyn LeaseStore>, name: &LeaseName) -> Option<Owner> {
    let seen = in_time("inspect", store.inspect(name, WITHIN)).await;
    let seen = seen.unwrap_or_else(|error| panic!("asked to inspect, the store failed: {error}"));
    if let Some(row) = seen.row {
        match in_time("clear", store.clear(name, &row.observed(), SOON)).await {
            Ok(_) => {}
            // A clear that comes late frees the row as it was observed, of which nobody knows better.
            Err(error) if is_contention(&error) => {}
            Err(error) => panic!("asked to clear, the store failed: {error}"),
        }
    }
    Owner::try_claim(store, name, Owner::hasty()).await.ok()
}

/// The term under which a note was written: it is the last but one part.
fn term_of(note: &str) -> i64 {
    note.rsplit('/').nth(1).and_then(|term| term.parse().ok()).expect("a note names its term")
}
