//! What every commit has to stand on real databases: three histories of half a minute on each, with all kinds of faults but steps of the
//! clock beyond the margin.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the histories of a run by hand lie too.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Holds processes of the library on these databases to what the checkers demand. Answers where the histories lie that were kept.
fn stand(arguments: &[&str]) -> PathBuf {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
    lab.current_dir(ROOT)
        .args(["faults", "--seed", "5", "--seconds", "90", "--histories", "3"])
        .args(arguments);
    let lab = lab.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the lab can be run");
    let folder = Path::new(ROOT).join(format!("target/lab/faults/5-{}", lab.id()));
    let output = lab.wait_with_output().unwrap();
    let [said, warned] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    println!("{said}");
    // `postgres history 0: 35 s, 26 faults, 0 violations`
    let faults = |line: &str| line.strip_suffix(" faults, 0 violations")?.rsplit(' ').next()?.parse().ok();
    let faults: Vec<u32> = said.lines().filter_map(faults).collect();
    assert!(output.status.success(), "{}\n{warned}", output.status);
    let engines = arguments.iter().filter(|argument| **argument == "--backend").count();
    assert_eq!(faults.len(), 3 * engines, "{faults:?}");
    assert!(faults.iter().all(|faults| *faults >= 5), "an idle history: {faults:?}");
    folder
}

#[test]
fn processes_on_servers_under_faults_break_no_promise() {
    stand(&["--backend", "postgres", "--backend", "mariadb", "--backend", "mysql"]);
}

#[test]
fn processes_on_files_under_faults_break_no_promise() {
    let folder = stand(&["--backend", "sqlite", "--keep"]);
    let is_told = |history: &Path| {
        let files = fs::read_dir(history).unwrap().map(|file| file.unwrap().path());
        files
            .into_iter()
            .any(|file| fs::read_to_string(file).is_ok_and(|said| said.contains(r#""kind":"Full""#)))
    };
    let histories = fs::read_dir(&folder).unwrap().map(|history| history.unwrap().path());
    assert!(
        histories.into_iter().any(|history| is_told(&history)),
        "no disk was full in {}",
        folder.display()
    );
    fs::remove_dir_all(folder).unwrap();
}
