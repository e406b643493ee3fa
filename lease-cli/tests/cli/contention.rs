//! Many at once.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::time::Duration;

use lease_core::{Claimed, Leases, Timings};
use lease_sqlite::SqliteStore;

use crate::bench::{Bench, Running, eventually};

#[test]
fn of_twenty_at_once_one_runs_and_nineteen_name_the_holder() {
    let bench = Bench::new();
    let script = "echo x >>ran; while ! [ -e end ]; do sleep 0.05; done";
    let mut running: Vec<_> =
        (0..20).map(|_| bench.start(&["run", "x", "--ttl", "1h", "--", "sh", "-c", script])).collect();
    eventually("the end of nineteen", || {
        let ended = running.iter_mut().map(Running::has_ended).filter(|ended| *ended).count();
        (ended == 19).then_some(())
    });
    let winner = running.iter_mut().position(|run| !run.has_ended()).unwrap();
    let winner = running.swap_remove(winner);
    bench.await_file("ran");
    for refused in running {
        let line = refused.wait().expect_line(75);
        assert!(line.contains(&format!(":{} since 20", winner.pid())), "{line}");
    }
    fs::write(bench.path("end"), "").unwrap();
    winner.wait().expect(0);
    assert_eq!(bench.await_file("ran"), "x\n");
    assert_eq!(bench.term("x"), 1);
}

#[test]
fn no_term_repeats_over_the_runs_of_four_loops() {
    const EACH: i64 = 25;
    let bench = Bench::new();
    let lease = crate::bench::lease_file();
    let script = format!(
        "i=0; while [ $i -lt {EACH} ]; do
             if {lease} run x --ttl 1h --quiet --held-exit 99 -- sh -c 'echo $LEASE_TERM >>terms'
             then i=$((i+1)); else [ $? -eq 99 ] || exit 1; fi
         done"
    );
    let loops: Vec<_> = (0..4).map(|_| bench.spawn(bench.command("sh").args(["-c", &script]))).collect();
    for each in loops {
        each.wait().expect(0);
    }
    assert_terms(&bench.await_file("terms"), 4 * EACH);
}

/// Tells a process started by the next test what to do.
const CLAIMS: &str = "LEASE_TEST_CLAIMS";

/// Without the program around it, so that a thousand claims take seconds.
#[test]
fn no_term_repeats_over_a_thousand_claims_from_four_processes() {
    const EACH: i64 = 250;
    let bench = Bench::new();
    bench.run(&["migrate"]).expect(0);
    let processes: Vec<_> = (0..4)
        .map(|_| {
            let mut command = bench.command(env::current_exe().unwrap());
            command.args(["--exact", "contention::claims_of_one_process", "--nocapture"]);
            bench.spawn(command.env(CLAIMS, EACH.to_string()))
        })
        .collect();
    let outcomes: Vec<_> = processes.into_iter().map(|process| process.wait().expect(0)).collect();
    let terms = outcomes.iter().flat_map(|outcome| outcome.out.lines());
    let terms: Vec<&str> = terms.filter_map(|line| line.strip_prefix("claimed ")).collect();
    assert_terms(&terms.join("\n"), 4 * EACH);
}

/// One of the four processes of the test above; on its own it claims nothing.
#[test]
fn claims_of_one_process() {
    let Ok(claims) = env::var(CLAIMS) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open("leases.db").await.unwrap();
        let patient = Timings::from_ttl(Duration::from_secs(3_600)).unwrap();
        let leases = Leases::builder(store).timings(patient).build().unwrap();
        for _ in 0..claims.parse().unwrap() {
            let lease = loop {
                match leases.claim("x").await.unwrap() {
                    Claimed::Granted(lease) => break lease,
                    Claimed::Held(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                }
            };
            println!("\nclaimed {}", lease.term());
            lease.release().await.unwrap();
        }
    });
}

#[track_caller]
fn assert_terms(terms: &str, claims: i64) {
    let terms: Vec<i64> = terms.lines().map(|term| term.parse().unwrap()).collect();
    let distinct: BTreeSet<i64> = terms.iter().copied().collect();
    assert_eq!(terms.len(), distinct.len(), "a term was given twice");
    assert_eq!(distinct, (1..=claims).collect());
}
