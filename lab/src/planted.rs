//! Faults planted in a copy of the library, each of which the simulation must catch.

pub(crate) mod build;
mod hunt;
pub mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

/// Which faults are planted, and how long each is looked for.
#[derive(Debug, Clone, Args)]
pub struct Choice {
    /// Only this one, by its number; may be given more than once
    #[arg(long)]
    only: Vec<usize>,
    /// How many seeds are tried for each
    #[arg(long, default_value_t = 120)]
    seeds: u64,
}

/// Builds the copy, and answers whether it is sound without and caught with each of its faults.
pub fn run(choice: &Choice) -> ExitCode {
    let hunt = build::copy(&workspace()).and_then(|copy| hunt::all(&copy, &choice.only, choice.seeds));
    match hunt {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// The workspace whose library is copied.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}
