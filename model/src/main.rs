//! The model, run as `cargo xtask model`.

fn main() {}
