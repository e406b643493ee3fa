//! The benchmark, run as `cargo xtask bench`: questions put to each engine, and what they answered.

mod chart;
mod clock;
mod crew;
mod crews;
mod database;
mod day;
mod engine;
mod figures;
mod floor;
mod growth;
mod hand_over;
mod holding;
mod idle;
mod instructions;
mod machine;
mod many;
mod observed;
mod others;
mod ours;
mod party;
mod processes;
mod progress;
mod report;
mod rivals;
mod rows;
mod statements;
mod takeover;
mod throughput;
mod worker;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use engine::{Engine, Place};
use progress::Progress;
use report::{Answer, Figure, Report};

/// Measures leases on each engine: a table on standard output, everything as JSON in a file, what it is at on standard error.
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Fewer and shorter rounds: figures to see that all works, not to quote
    #[arg(long)]
    quick: bool,
    /// Only these engines
    #[arg(long, value_enum)]
    engine: Vec<Engine>,
    /// Only these questions
    #[arg(long, value_enum)]
    question: Vec<Question>,
    /// Draw a picture of each question in this folder
    #[arg(long, value_name = "FOLDER")]
    charts: Option<PathBuf>,
}

/// What is asked of an engine. Each has a file of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Question {
    /// Claims, releases, renewals and looks, against the shortest statement that does the job
    Statements,
    /// A guarded transaction against a bare one
    Transactions,
    /// What the library takes over the bare driver
    Instructions,
    /// From the start of a release in one process to the work starting in another
    HandOver,
    /// Releases and claims of sixteen at once, with notices and without
    Throughput,
    /// From the expiry of a killed holder's row to the claim of who waits
    Takeover,
    /// What it costs to wait for a name
    Idle,
    /// Claims and releases, against what people would use instead
    Rivals,
    /// A batch of renewals against as many single ones
    Many,
    /// Claims in a table of a million rows against those in one of ten
    Growth,
    /// What it costs to hold ten thousand names
    Holding,
    /// What a day of renewals leaves of a row
    Day,
}

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What a question is asked with.
struct Trial<'a> {
    place: &'a Place,
    /// A folder that is gone with this run.
    scratch: &'a Path,
    quick: bool,
    progress: Progress,
}

impl Trial<'_> {
    /// So many, or fewer in a hurry.
    fn count(&self, whole: usize, quick: usize) -> usize {
        if self.quick { quick } else { whole }
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(instructions::SUBCOMMAND) {
        return ended(instructions::serve(&std::env::args().skip(2).collect::<Vec<_>>()));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    ended(runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(perform())))
}

fn ended(outcome: Outcome<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn perform() -> Outcome<()> {
    let mut words = std::env::args();
    if words.nth(1).as_deref() == Some(worker::SUBCOMMAND) {
        return worker::serve(words.collect()).await;
    }
    let arguments = Arguments::parse();
    let folder = folder()?;
    let scratch = tempfile::tempdir_in(&folder)?;
    let mut report = Report::new(arguments.quick);
    let mut file = None;
    for engine in chosen(&arguments.engine) {
        let place = engine.place(scratch.path()).await?;
        report.asked(engine, floor::version(&place).await?);
        for question in chosen(&arguments.question) {
            let title = format!("{} {}", engine.name(), question.name());
            let progress = Progress::new(&title);
            let trial = Trial { place: &place, scratch: scratch.path(), quick: arguments.quick, progress };
            // One that fails does not take the others' figures along.
            report.add(Answer::new(engine, question.name(), question.ask(&trial).await));
            // A run that is broken off leaves what it has.
            file = Some(report.write(&folder)?);
        }
    }
    if let Some(folder) = &arguments.charts {
        report.draw(folder)?;
    }
    println!("{}", report.table());
    if let Some(file) = file {
        println!("{}", file.display());
    }
    if report.has_failed() { Err("some questions have no answer".into()) } else { Ok(()) }
}

impl Question {
    async fn ask(self, trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
        match self {
            Self::Statements => statements::ask(trial).await,
            Self::Transactions => statements::ask_of_transactions(trial),
            Self::Instructions => instructions::ask(trial),
            Self::HandOver => hand_over::ask(trial).await,
            Self::Throughput => throughput::ask(trial).await,
            Self::Takeover => takeover::ask(trial).await,
            Self::Idle => idle::ask(trial).await,
            Self::Rivals => rivals::ask(trial).await,
            Self::Many => many::ask(trial).await,
            Self::Growth => growth::ask(trial).await,
            Self::Holding => holding::ask(trial).await,
            Self::Day => day::ask(trial).await,
        }
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Those that were named, or all.
fn chosen<T: ValueEnum>(named: &[T]) -> Vec<T> {
    if named.is_empty() { T::value_variants() } else { named }.to_vec()
}

/// `target/bench`, beside the folder of the profile that this program was built in.
fn folder() -> Outcome<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.parent().and_then(Path::parent).ok_or("this program is in no target folder")?;
    let folder = target.join("bench");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
