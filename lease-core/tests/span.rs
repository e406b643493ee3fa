//! What the work logs says under which lease.

mod common;

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lease_core::RunError;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument, Metadata, Subscriber};

use crate::common::{SECOND, World};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_work_logs_stands_in_a_span_with_its_lease_and_term_inside_that_of_the_caller() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _default = tracing::subscriber::set_default(subscriber);

    let world = World::new();
    drop(world.claim("nightly").await);
    let caller = tracing::info_span!("caller");
    let run = world.leases.try_run("nightly", |_| async {
        tracing::info!("at work");
        Ok::<_, io::Error>(())
    });
    run.instrument(caller).await.unwrap();

    let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let line = said.lines().find(|line| line.contains("at work")).unwrap();
    assert!(line.contains("caller:lease{lease=nightly term=2}: span: at work"), "{said}");
}

/// A log that panics whenever a span is entered, while it is told to.
#[derive(Clone, Default)]
struct Panics(Arc<AtomicBool>);

impl Subscriber for Panics {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {
        assert!(!self.0.load(Ordering::SeqCst), "a planted panic of the log");
    }

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_log_that_panics_at_the_span_ends_the_work_and_frees_the_name() {
    let log = Panics::default();
    log.0.store(true, Ordering::SeqCst);
    let _default = tracing::subscriber::set_default(log);
    let world = World::new();
    let outcome = world.leases.try_run("nightly", |_| async { Ok::<_, io::Error>(()) }).await;
    assert!(matches!(outcome, Err(RunError::Panicked { .. })), "{outcome:?}");
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn work_that_is_dropped_takes_its_tenure_along_though_the_log_panics_then() {
    let log = Panics::default();
    let _default = tracing::subscriber::set_default(log.clone());
    let world = World::new();
    let lease = world.claim("nightly").await;
    let run = tokio::spawn(lease.run(|_| async { pending::<Result<(), io::Error>>().await }));
    world.play(SECOND).await;
    log.0.store(true, Ordering::SeqCst);
    run.abort();
    world.play(SECOND).await;
    assert!(world.is_free("nightly").await);
    world.leases.close().await;
}
