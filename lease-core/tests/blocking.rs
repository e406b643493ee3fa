//! Work that blocks its runtime, in real time: the watchdog's thread notices all the same.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lease_core::{Claimed, ErrorKind, Leases, LeasesBuilder, RunError, Stuck, SystemClock, Timings};
use lease_testkit::{Fault, FaultStore, MemoryStore, Op};
use tokio::runtime::Builder;

/// Nothing here waits longer than this for what must happen.
const LONG: Duration = Duration::from_secs(60);

fn timings() -> Timings {
    Timings::from_ttl(Duration::from_millis(600)).unwrap()
}

/// Spins until the failing hook says that it has been called.
#[derive(Clone, Default)]
struct Spin {
    told: Arc<AtomicBool>,
    stuck: Arc<Mutex<Option<(Stuck, Instant)>>>,
}

impl Spin {
    fn watch(&self, builder: LeasesBuilder) -> Leases {
        let spin = self.clone();
        let hook = move |stuck: &Stuck| {
            *spin.stuck.lock().unwrap() = Some((stuck.clone(), Instant::now()));
            spin.told.store(true, Ordering::SeqCst);
        };
        builder.timings(timings()).on_stuck(hook).build().unwrap()
    }

    fn busy_loop(&self) {
        let start = Instant::now();
        while !self.told.load(Ordering::SeqCst) {
            assert!(start.elapsed() < LONG, "the failing hook was not called");
            std::hint::spin_loop();
        }
    }

    /// The hook was called, not before deadline and grace had passed since the last renewal could have begun.
    fn assert_called_after_the_grace(&self, claimed: Instant) {
        let (stuck, at) = self.stuck.lock().unwrap().take().expect("the failing hook was called");
        assert_eq!(stuck.name.as_str(), "nightly");
        assert!(stuck.lost_for >= timings().grace(), "{stuck:?}");
        assert!(at - claimed >= timings().deadline() + timings().grace(), "{stuck:?}");
    }
}

#[test]
fn a_busy_loop_on_a_one_thread_runtime_trips_the_failing_hook_when_the_grace_ends() {
    let spin = Spin::default();
    let (looping, claimed) = (spin.clone(), Instant::now());
    let runtime = Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(async move {
        let leases = looping.watch(Leases::builder(MemoryStore::new()));
        let Claimed::Granted(lease) = leases.claim("nightly").await.unwrap() else { panic!("held") };
        lease
            .run(|_| async move {
                looping.busy_loop();
                Ok::<_, std::io::Error>(())
            })
            .await
    });
    assert!(matches!(outcome, Err(RunError::Lost { output: Some(Ok(())), .. })), "{outcome:?}");
    spin.assert_called_after_the_grace(claimed);
}

#[test]
fn a_busy_loop_in_a_blocking_child_trips_the_failing_hook_when_the_grace_ends() {
    let spin = Spin::default();
    let (looping, claimed) = (spin.clone(), Instant::now());
    let runtime = Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(async move {
        let store = FaultStore::new(MemoryStore::new(), SystemClock::shared().unwrap());
        let leases = looping.watch(Leases::builder(store.clone()));
        let Claimed::Granted(lease) = leases.claim("nightly").await.unwrap() else { panic!("held") };
        store.always(Op::Renew, Fault::FailBefore(ErrorKind::Unavailable));
        lease
            .run(|tenure| async move {
                // The child outlives the work's own future and carries a clone of its tenure.
                drop(tokio::task::spawn_blocking(move || {
                    looping.busy_loop();
                    drop(tenure);
                }));
                Ok::<_, std::io::Error>(())
            })
            .await
    });
    assert!(matches!(outcome, Err(RunError::Lost { output: Some(Ok(())), .. })), "{outcome:?}");
    spin.assert_called_after_the_grace(claimed);
}

#[test]
fn with_a_thread_of_its_own_renewals_go_on_while_the_work_blocks_the_runtime() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(async move {
        let timings = Timings::from_ttl(Duration::from_secs(6)).unwrap();
        let leases = Leases::builder(MemoryStore::new()).timings(timings).own_thread().build().unwrap();
        let Claimed::Granted(lease) = leases.claim("nightly").await.unwrap() else { panic!("held") };
        lease
            .run(|tenure| async move {
                let (start, first) = (Instant::now(), tenure.deadline());
                while tenure.deadline() == first {
                    assert!(start.elapsed() < LONG, "no renewal while the runtime was blocked");
                    thread::sleep(Duration::from_millis(1));
                }
                Ok::<_, std::io::Error>(())
            })
            .await
    });
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// A lock that the work holds while it spins, and the log wants.
static LOG: Mutex<()> = Mutex::new(());

