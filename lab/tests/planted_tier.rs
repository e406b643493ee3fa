//! Every fault planted in the library is caught.

use std::process::Command;

#[test]
fn every_planted_fault_is_caught_and_the_library_without_one_is_sound() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_lab")).args(["planted"]).output().expect("the lab can be run");
    let (said, warned) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{warned}", output.status);
}
