//! The project's own chores, run as `cargo xtask`.

mod backend;
mod bench;
mod ci;
mod db;
mod servers;
mod step;
mod test;
mod tidy;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use backend::Backend;
use test::Tests;

/// The chores of the lease workspace. Each runs from any folder of the clone.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check all that a change must pass: format, clippy, docs, tidy, then every test
    Ci {
        /// Leave the tests out
        #[arg(long)]
        no_test: bool,
    },
    /// Run every test: documentation tests first, then all others
    ///
    /// The database servers that the tests need are installed if they are missing, started, and stopped
    /// at the end. Arguments are handed to `cargo test`: a part of a test's name runs those tests only,
    /// `-p CRATE` one crate, `--test FILE` one file.
    Test {
        /// Run the tests of one backend, with the servers that it needs
        #[arg(long, value_enum)]
        backend: Option<Backend>,
        /// Arguments for `cargo test`
        #[arg(allow_hyphen_values = true)]
        arguments: Vec<String>,
        /// Arguments for the test programs
        #[arg(last = true)]
        for_programs: Vec<String>,
    },
    /// Measure leases on each engine: how fast they change hands, and what they cost
    ///
    /// Nothing passes or fails by it: each figure stands beside its goal. All that was measured is left
    /// as JSON in `target/bench`. The database servers are found or started as for the tests.
    Bench(bench::Choice),
    /// Database servers that stay between runs of tests
    Db {
        #[command(subcommand)]
        action: db::Action,
    },
    /// Check the rules of the house that no compiler knows
    ///
    /// Looks at the files that git tracks and prints one line for each finding: the place, what is
    /// wrong and how to mend it.
    Tidy,
}

fn main() -> ExitCode {
    let root = workspace();
    let outcome = match Arguments::parse().chore {
        Chore::Ci { no_test } => ci::run(&root, no_test),
        Chore::Test { backend, arguments, for_programs } => {
            test::run(&root, &Tests { backend, arguments, for_programs })
        }
        Chore::Bench(choice) => bench::run(&root, &choice),
        Chore::Db { action } => db::run(&action),
        Chore::Tidy => tidy::run(&root),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            step::say(&failure.message);
            ExitCode::from(failure.code)
        }
    }
}

/// The folder of the workspace: above that of this crate, which cargo names when it runs us.
fn workspace() -> PathBuf {
    let this_crate = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let this_crate = Path::new(&this_crate);
    this_crate.parent().unwrap_or(this_crate).to_owned()
}
