//! `cargo xtask test`: every test, on a machine that has cargo, a C compiler and git. The servers that the
//! tests need come and go with the run.

use std::env;
use std::num::NonZero;
use std::path::Path;
use std::thread;
use std::time::Instant;

use test_servers::Product;

use crate::backend::Backend;
use crate::step::{Failure, Step, Tool, announce, require};
use crate::{ci, db, lanes, servers};

const TOOLS: &[Tool] = &[
    Tool {
        program: "cc",
        probe: &["--version"],
        way_out: "a C compiler builds the SQLite that is inside; on Debian `apt-get install gcc libc6-dev`",
    },
    Tool { program: "git", probe: &["--version"], way_out: "on Debian `apt-get install git`" },
];

/// Which tests are run.
#[derive(Default)]
pub(crate) struct Tests {
    pub(crate) backend: Option<Backend>,
    /// For `cargo test`.
    pub(crate) arguments: Vec<String>,
    /// For the test programs.
    pub(crate) for_programs: Vec<String>,
    /// Whether all else that a change must pass is checked beside.
    pub(crate) checks: bool,
}

/// Runs the steps one after another and ends with the first that fails. Nothing is said after the
/// last, so that the test runner has the last word.
pub(crate) fn run(root: &Path, tests: &Tests) -> Result<(), Failure> {
    if tests.arguments.iter().any(|argument| argument.starts_with("--backend")) {
        return Err(Failure::new("write --backend before the arguments of `cargo test`"));
    }
    if tests.checks && !is_whole(tests) {
        return Err(Failure::new("--checks belongs to a run of every test"));
    }
    require(TOOLS)?;
    if tests.checks {
        require(ci::TOOLS)?;
    }
    // Before anything is built: the workspace's build puts another file in the place of this program.
    let checks = tests.checks.then(|| lanes::of_this_program(root, &["ci", "--no-test"])).transpose()?;
    let since = Instant::now();
    let products = products(tests);
    if !products.is_empty() {
        require(db::TOOLS)?;
    }
    let servers = servers::provide(&products, since)?;
    let mut environment = servers.environment.clone();
    if !products.is_empty() && env::var_os(THREADS).is_none() {
        environment.push((THREADS, threads().to_string()));
    }
    for step in steps(tests) {
        step.run(root, since, &environment)?;
    }
    if !is_whole(tests) {
        return Ok(());
    }
    announce(since, &format!("tests: cargo {}, {LANES} at a time", WHOLE.join(" ")));
    let mut programs = Vec::new();
    for chosen in [WHOLE, &beside_others()] {
        let built = lanes::build(root, chosen)?;
        if built.is_empty() {
            let problem = format!("cargo has built no test program: cargo {}", chosen.join(" "));
            return Err(Failure::new(problem));
        }
        programs.extend(built);
    }
    let programs = programs.iter().map(|program| program.job(&tests.for_programs, &environment)).collect();
    lanes::run(programs, checks, LANES, since)
}

/// How many test programs run at a time: most of the time they wait.
const LANES: usize = 2;

/// All that is run beside the documentation tests.
const WHOLE: &[&str] = &["test", "--locked", "--workspace", "--lib", "--bins", "--tests", "--examples"];

/// And of the program that is no member of the workspace, since what it takes is resolved apart.
fn beside_others() -> Vec<&'static str> {
    [&["test"], &ci::BESIDE_OTHERS[..], &["--test", "*"]].concat()
}

/// The code of its page.
fn page_of_beside_others() -> Vec<&'static str> {
    // The step has its `--locked`.
    [&ci::BESIDE_OTHERS[1..], &["--doc"]].concat()
}

/// Whether every test is run, none being chosen.
fn is_whole(tests: &Tests) -> bool {
    tests.backend.is_none() && tests.arguments.is_empty()
}

const THREADS: &str = "RUST_TEST_THREADS";

/// Tests on servers mostly wait for them.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).max(8)
}

