//! The `lease` program.

#[cfg(not(unix))]
compile_error!("`lease run` guards its command with process groups and signals: only Unix has them");

mod args;
#[cfg(test)]
mod bad_values;
mod claim;
mod clear;
mod command;
mod database;
mod exit;
mod guardian;
mod holding;
mod instant;
mod json;
mod list;
mod log;
mod manual;
mod progress;
mod rerun;
mod resign;
mod round_state;
mod run;
mod signals;
mod slots;
mod status;
mod supervise;
mod table;
mod terminal;
mod text;
mod url;
mod watch;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use args::{Arguments, DatabaseArguments, Sub};
use clap::Parser;
use clap::error::ErrorKind;
use database::Database;
use exit::{Failure, SUCCESS, SYSTEM, answer};

/// How long one statement may take that is part of no lease's life.
const ATTEMPT: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    let mut words: Vec<OsString> = env::args_os().collect();
    if words.get(1).is_some_and(|word| word == guardian::SUBCOMMAND) {
        return guardian::main(words.drain(2..));
    }
    exit::finish(parse(words).and_then(perform))
}

fn perform(arguments: Option<Arguments>) -> Result<u8, Failure> {
    let Some(arguments) = arguments else { return Ok(SUCCESS) };
    log::start()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(SYSTEM, format!("cannot start a runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        match arguments.subcommand {
            Sub::Run(arguments) => run::run(arguments).await,
            Sub::Status(arguments) => status::status(&arguments).await,
            Sub::List(arguments) => list::list(&arguments).await,
            Sub::Watch(arguments) => watch::watch(&arguments).await,
            Sub::Clear(arguments) => clear::clear(&arguments).await,
            Sub::Resign(arguments) => resign::resign(&arguments).await,
            Sub::Slots(arguments) => slots::slots(&arguments).await,
            Sub::Migrate(arguments) => migrate(&arguments).await,
            Sub::Schema(arguments) => schema(&arguments),
            Sub::Check(arguments) => check(&arguments).await,
            Sub::Completions(arguments) => manual::completions(&arguments),
            Sub::Man(arguments) => manual::man(&arguments),
        }
    });
    // A thread that writes to who does not read is left behind.
    runtime.shutdown_background();
    outcome
}

/// `None`: help or the version was asked for, and given.
fn parse(words: Vec<OsString>) -> Result<Option<Arguments>, Failure> {
    match Arguments::try_parse_from(words) {
        Ok(arguments) => Ok(Some(arguments)),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            answer(&error.render().to_string()).map(|()| None)
        }
        Err(error) => Err(refused(&error)),
    }
}

fn refused(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    // The problem and the tips; the usage that follows would make it a page.
    let problem = text.split("\n\nUsage:").next().unwrap_or_default();
    let problem = problem.strip_prefix("error: ").unwrap_or(problem);
    let problem = problem.trim_end().trim_end_matches("For more information, try '--help'.").trim_end();
    Failure::usage(format!("{problem}; see lease --help"))
}

async fn migrate(arguments: &DatabaseArguments) -> Result<u8, Failure> {
    let database = Database::named(arguments)?;
    database.create().await?.migrate().await?;
    answer(&format!("table {} is up to date in {}\n", database.table, database.describe()))?;
    Ok(SUCCESS)
}

fn schema(arguments: &DatabaseArguments) -> Result<u8, Failure> {
    let database = Database::named(arguments)?;
    answer(&format!("{}\n", database.schema.trim_end()))?;
    Ok(SUCCESS)
}

async fn check(arguments: &DatabaseArguments) -> Result<u8, Failure> {
    let database = Database::named(arguments)?;
    let Some(store) = database.existing().await? else {
        let place = database.describe();
        return Err(Failure::new(
            exit::DATABASE,
            format!("{place} does not exist yet; `lease migrate` creates it"),
        ));
    };
    store.check().await?;
    answer(&format!("{} can carry leases\n", database.describe()))?;
    Ok(SUCCESS)
}
