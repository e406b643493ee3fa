//! `cargo xtask model`, `simulate`, `planted` and `faults`: what attacks the library; and `timelines`, which draws it.

use std::path::Path;
use std::time::Instant;

use clap::ValueEnum;

use crate::backend::Backend;
use crate::step::{Failure, Step, require};
use crate::{db, servers};

/// Runs a command of the lab, or the model, which need no server.
pub(crate) fn run(root: &Path, name: &'static str, arguments: &[String]) -> Result<(), Failure> {
    step(name, arguments).run(root, Instant::now(), &[])
}

/// Runs the faults on these databases, on all four if none is named, with the servers that they need.
pub(crate) fn faults(root: &Path, backends: &[Backend], arguments: &[String]) -> Result<(), Failure> {
    let since = Instant::now();
    let named = if backends.is_empty() { &ALL[..] } else { backends };
    let products: Vec<_> = named.iter().flat_map(|backend| backend.products()).copied().collect();
    if !products.is_empty() {
        require(db::TOOLS)?;
    }
    let servers = servers::provide(&products, since)?;
    let chosen = backends.iter().flat_map(|backend| ["--backend".to_owned(), name(*backend)]);
    let arguments: Vec<String> = chosen.chain(arguments.iter().cloned()).collect();
    step("faults", &arguments).run(root, since, &servers.environment)
}

const ALL: [Backend; 4] = [Backend::Sqlite, Backend::Postgres, Backend::Mariadb, Backend::Mysql];

fn name(backend: Backend) -> String {
    backend.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn step(name: &'static str, arguments: &[String]) -> Step {
    let (package, command) = if name == "model" { ("model", None) } else { ("lab", Some(name)) };
    let mut step = Step::new(name, &["run", "--locked"]);
    // What simulates is optimised by itself: lab/src/planted/build.rs. Pictures take a second anyway.
    let optimised = !matches!(name, "simulate" | "planted" | "timelines");
    step.arguments.extend(optimised.then(|| "--release".to_owned()));
    step.arguments.extend(["-p", package, "--"].map(str::to_owned));
    step.arguments.extend(command.map(str::to_owned));
    step.arguments.extend_from_slice(arguments);
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_attacks_the_library_is_optimised_and_told_what_was_asked_for() {
        let arguments = ["--seed".to_owned(), "7".to_owned()];
        let model = "cargo run --locked --release -p model -- --seed 7";
        assert_eq!(step("model", &arguments).to_string(), model);
        let simulate = "cargo run --locked -p lab -- simulate --seed 7";
        assert_eq!(step("simulate", &arguments).to_string(), simulate);
    }
}