/// The documentation tests come first: a crate without any would close the run with "0 passed". Of a whole run the other tests
/// are no step: they run [side by side](lanes).
///
/// With a backend, packages or targets chosen by the caller nothing of ours is added to the choice.
fn steps(tests: &Tests) -> Vec<Step> {
    let for_programs: Vec<&str> = tests.for_programs.iter().map(String::as_str).collect();
    let skipped = tests.backend.map_or(&[][..], Backend::skips);
    let for_programs = [skipped, &for_programs].concat();
    let step = |name, ours: &[&str]| {
        let mut step = Step::new(name, &[&["test", "--locked"], ours].concat());
        step.arguments.extend_from_slice(&tests.arguments);
        if !for_programs.is_empty() {
            step.arguments.push("--".to_owned());
            step.arguments.extend(for_programs.iter().map(ToString::to_string));
        }
        step
    };
    if let Some(backend) = tests.backend {
        return vec![step("tests", &["-p", backend.package()])];
    }
    if tests.arguments.iter().any(|argument| chooses(argument)) {
        return vec![step("tests", &[])];
    }
    let documentation = step("documentation tests", &["--workspace", "--doc"]);
    if is_whole(tests) {
        return vec![documentation, step("documentation tests of beside-others", &page_of_beside_others())];
    }
    vec![documentation, step("tests", &["--workspace", "--lib", "--bins", "--tests", "--examples"])]
}

/// The servers that the tests need.
fn products(tests: &Tests) -> Vec<Product> {
    let packages = packages(&tests.arguments);
    // A pattern, a version, a path: what is not a name alone may stand for any crate.
    let is_name =
        |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let all = tests.arguments.iter().any(|argument| argument == "--workspace" || argument == "--all");
    let some = !packages.is_empty() && packages.iter().all(is_name) && !all;
    let some = tests.backend.is_some() || some;
    let mut needed = tests.backend.map_or(&[][..], Backend::products).to_vec();
    for (_, products) in NEED_SERVERS.iter().filter(|(name, _)| !some || packages.contains(name)) {
        needed.extend_from_slice(products);
    }
    Product::ALL.into_iter().filter(|product| needed.contains(product)).collect()
}

/// The crates whose tests need servers, and which.
const NEED_SERVERS: &[(&str, &[Product])] = &[
    ("lease-postgres", Backend::Postgres.products()),
    ("lease-mysql", &[Product::MariaDb, Product::MySql]),
    ("lease-cli", &Product::ALL),
    ("guarded-transfer", &Product::ALL),
    ("lab", &Product::ALL),
    ("test-servers", &Product::ALL),
    ("xtask", Backend::Postgres.products()),
];

/// The packages that arguments of `cargo test` choose, in each way to write them.
fn packages(arguments: &[String]) -> Vec<&str> {
    let mut packages = Vec::new();
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if word == "-p" || word == "--package" {
            packages.extend(words.next());
        } else if let Some(package) = word.strip_prefix("--package=") {
            packages.push(package);
        } else if let Some(package) = word.strip_prefix("-p") {
            packages.push(package.trim_start_matches('='));
        }
    }
    packages
}

/// Whether an argument of `cargo test` chooses packages or targets.
fn chooses(argument: &str) -> bool {
    let option = argument.split('=').next().unwrap_or(argument);
    // The package may stand right behind its `-p`.
    CHOICES.contains(&option) || option.starts_with("-p")
}

