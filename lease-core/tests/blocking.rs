//! Work that blocks its runtime, in real time: the watchdog's thread notices all the same.

use std::process::Command;
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

/// Set in the process that this test starts of itself.
const CHILD: &str = "LEASE_TEST_STUCK_CHILD";

#[test]
fn by_default_the_failing_hook_aborts_the_process_and_names_the_lease() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let leases = Leases::builder(MemoryStore::new()).timings(timings()).build().unwrap();
            let Claimed::Granted(lease) = leases.claim("nightly").await.unwrap() else { panic!("held") };
            let _ = lease
                .run(|_| async {
                    thread::sleep(LONG);
                    Ok::<_, std::io::Error>(())
                })
                .await;
        });
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "by_default_the_failing_hook_aborts_the_process_and_names_the_lease",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.status.code().is_none(), "{:?}: {said}", output.status);
    assert!(said.contains("\"nightly\" (term 1)") && said.contains("aborting the process"), "{said}");
}
