//! What every commit has to stand on real databases: three histories of half a minute on each, with all kinds of faults but steps of the
//! clock beyond the margin.

use std::process::Command;

/// Holds processes of the library on these databases to what the checkers demand.
fn stand(backends: &[&str]) {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
    // Where the histories of a run by hand lie too.
    lab.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    lab.args(["faults", "--seed", "5", "--seconds", "90", "--histories", "3"]);
    for backend in backends {
        lab.args(["--backend", backend]);
    }
    let output = lab.output().expect("the lab can be run");
    let [said, warned] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    println!("{said}");
    // `postgres history 0: 35 s, 26 faults, 0 violations`
    let faults = |line: &str| line.strip_suffix(" faults, 0 violations")?.rsplit(' ').next()?.parse().ok();
    let faults: Vec<u32> = said.lines().filter_map(faults).collect();
    assert!(output.status.success(), "{}\n{warned}", output.status);
    assert_eq!(faults.len(), 3 * backends.len(), "{faults:?}");
    assert!(faults.iter().all(|faults| *faults >= 5), "an idle history: {faults:?}");
}

#[test]
fn processes_on_servers_under_faults_break_no_promise() {
    stand(&["postgres", "mariadb", "mysql"]);
}

#[test]
fn processes_on_files_under_faults_break_no_promise() {
    stand(&["sqlite"]);
}
