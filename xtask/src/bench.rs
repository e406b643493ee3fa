//! `cargo xtask bench`: the benchmark, built as users build, on the servers that it needs.

use std::path::Path;
use std::time::Instant;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use crate::backend::Backend;
use crate::step::{Failure, Step, require};
use crate::{db, servers};

/// What is measured.
#[derive(Args)]
pub(crate) struct Choice {
    /// Fewer and shorter rounds: to see that all works, not to quote
    #[arg(long)]
    quick: bool,
    /// Measure this engine only; may be given more than once
    #[arg(long, value_parser = engine())]
    engine: Vec<Backend>,
    /// Ask this question only (statements, transactions, hand-over, throughput, takeover, idle, many, growth, holding, day); may be given more than once
    #[arg(long)]
    question: Vec<String>,
}

const ENGINES: [Backend; 4] = [Backend::Sqlite, Backend::Postgres, Backend::Mariadb, Backend::Mysql];

fn engine() -> impl TypedValueParser<Value = Backend> {
    let values = ENGINES.iter().filter_map(Backend::to_possible_value);
    PossibleValuesParser::new(values.collect::<Vec<_>>()).try_map(|name| Backend::from_str(&name, false))
}

fn name(engine: Backend) -> String {
    engine.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

pub(crate) fn run(root: &Path, choice: &Choice) -> Result<(), Failure> {
    let since = Instant::now();
    let engines = if choice.engine.is_empty() { &ENGINES[..] } else { &choice.engine };
    let products: Vec<_> = engines.iter().flat_map(|engine| engine.products()).copied().collect();
    if !products.is_empty() {
        require(db::TOOLS)?;
    }
    let servers = servers::provide(&products, since)?;
    step(choice).run(root, since, &servers.environment)
}

fn step(choice: &Choice) -> Step {
    let mut step = Step::new("benchmark", &["run", "--locked", "--release", "-p", "bench", "--"]);
    step.arguments.extend(choice.quick.then(|| "--quick".to_owned()));
    step.arguments.extend(choice.engine.iter().flat_map(|engine| ["--engine".to_owned(), name(*engine)]));
    step.arguments.extend(choice.question.iter().flat_map(|name| ["--question".to_owned(), name.clone()]));
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_benchmark_is_built_for_release_and_told_what_was_chosen() {
        let choice = Choice { quick: false, engine: Vec::new(), question: Vec::new() };
        assert_eq!(step(&choice).to_string(), "cargo run --locked --release -p bench --");
        let engine = vec![Backend::Mariadb, Backend::Sqlite];
        let choice = Choice { quick: true, engine, question: vec!["idle".to_owned()] };
        assert_eq!(
            step(&choice).to_string(),
            "cargo run --locked --release -p bench -- --quick --engine mariadb --engine sqlite --question idle"
        );
    }
}
