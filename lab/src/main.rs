//! The lab, run as `cargo xtask simulate` and `cargo xtask faults`.

fn main() {}
