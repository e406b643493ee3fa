use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use lease_core::store::{Claim, Holding};
use lease_core::{Claimed, ErrorKind, Holder, Instance, LeaseStore, Leases, SystemClock};
use lease_testkit::{Fault, FaultStore, MemoryStore, Op};

use super::*;
use crate::history::{Entry, History, Sampler};

const WITHIN: Duration = Duration::from_secs(60);

struct Recorded {
    folder: tempfile::TempDir,
    faults: FaultStore,
    store: RecordingStore,
}

fn recorded() -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let faults = FaultStore::new(MemoryStore::new(), SystemClock::shared().unwrap());
    let writer = Writer::create(folder.path(), 1, 0).unwrap();
    Recorded { folder, store: RecordingStore::new(Arc::new(faults.clone()), writer), faults }
}

impl Recorded {
    fn events(&self) -> Vec<Event> {
        let history = History::read(self.folder.path()).unwrap();
        history.entries().iter().map(|entry| entry.event.clone()).collect()
    }
}

fn claim(holder: u8) -> Claim {
    Claim {
        name: "n".parse().unwrap(),
        holder: Holder::from_bytes([holder; 16]),
        ttl: Duration::from_secs(60),
        instance: Instance::current(),
    }
}

#[tokio::test]
async fn a_statement_is_told_before_it_is_sent_and_its_answer_after() {
    let recorded = recorded();
    recorded.store.claim(&claim(1), WITHIN).await.unwrap();
    let other = Holding { name: "other".parse().unwrap(), holder: claim(1).holder };
    let mine = Holding { name: claim(1).name, ..other.clone() };
    recorded.store.renew_many(&[mine, other], claim(1).ttl, WITHIN).await.unwrap();
    let events = recorded.events();
    let [
        Event::Asked { call: 1, ask: Ask::Claim { token, ttl_ms: 60_000 } },
        Event::Answered { call: 1, answer: Answer::Granted { term: 1, superseded: None } },
        Event::Asked { call: 2, ask: Ask::RenewMany { tokens, .. } },
        Event::Answered { call: 2, answer: Answer::Many(renewed) },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((token.holder, tokens.len(), &renewed[..]), (claim(1).holder, 2, &[true, false][..]));
}

#[tokio::test]
async fn an_error_says_whether_the_statement_may_have_taken_place_and_a_dropped_future_that_nobody_knows() {
    let recorded = recorded();
    recorded.faults.next(Op::Claim, Fault::FailBefore(ErrorKind::Full));
    recorded.store.claim(&claim(1), WITHIN).await.unwrap_err();
    recorded.faults.next(Op::Claim, Fault::FailAfter(ErrorKind::Timeout));
    recorded.store.claim(&claim(2), WITHIN).await.unwrap_err();
    recorded.faults.next(Op::Claim, Fault::HangAfter);
    assert!(recorded.store.claim(&claim(3), WITHIN).now_or_never().is_none());
    let events = recorded.events();
    let failed = |kind: &str, no_effect| Answer::Failed { kind: kind.to_owned(), no_effect };
    assert_eq!(events[1], Event::Answered { call: 1, answer: failed("Full", true) });
    assert_eq!(events[3], Event::Answered { call: 2, answer: failed("Timeout", false) });
    assert_eq!(events[5], Event::Dropped { call: 3 });
}

#[tokio::test]
async fn a_sampler_says_from_when_to_when_a_lease_was_believed() {
    let recorded = recorded();
    let writer = recorded.store.writer.clone();
    let sampler = Sampler::start(writer).unwrap();
    let leases = Leases::builder(recorded.store.clone()).build().unwrap();
    let Claimed::Granted(lease) = leases.claim("n").await.unwrap() else { panic!("held") };
    let watched = sampler.watch(&lease.tenure());
    // A first telling may be of one moment.
    let believes = |event: &Event| matches!(event, Event::Believed { since, until, .. } if since < until);
    while !recorded.events().iter().any(believes) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(lease);
    while !recorded.events().iter().any(|event| matches!(event, Event::Disbelieved(_))) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(watched);
    leases.close().await;
    let history = History::read(recorded.folder.path()).unwrap();
    let disbelieved = |entry: &&Entry| matches!(entry.event, Event::Disbelieved(_));
    let told = history.entries().iter().find(disbelieved).unwrap();
    for entry in history.entries() {
        if let Event::Believed { since, until, .. } = entry.event {
            assert!(since <= until && until < told.at, "{:?}", history.entries());
        }
    }
}
