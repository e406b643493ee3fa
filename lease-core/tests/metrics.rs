//! The figures on the `metrics` facade, as Prometheus would read them, on a clock that moves only by hand.

// On in a build of the whole workspace, for an example has it; alone: `cargo test -p lease-core --features metrics`.
#![cfg(feature = "metrics")]

#[path = "holders/abandoned.rs"]
#[expect(dead_code, reason = "the tests of holders use all of it")]
mod abandoned;
mod common;

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use lease_core::{Claimed, ErrorKind, Leases, Liveness, Slot, SlotClaimed};
use lease_testkit::{Fault, Op};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::abandoned::{Says, abandoned, abandoned_round};
use crate::common::{MS, SECOND, World, granted, name};

/// A process has one recorder, so each test has names, and where those are not in a figure a label, of its own.
fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| PrometheusBuilder::new().install_recorder().unwrap())
}

/// What a figure shows; `None` while it is not there.
fn figure(figure: &str) -> Option<f64> {
    let shown = recorder().render();
    let line = shown.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

/// Waits until a figure shows a value: it is recorded on a thread of its own.
#[track_caller]
fn shows(what: &str, expected: f64) {
    let start = Instant::now();
    while figure(what).is_none_or(|value| (value - expected).abs() > 1e-9) {
        let shown = recorder().render();
        assert!(start.elapsed() < Duration::from_secs(60), "{what} is not {expected}:\n{shown}");
        std::thread::sleep(MS);
    }
}

/// A process with faults whose figures have the label `test`.
fn measured(world: &World, test: &str) -> Leases {
    recorder();
    let builder = Leases::builder(world.store.clone()).clock(world.clock.clone()).on_stuck(|_| {});
    builder.metric_label("test", test).build().unwrap()
}

#[tokio::test]
async fn whether_a_lease_is_held_is_shown_from_the_first_claim_on_through_a_loss_and_afterwards() {
    let world = World::new();
    let other = granted(world.other().claim("held").await.unwrap());
    let leases = measured(&world, "held");
    assert!(matches!(leases.claim("held").await.unwrap(), Claimed::Held(_)));
    shows(r#"lease_held{lease="held",test="held"}"#, 0.0);
    shows(r#"lease_claims_total{lease="held",answer="held",test="held"}"#, 1.0);
    // What has not happened yet is counted too, so that the first time is an increase.
    for reason in ["deadline", "refused", "replaced"] {
        shows(&format!(r#"lease_losses_total{{lease="held",reason="{reason}",test="held"}}"#), 0.0);
    }
    for figure in ["takeovers", "handovers", "step_down_requests", "stuck"] {
        shows(&format!(r#"lease_{figure}_total{{lease="held",test="held"}}"#), 0.0);
    }
    other.release().await.unwrap();

    let lease = granted(leases.claim("held").await.unwrap());
    shows(r#"lease_held{lease="held",test="held"}"#, 1.0);
    shows(r#"lease_term{lease="held",test="held"}"#, 2.0);
    world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Denied));
    world.play(SECOND * 9).await;
    shows(r#"lease_seconds_since_renewal{lease="held",test="held"}"#, 9.0);
    shows(r#"lease_held{lease="held",test="held"}"#, 1.0);
    // Before the database lets anybody else in, by the watchdog alone.
    world.play(SECOND).await;
    shows(r#"lease_held{lease="held",test="held"}"#, 0.0);
    assert!(!world.is_free("held").await);
    shows(r#"lease_seconds_since_renewal{lease="held",test="held"}"#, 0.0);
    shows(r#"lease_losses_total{lease="held",reason="deadline",test="held"}"#, 1.0);
    shows(r#"lease_term{lease="held",test="held"}"#, 2.0);
    drop(lease);
}

#[tokio::test]
async fn renewals_are_counted_by_lease_and_timed_by_statement() {
    let world = World::new();
    let leases = measured(&world, "renewals");
    let many = [leases.claim("r1").await.unwrap(), leases.claim("r2").await.unwrap()].map(granted);
    world.play(MS * 2_100).await;
    shows(r#"lease_renewals_total{answer="renewed",test="renewals"}"#, 2.0);
    shows(r#"lease_renewal_duration_seconds_count{answer="renewed",test="renewals"}"#, 1.0);
    world.store.next(Op::RenewMany, Fault::FailBefore(ErrorKind::Unavailable));
    world.play(SECOND * 2).await;
    shows(r#"lease_renewals_total{answer="failed",test="renewals"}"#, 2.0);
    shows(r#"lease_renewal_duration_seconds_count{answer="failed",test="renewals"}"#, 1.0);
    drop(many);
    leases.close().await;
}

#[tokio::test]
async fn a_refused_renewal_is_a_loss_with_its_reason_and_giving_back_is_a_hand_over_and_no_loss() {
    let world = World::new();
    let leases = measured(&world, "over");
    let lease = granted(leases.claim("over").await.unwrap());
    world.other().request_step_down("over").await.unwrap();
    world.play(SECOND * 3).await;
    shows(r#"lease_step_down_requests_total{lease="over",test="over"}"#, 1.0);
    lease.release().await.unwrap();
    shows(r#"lease_handovers_total{lease="over",test="over"}"#, 1.0);
    shows(r#"lease_held{lease="over",test="over"}"#, 0.0);

    let cleared = granted(leases.claim("over").await.unwrap());
    world.database.remove_row(&name("over"));
    world.play(SECOND * 3).await;
    shows(r#"lease_losses_total{lease="over",reason="refused",test="over"}"#, 1.0);
    shows(r#"lease_renewals_total{answer="lost",test="over"}"#, 1.0);
    assert!(!cleared.check());
    shows(r#"lease_losses_total{lease="over",reason="deadline",test="over"}"#, 0.0);
    assert!(!recorder().render().contains(r#"reason="released""#));
}

#[tokio::test]
async fn what_is_taken_from_a_dead_holder_is_counted_and_what_was_free_is_not() {
    let world = World::new();
    recorder();
    let builder = Leases::builder(world.store.clone()).clock(world.clock.clone()).probe(Says(Liveness::Dead));
    let leases = builder.metric_label("test", "dead").build().unwrap();
    abandoned(&world, "dead").await;
    let lease = granted(leases.claim("dead").await.unwrap());
    shows(r#"lease_takeovers_total{lease="dead",test="dead"}"#, 1.0);
    shows(r#"lease_term{lease="dead",test="dead"}"#, 2.0);
    lease.release().await.unwrap();
    drop(granted(leases.claim("dead").await.unwrap()));
    shows(r#"lease_term{lease="dead",test="dead"}"#, 3.0);
    shows(r#"lease_takeovers_total{lease="dead",test="dead"}"#, 1.0);

    // So is an instant, which is claimed behind another statement.
    let [former, next] = [1, 2].map(|minute| SystemTime::UNIX_EPOCH + SECOND * 60 * minute);
    abandoned_round(&world, "round", Slot::new(former).unwrap()).await;
    let claimed = leases.claim_slot("round", next, Duration::ZERO).await.unwrap();
    assert!(matches!(claimed, SlotClaimed::Granted(_)), "{claimed:?}");
    shows(r#"lease_takeovers_total{lease="round",test="dead"}"#, 1.0);

    // One whose term is over has left the name free.
    abandoned(&world, "over").await;
    world.play(SECOND * 16).await;
    let lease = granted(leases.claim("over").await.unwrap());
    shows(r#"lease_term{lease="over",test="dead"}"#, 2.0);
    shows(r#"lease_takeovers_total{lease="over",test="dead"}"#, 0.0);
    drop(lease);
}

#[tokio::test]
async fn who_waits_is_counted_until_the_wait_ends_however_it_does() {
    let world = World::new();
    let other = granted(world.other().claim("waited").await.unwrap());
    let leases = measured(&world, "waits");
    let wait = |within| {
        let leases = leases.clone();
        tokio::spawn(async move { leases.acquire("waited", within).await })
    };
    let (patient, impatient, dropped) = (wait(SECOND * 600), wait(SECOND * 3), wait(SECOND * 600));
    world.play(MS * 100).await;
    shows(r#"lease_waiting{lease="waited",test="waits"}"#, 3.0);
    dropped.abort();
    world.play(SECOND * 4).await;
    assert!(matches!(impatient.await.unwrap().unwrap(), Claimed::Held(_)));
    shows(r#"lease_waiting{lease="waited",test="waits"}"#, 1.0);
    other.release().await.unwrap();
    world.play(SECOND * 4).await;
    let lease = granted(patient.await.unwrap().unwrap());
    shows(r#"lease_waiting{lease="waited",test="waits"}"#, 0.0);
    for end in ["granted", "held", "dropped"] {
        let of = format!(r#"{{lease="waited",end="{end}",test="waits"}}"#);
        shows(&format!("lease_wait_duration_seconds_count{of}"), 1.0);
    }
    drop(lease);
}

#[tokio::test]
async fn a_lease_that_is_dropped_with_its_client_is_held_no_more() {
    let world = World::new();
    let leases = measured(&world, "gone");
    let lease = granted(leases.claim("gone").await.unwrap());
    shows(r#"lease_held{lease="gone",test="gone"}"#, 1.0);
    drop(lease);
    drop(leases);
    world.play(SECOND).await;
    shows(r#"lease_held{lease="gone",test="gone"}"#, 0.0);
}
