//! Many at once.

use std::collections::BTreeSet;
use std::fs;

use crate::bench::{Bench, Running, eventually};

#[test]
fn of_twenty_at_once_one_runs_and_nineteen_name_the_holder() {
    let bench = Bench::new();
    let script = "echo x >>ran; while ! [ -e end ]; do sleep 0.05; done";
    let mut running: Vec<_> = (0..20).map(|_| bench.start(&["run", "x", "--", "sh", "-c", script])).collect();
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
             if {lease} run x --quiet --held-exit 99 -- sh -c 'echo $LEASE_TERM >>terms'
             then i=$((i+1)); else [ $? -eq 99 ] || exit 1; fi
         done"
    );
    let loops: Vec<_> = (0..4).map(|_| bench.spawn(bench.command("sh").args(["-c", &script]))).collect();
    for each in loops {
        each.wait().expect(0);
    }
    let terms: Vec<i64> = bench.await_file("terms").lines().map(|term| term.parse().unwrap()).collect();
    let distinct: BTreeSet<i64> = terms.iter().copied().collect();
    assert_eq!(terms.len(), distinct.len());
    assert_eq!(distinct, (1..=4 * EACH).collect());
}
