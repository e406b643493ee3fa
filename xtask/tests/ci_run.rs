//! The script of continuous integration, with a cargo that does nothing or never ends.
#![cfg(target_os = "linux")]

use std::env;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

const XTASK: &str = env!("CARGO_MANIFEST_DIR");

/// The script with the stand-in for cargo, which writes to `asked` in this folder.
fn ci_run(folder: &TempDir) -> Command {
    symlink(Path::new(XTASK).join("tests/fake-cargo.sh"), folder.path().join("cargo")).unwrap();
    let path = env::split_paths(&env::var_os("PATH").unwrap()).collect::<Vec<_>>();
    let path = env::join_paths([folder.path().to_owned()].into_iter().chain(path)).unwrap();
    let mut script = Command::new(Path::new(XTASK).join("../.ci/run"));
    script.env("PATH", path).env("FAKE_CARGO_ASKED", folder.path().join("asked"));
    script.env("FAKE_CARGO_FAILS", "nothing").stdout(Stdio::piped()).stderr(Stdio::piped());
    script
}

fn asked(folder: &TempDir) -> String {
    fs::read_to_string(folder.path().join("asked")).unwrap_or_default()
}

#[test]
fn it_runs_the_tests_with_the_checks_and_has_no_last_word() {
    let folder = tempfile::tempdir().unwrap();
    let output = ci_run(&folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(asked(&folder), "fetch --locked\nxtask test --checks\n");
    assert_eq!((output.stdout, output.stderr), (Vec::new(), Vec::new()));
}

#[test]
fn nothing_goes_on_after_it_is_told_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut script = ci_run(&folder).env("FAKE_CARGO_TAKES_LONG", "xtask test").spawn().unwrap();
    let since = Instant::now();
    while !asked(&folder).ends_with("xtask test --checks\n") {
        assert!(since.elapsed() < Duration::from_secs(60), "not within a minute: {:?}", asked(&folder));
        thread::sleep(Duration::from_millis(10));
    }
    let told = Command::new("kill").arg(script.id().to_string()).status().unwrap();
    assert!(told.success());
    let mut said = String::new();
    // To its end: until all who could write to it are gone.
    script.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!script.wait().unwrap().success());
    assert_eq!(asked(&folder), "fetch --locked\nxtask test --checks\n");
    assert!(said.contains(".ci/run: stopped after "), "{said}");
}
