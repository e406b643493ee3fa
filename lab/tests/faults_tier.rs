//! The commit tier of the faults on real servers, as a program of its own that is run like any user runs it.
//!
//! The file has its small disks without root, and servers run without root; both at once need it. So each has a run of its own, side
//! by side.

use std::env;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

#[test]
fn no_fault_on_any_engine_breaks_a_promise() {
    // All of it is on the machine, so nobody else is on it: the servers are the lab's own, for they are killed and stopped.
    let runs = [&["postgres", "mariadb", "mysql"][..], &["sqlite"]].map(|engines| (engines, start(engines)));
    let told = runs.map(|(engines, child)| (engines, thread::spawn(move || end(child))));
    let told = told.map(|(engines, ending)| (engines, ending.join().expect("nothing panics there")));
    for (engines, (is_good, said)) in &told {
        assert!(is_good, "the commit tier of {engines:?}:\n{said}");
    }
}

fn start(engines: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    command.args(["faults", "--tier", "commit"]);
    command.args(engines.iter().flat_map(|engine| ["--backend", engine]));
    // Histories lie below the workspace's `target`, where those of `cargo xtask faults` do.
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the lab was built")
}

/// Whether it went well, and what it said.
fn end(mut child: Child) -> (bool, String) {
    let mut errors = child.stderr.take().expect("it is piped");
    let errors = thread::spawn(move || {
        let mut said = String::new();
        errors.read_to_string(&mut said).map(|_| said)
    });
    let output = child.wait_with_output().expect("it can be waited for");
    let errors = errors.join().expect("nothing panics there").expect("text");
    (output.status.success(), format!("{}\n{errors}", String::from_utf8_lossy(&output.stdout)))
}
