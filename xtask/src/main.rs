//! The project's own chores, run as `cargo xtask`.

mod api;
mod backend;
mod bench;
mod ci;
mod db;
mod lab;
mod lanes;
mod release;
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
    /// Check all that a change must pass: format, clippy, races, docs and tidy, beside every test
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
        /// Check beside them all else that a change must pass
        #[arg(long)]
        checks: bool,
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
    /// Search the model of the protocol for a state in which it breaks a promise
    ///
    /// Arguments are handed on: `--tier nightly` searches further, `--holes` shows the known limits, `--help` tells the rest.
    Model {
        /// Arguments for the model
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Simulate whole clusters with faults, in virtual time
    ///
    /// Arguments are handed on: `--hours N`, `--seed S`, `--tier nightly`; `--help` tells the rest.
    Simulate {
        /// Arguments for the simulation
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Plant known mistakes in the library and see the simulation find each
    Planted {
        /// Arguments for the lab
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Attack processes on real servers, and judge their histories
    ///
    /// The database servers are found or started as for the tests. Further arguments are handed on: `--minutes N`, `--seed S`,
    /// `--kinds a,b`, `--tier nightly`; `-- --help` tells the rest.
    Faults {
        /// Attack on this database only; may be given more than once
        #[arg(long, value_enum)]
        backend: Vec<Backend>,
        /// Arguments for the lab
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Draw the pictures in docs/timelines anew: what a lease goes through, as the library plays it in virtual time
    Timelines,
    /// Database servers that stay between runs of tests
    Db {
        #[command(subcommand)]
        action: db::Action,
    },
    /// Check all that must be right before the crates are published, and say in which order that is done
    ///
    /// What cannot be checked on this machine is said, with the reason. Tools that are missing are installed into `target/tools`.
    Release {
        /// Check, and publish nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Compare what the published libraries offer with the listing that is kept of it
    ///
    /// Fails too when types of other crates can be reached that are not in the table of those that may.
    Api {
        /// Write the listing anew
        #[arg(long)]
        write: bool,
    },
    /// Check the rules of the house that no compiler knows
    ///
    /// Looks at the files that git tracks and prints one line for each finding: the place, what is
    /// wrong and how to mend it.
    Tidy,
}

fn main() -> ExitCode {
    if let Some(code) = api::as_rustdoc() {
        return code;
    }
    let root = workspace();
    let outcome = match Arguments::parse().chore {
        Chore::Ci { no_test } => ci::run(&root, no_test),
        Chore::Test { backend, checks, arguments, for_programs } => {
            test::run(&root, &Tests { backend, arguments, for_programs, checks })
        }
        Chore::Bench(choice) => bench::run(&root, &choice),
        Chore::Model { arguments } => lab::run(&root, "model", &arguments),
        Chore::Simulate { arguments } => lab::run(&root, "simulate", &arguments),
        Chore::Planted { arguments } => lab::run(&root, "planted", &arguments),
        Chore::Faults { backend, arguments } => lab::faults(&root, &backend, &arguments),
        Chore::Timelines => lab::run(&root, "timelines", &[]),
        Chore::Db { action } => db::run(&action),
        Chore::Release { dry_run } => release::run(&root, dry_run),
        Chore::Api { write } => api::run(&root, write),
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
