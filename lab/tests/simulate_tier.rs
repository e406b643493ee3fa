//! What every commit has to stand: the tier of `lab simulate`.

use std::process::Command;

#[test]
fn the_commit_tier_breaks_nothing_and_reaches_its_floors() {
    let output = Command::new(env!("CARGO_BIN_EXE_lab"))
        .args(["simulate", "--tier", "commit"])
        .output()
        .expect("the lab can be run");
    let (said, warned) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{warned}", output.status);
}