const CHOICES: &[&str] = &[
    "--workspace",
    "--all",
    "--package",
    "--doc",
    "--lib",
    "--bin",
    "--bins",
    "--test",
    "--tests",
    "--example",
    "--examples",
    "--bench",
    "--benches",
    "--all-targets",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn tests(backend: Option<Backend>, arguments: &[&str], for_programs: &[&str]) -> Tests {
        let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        Tests { backend, arguments: owned(arguments), for_programs: owned(for_programs), checks: false }
    }

    fn shown(backend: Option<Backend>, arguments: &[&str], for_programs: &[&str]) -> Vec<String> {
        steps(&tests(backend, arguments, for_programs)).iter().map(ToString::to_string).collect()
    }

    fn needed(backend: Option<Backend>, arguments: &[&str]) -> Vec<Product> {
        products(&tests(backend, arguments, &[]))
    }

    #[test]
    fn the_documentation_tests_come_first_so_that_the_run_closes_on_executed_tests() {
        assert_eq!(
            shown(None, &[], &["--nocapture"]),
            [
                "cargo test --locked --workspace --doc -- --nocapture",
                "cargo test --locked --manifest-path examples/beside-others/Cargo.toml --target-dir target --doc \
                 -- --nocapture",
            ]
        );
        assert!(is_whole(&tests(None, &[], &["--nocapture"])));
        for (backend, arguments) in [(Some(Backend::Sqlite), &[][..]), (None, &["renewal"])] {
            assert!(!is_whole(&tests(backend, arguments, &[])), "{arguments:?}");
        }
    }

    #[test]
    fn a_part_of_a_name_and_the_test_programs_arguments_reach_both_steps() {
        assert_eq!(
            shown(None, &["renewal"], &["--nocapture", "--test"]),
            [
                "cargo test --locked --workspace --doc renewal -- --nocapture --test",
                "cargo test --locked --workspace --lib --bins --tests --examples renewal -- --nocapture --test",
            ]
        );
    }

    #[test]
    fn a_chosen_crate_or_target_is_all_that_is_run() {
        for (arguments, command) in [
            (&["-p", "lease-cli"][..], "cargo test --locked -p lease-cli"),
            (&["-please-cli"], "cargo test --locked -please-cli"),
            (&["--package=lease-cli"], "cargo test --locked --package=lease-cli"),
            (
                &["-p", "lease-sqlite", "--test", "conformance"],
                "cargo test --locked -p lease-sqlite --test conformance",
            ),
        ] {
            assert_eq!(shown(None, arguments, &[]), [command]);
        }
    }

    #[test]
    fn a_backend_is_its_crate_without_the_tests_on_the_other_product() {
        let of = |backend, arguments| shown(Some(backend), arguments, &["--nocapture"]);
        assert_eq!(
            of(Backend::Mysql, &["renewal"]),
            ["cargo test --locked -p lease-mysql renewal -- --skip mariadb:: --nocapture"]
        );
        assert_eq!(
            of(Backend::Mariadb, &[]),
            ["cargo test --locked -p lease-mysql -- --skip mysql:: --nocapture"]
        );
        assert_eq!(of(Backend::Sqlite, &[]), ["cargo test --locked -p lease-sqlite -- --nocapture"]);
    }

    #[test]
    fn the_workspace_needs_every_server() {
        assert_eq!(needed(None, &[]), Product::ALL);
        assert_eq!(needed(None, &["renewal", "--test", "conformance"]), Product::ALL);
    }

    #[test]
    fn a_crate_needs_the_servers_of_its_tests_and_most_need_none() {
        for arguments in [&["-p", "lease-core"][..], &["-please-sqlite"], &["--package=lease-testkit"]] {
            assert_eq!(needed(None, arguments), [], "{arguments:?}");
        }
        assert_eq!(needed(None, &["-p", "lease-postgres"]), [Product::Postgres]);
        assert_eq!(needed(None, &["-p", "lab"]), Product::ALL);
        assert_eq!(needed(None, &["--package=lease-mysql"]), [Product::MariaDb, Product::MySql]);
        assert_eq!(
            needed(None, &["-p", "lease-core", "--package", "lease-mysql", "-p=lease-postgres"]),
            Product::ALL
        );
    }

    #[test]
    fn what_may_stand_for_any_crate_needs_every_server() {
        for package in ["lease-*", "lease-core@0.1.0", "path+file:///lease-core"] {
            assert_eq!(needed(None, &["-p", package]), Product::ALL, "{package}");
        }
        assert_eq!(needed(None, &["-p", "lease-core", "--workspace"]), Product::ALL);
    }

    #[test]
    fn a_backend_needs_its_own_server_alone() {
        assert_eq!(needed(Some(Backend::Mariadb), &[]), [Product::MariaDb]);
        assert_eq!(needed(Some(Backend::Postgres), &["renewal"]), [Product::Postgres]);
        assert_eq!(needed(Some(Backend::Memory), &[]), []);
    }
}
