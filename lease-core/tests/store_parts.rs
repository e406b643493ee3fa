//! What stores are made of: the time for a call, and the thread for connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use lease_core::store::{Effect, IoThread, Limit, Repeat, StoreError};
use lease_core::{Clock, ErrorKind, SystemClock};
use lease_testkit::ManualClock;

const SECOND: Duration = Duration::from_secs(1);

fn busy() -> StoreError {
    StoreError::new(ErrorKind::Busy, "deadlock").without_effect()
}

fn died() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "the connection ended")
}

/// Insists with these errors, then an answer; how often it asked, and what came of it. Pauses pass on a clock moved by hand.
async fn insist(repeat: Repeat, errors: Vec<StoreError>) -> (usize, Result<(), StoreError>) {
    let clock = ManualClock::new();
    let local: Arc<dyn Clock> = clock.clone();
    let limit = Limit::new(&local, SECOND * 10);
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let call = tokio::spawn(async move {
        let mut errors = errors.into_iter();
        limit
            .insist(repeat, || {
                counter.fetch_add(1, Ordering::Relaxed);
                let answer = errors.next().map_or(Ok(()), Err);
                async { answer }
            })
            .await
    });
    while !call.is_finished() {
        clock.play(Duration::from_millis(1)).await;
    }
    (asked.load(Ordering::Relaxed), call.await.unwrap())
}

#[tokio::test]
async fn contention_and_lost_connections_are_tried_again_until_there_is_an_answer() {
    let read_only = StoreError::new(ErrorKind::ReadOnly, "a replica now").without_effect();
    let (asked, answer) = insist(Repeat::Always, vec![busy(), died(), read_only]).await;
    answer.unwrap();
    assert_eq!(asked, 4);
}

#[tokio::test]
async fn what_trying_again_does_not_mend_is_said_at_once() {
    for kind in [ErrorKind::Schema, ErrorKind::Denied, ErrorKind::Damaged, ErrorKind::Timeout] {
        let (asked, answer) = insist(Repeat::Always, vec![StoreError::new(kind, "no")]).await;
        assert_eq!((asked, answer.unwrap_err().kind()), (1, kind));
    }
}

#[tokio::test]
async fn a_statement_that_must_not_be_sent_twice_is_not_sent_after_an_unknown_outcome() {
    let (asked, answer) = insist(Repeat::WithoutEffect, vec![busy(), died(), busy()]).await;
    let error = answer.unwrap_err();
    assert_eq!((asked, error.kind(), error.effect()), (2, ErrorKind::Unavailable, Effect::Unknown));
}

#[tokio::test]
async fn an_effect_once_unknown_stays_so() {
    let damaged = StoreError::new(ErrorKind::Damaged, "no").without_effect();
    let (_, answer) = insist(Repeat::Always, vec![died(), damaged]).await;
    assert_eq!(answer.unwrap_err().effect(), Effect::Unknown);
    let damaged = StoreError::new(ErrorKind::Damaged, "no").without_effect();
    let (_, answer) = insist(Repeat::Always, vec![busy(), damaged]).await;
    assert_eq!(answer.unwrap_err().effect(), Effect::None);
}

#[tokio::test]
async fn contention_that_lasts_is_said_before_the_caller_leaves() {
    let errors = (0..100_000).map(|_| busy()).collect();
    let (asked, answer) = insist(Repeat::Always, errors).await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Busy);
    // Nine seconds with pauses between 50 and 100 ms, the first few shorter.
    assert!((90..=200).contains(&asked), "{asked}");
}

