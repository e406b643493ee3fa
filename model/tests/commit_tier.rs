//! The commit tier, as each commit runs it.

use std::process::Command;

#[test]
fn the_commit_tier_holds_within_its_bounds() {
    let output = Command::new(env!("CARGO_BIN_EXE_model")).args(["--tier", "commit"]).output();
    let output = output.expect("the model can be started");
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    println!("{out}");
    assert!(output.status.success(), "{}\n{err}", output.status);
}
