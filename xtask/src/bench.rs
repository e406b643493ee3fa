//! `cargo xtask bench`: the benchmark, built as users build, on the servers that it needs.

use std::path::Path;
use std::time::Instant;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use test_servers::install_program;

use crate::backend::Backend;
use crate::step::{Failure, Step, announce, require};
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
    /// Ask this question only (statements, transactions, instructions, hand-over, throughput, takeover, idle, rivals, many, growth, holding, day); may be given more than once
    #[arg(long)]
    question: Vec<String>,
    /// Draw a picture of each question in docs/bench
    #[arg(long)]
    charts: bool,
}

const ENGINES: [Backend; 4] = [Backend::Sqlite, Backend::Postgres, Backend::Mariadb, Backend::Mysql];

fn engine() -> impl TypedValueParser<Value = Backend> {
    let values = ENGINES.iter().filter_map(Backend::to_possible_value);
    PossibleValuesParser::new(values.collect::<Vec<_>>()).try_map(|name| Backend::from_str(&name, false))
}

fn name(engine: Backend) -> String {
    engine.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What leases are compared with, or measured by: a program of a package of the system's.
#[derive(Debug, PartialEq, Eq)]
struct Other {
    program: &'static str,
    package: &'static str,
    service: &'static str,
}

const ETCD: Other = Other { program: "etcd", package: "etcd-server", service: "etcd" };
const REDIS: Other = Other { program: "redis-server", package: "redis-server", service: "redis-server" };
/// It has no service; the name of one that is not there does no harm.
const VALGRIND: Other = Other { program: "valgrind", package: "valgrind", service: "valgrind" };

/// Those that the chosen questions want.
fn others(choice: &Choice) -> Vec<Other> {
    let asks =
        |question: &str| choice.question.is_empty() || choice.question.iter().any(|name| name == question);
    let is_on_postgres = choice.engine.is_empty() || choice.engine.contains(&Backend::Postgres);
    let mut others = Vec::new();
    if asks("rivals") || is_on_postgres && (asks("hand-over") || asks("takeover")) {
        others.push(ETCD);
    }
    if asks("rivals") {
        others.push(REDIS);
    }
    if asks("instructions") {
        others.push(VALGRIND);
    }
    others
}

pub(crate) fn run(root: &Path, choice: &Choice) -> Result<(), Failure> {
    let since = Instant::now();
    let engines = if choice.engine.is_empty() { &ENGINES[..] } else { &choice.engine };
    let products: Vec<_> = engines.iter().flat_map(|engine| engine.products()).copied().collect();
    if !products.is_empty() {
        require(db::TOOLS)?;
    }
    let servers = servers::provide(&products, since)?;
    for Other { program, package, service } in others(choice) {
        if let Err(error) = install_program(program, package, service, &|what| announce(since, what)) {
            announce(since, &format!("there will be no figure of {program}, but all others: {error}"));
        }
    }
    step(choice).run(root, since, &servers.environment)
}

fn step(choice: &Choice) -> Step {
    let mut step = Step::new(
        "benchmark",
        &["run", "--locked", "--release", "-p", "bench", "--features", "under-valgrind", "--"],
    );
    step.arguments.extend(choice.quick.then(|| "--quick".to_owned()));
    step.arguments.extend(choice.engine.iter().flat_map(|engine| ["--engine".to_owned(), name(*engine)]));
    step.arguments.extend(choice.question.iter().flat_map(|name| ["--question".to_owned(), name.clone()]));
    step.arguments.extend(choice.charts.then(|| "--charts=docs/bench".to_owned()));
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_benchmark_is_built_for_release_and_told_what_was_chosen() {
        let choice = Choice { quick: false, engine: Vec::new(), question: Vec::new(), charts: false };
        assert_eq!(
            step(&choice).to_string(),
            "cargo run --locked --release -p bench --features under-valgrind --"
        );
        let engine = vec![Backend::Mariadb, Backend::Sqlite];
        let choice = Choice { quick: true, engine, question: vec!["idle".to_owned()], charts: true };
        assert_eq!(
            step(&choice).to_string(),
            "cargo run --locked --release -p bench --features under-valgrind -- --quick --engine mariadb --engine sqlite --question idle --charts=docs/bench"
        );
    }

    #[test]
    fn only_what_is_compared_with_is_installed() {
        let of = |engine: &[Backend], question: &[&str]| {
            let question = question.iter().map(ToString::to_string).collect();
            others(&Choice { quick: true, engine: engine.to_vec(), question, charts: false })
        };
        assert_eq!(of(&[], &[]), [ETCD, REDIS, VALGRIND]);
        assert_eq!(of(&[Backend::Sqlite], &["idle", "rivals"]), [ETCD, REDIS]);
        assert_eq!(of(&[Backend::Postgres], &["hand-over"]), [ETCD]);
        assert_eq!(of(&[Backend::Sqlite], &["hand-over", "takeover"]), []);
        assert_eq!(of(&[], &["statements"]), []);
        assert_eq!(of(&[Backend::Mysql], &["instructions"]), [VALGRIND]);
    }
}