#[tokio::test]
async fn a_call_without_an_answer_ends_with_the_time_of_its_caller() {
    let clock = ManualClock::new();
    let local: Arc<dyn Clock> = clock.clone();
    let limit = Limit::new(&local, SECOND);
    assert_eq!(limit.left(), SECOND / 10 * 9);
    let waiting = limit.clone();
    let call =
        tokio::spawn(
            async move { waiting.insist(Repeat::Always, std::future::pending::<Result<(), _>>).await },
        );
    clock.play(Duration::from_millis(999)).await;
    assert!(!call.is_finished());
    assert_eq!(limit.left(), Duration::ZERO);
    clock.play(Duration::from_millis(1)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
}

#[tokio::test]
async fn when_the_time_is_up_the_error_of_the_last_try_is_told() {
    let clock = ManualClock::new();
    let local: Arc<dyn Clock> = clock.clone();
    let limit = Limit::new(&local, SECOND);
    let call = tokio::spawn(async move {
        let mut errors = vec![busy()].into_iter();
        limit
            .insist(Repeat::Always, || {
                let error = errors.next();
                async {
                    if let Some(error) = error {
                        Err(error)
                    } else {
                        std::future::pending::<Result<(), _>>().await
                    }
                }
            })
            .await
    });
    clock.play(SECOND).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
    assert_eq!(error.to_string(), "the database did not answer in time; before that: deadlock");
    assert!(std::error::Error::source(&error).is_some());
}

/// Waits for a condition that another thread brings about.
fn until(condition: impl Fn() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < SECOND * 60, "it never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_statement_runs_on_while_the_callers_runtime_is_blocked_and_when_its_future_is_dropped() {
    let io = IoThread::start("io of a test").unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&ran);
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let mut statement = Box::pin(io.run(async move {
        gone.await.unwrap();
        assert_eq!(std::thread::current().name(), Some("io of a test"));
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }));
    assert!((&mut statement).now_or_never().is_none());
    drop(statement);
    go.send(()).unwrap();
    // This blocks the one thread of the test's runtime.
    until(|| ran.load(Ordering::Relaxed) == 1);
}

#[tokio::test]
async fn the_thread_ends_with_its_last_handle_but_not_before_the_last_statement() {
    let io = IoThread::start("io").unwrap();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let alive = Arc::new(());
    let (held, kept) = (Arc::clone(&alive), Arc::downgrade(&alive));
    drop(alive);
    // What stays on the runtime, as a connection does, goes with it.
    io.run(async move {
        drop(tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        }));
        Ok(())
    })
    .await
    .unwrap();
    let (done, is_done) = tokio::sync::oneshot::channel::<()>();
    let mut last = Box::pin(io.run(async move {
        gone.await.unwrap();
        done.send(()).unwrap();
        Ok(())
    }));
    assert!((&mut last).now_or_never().is_none());
    drop(last);
    drop(io.clone());
    drop(io);
    go.send(()).unwrap();
    is_done.await.unwrap();
    until(|| kept.upgrade().is_none());
}

/// Only meant to run in the process that the next test starts.
#[tokio::test]
async fn a_thread_is_asked_for() {
    if std::env::var_os("RUST_MIN_STACK").is_some() {
        let refused = IoThread::start("io").unwrap_err();
        println!("refused: {refused}");
    }
}

#[test]
fn a_thread_that_the_system_refuses_is_an_error_inside_a_runtime_too() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    // One test at a time runs on the main thread, so that ours is the first to be started.
    child.args(["--exact", "a_thread_is_asked_for", "--nocapture", "--test-threads=1"]);
    let output = child.env("RUST_MIN_STACK", "9000000000000000").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("refused: "), "{output:?}");
}

#[tokio::test]
#[should_panic(expected = "a defect of the store")]
async fn a_panic_of_a_statement_is_its_callers() {
    let io = IoThread::start("io").unwrap();
    let _: Result<(), StoreError> = io.run(async { panic!("a defect of the store") }).await;
}

#[test]
fn the_time_left_is_read_from_the_clock_that_counts_suspension() {
    let clock: Arc<dyn Clock> = SystemClock::shared().unwrap();
    let limit = Limit::new(&clock, SECOND * 1_000);
    assert!(limit.left() <= SECOND * 900 && limit.left() > SECOND * 600);
    assert_eq!(Limit::new(&clock, Duration::ZERO).left(), Duration::ZERO);
    // Whoever waits for ever waits for years, which still fit on every clock.
    let left = Limit::new(&clock, Duration::MAX).left();
    assert!(Instant::now().checked_add(left).is_some() && left > SECOND * 86_400);
}