/// A log that blocks on the lock above, or panics, at each line of this crate's.
struct HostileLog;

impl tracing::Subscriber for HostileLog {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("lease_core") && *metadata.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        let panics = std::env::var_os(CHILD).is_some_and(|log| log == "panics");
        assert!(!panics, "a planted panic of the log");
        drop(LOG.lock());
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_log_that_blocks_or_panics_does_not_keep_the_failing_hook_from_being_called() {
    const TEST: &str = "a_log_that_blocks_or_panics_does_not_keep_the_failing_hook_from_being_called";
    if std::env::var_os(CHILD).is_none() {
        // A log belongs to a whole process.
        for log in ["blocks", "panics"] {
            let output = run_in_child(TEST, log);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{log}: {said}");
        }
        return;
    }
    tracing::subscriber::set_global_default(HostileLog).unwrap();
    let spin = Spin::default();
    // Twice, for the watchdog must have survived the first time.
    for _ in 0..2 {
        spin.told.store(false, Ordering::SeqCst);
        let (looping, claimed) = (spin.clone(), Instant::now());
        let runtime = Builder::new_current_thread().build().unwrap();
        let outcome = runtime.block_on(async move {
            let leases = looping.watch(Leases::builder(MemoryStore::new()));
            let Claimed::Granted(lease) = leases.claim("nightly").await.unwrap() else { panic!("held") };
            lease
                .run(|_| async move {
                    let _log = LOG.lock().unwrap();
                    looping.busy_loop();
                    Ok::<_, std::io::Error>(())
                })
                .await
        });
        assert!(matches!(outcome, Err(RunError::Lost { output: Some(Ok(())), .. })), "{outcome:?}");
        spin.assert_called_after_the_grace(claimed);
    }
}

#[test]
fn a_failing_hook_that_panics_aborts_the_process() {
    const TEST: &str = "a_failing_hook_that_panics_aborts_the_process";
    if std::env::var_os(CHILD).is_some() {
        block_beyond_the_grace(|builder| builder.on_stuck(|_| panic!("a planted panic of the hook")));
        return;
    }
    let output = run_in_child(TEST, "1");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_none() && said.contains("a planted panic of the hook"), "{said}");
}

#[test]
fn the_process_is_aborted_though_the_work_holds_the_lock_of_standard_error() {
    const TEST: &str = "the_process_is_aborted_though_the_work_holds_the_lock_of_standard_error";
    if std::env::var_os(CHILD).is_some() {
        let _locked = std::io::stderr().lock();
        block_beyond_the_grace(|builder| builder);
        return;
    }
    assert!(run_in_child(TEST, "1").status.code().is_none());
}

/// Set in the process that a test starts of itself.
const CHILD: &str = "LEASE_TEST_STUCK_CHILD";

#[test]
fn by_default_the_failing_hook_aborts_the_process_and_names_the_lease() {
    const TEST: &str = "by_default_the_failing_hook_aborts_the_process_and_names_the_lease";
    if std::env::var_os(CHILD).is_some() {
        block_beyond_the_grace(|builder| builder);
        return;
    }
    let output = run_in_child(TEST, "1");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_none(), "{:?}: {said}", output.status);
    assert!(said.contains("\"nightly\" (term 1)") && said.contains("aborting the process"), "{said}");
}

/// Runs one test of this file in a process of its own.
fn run_in_child(test: &str, child: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, child)
        .output()
        .unwrap()
}

/// Work that blocks its runtime until the process is aborted, or a test would fail.
fn block_beyond_the_grace(set: impl FnOnce(LeasesBuilder) -> LeasesBuilder) {
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let leases = set(Leases::builder(MemoryStore::new()).timings(timings())).build().unwrap();
        let Claimed::Granted(lease) = leases.claim("nightly").await.unwrap() else { panic!("held") };
        let _ = lease
            .run(|_| async {
                thread::sleep(LONG);
                Ok::<_, std::io::Error>(())
            })
            .await;
    });
}
