//! The chores as people run them, on a planted workspace.
#![cfg(unix)]

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;
use test_servers::Product;

/// A workspace in which tidy finds nothing.
const CLEAN: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"lease-core\", \"lease-sqlite\"]\n\n[workspace.package]\nversion = \"0.1.0\"\n\
         edition = \"2024\"\nrust-version = \"1.95\"\nlicense = \"MIT\"\n\n[workspace.dependencies]\n\
         lease-core = { path = \"lease-core\", version = \"0.1.0\" }\nlease-sqlite = { path = \"lease-sqlite\", version = \"0.1.0\" }\n",
    ),
    ("CHANGELOG.md", "# Changes\n\n[core](lease-core/CHANGELOG.md), [SQLite](lease-sqlite/CHANGELOG.md)\n"),
    ("LICENSE-APACHE", "Apache\n"),
    ("LICENSE-MIT", "MIT\n"),
    ("README.md", "# lease\n\nNeeds Rust 1.95 or later. See [the core](lease-core/README.md#the-core).\n"),
    ("lease-core/CHANGELOG.md", "# Changes\n\n## Unreleased\n"),
    ("lease-core/LICENSE-APACHE", "Apache\n"),
    ("lease-core/LICENSE-MIT", "MIT\n"),
    ("lease-core/Cargo.toml", "[package]\nname = \"lease-core\"\nMANIFEST"),
    ("lease-core/README.md", "# The core\n\nThe protocol.\n"),
    ("lease-core/src/lib.rs", "pub mod renewal;\n"),
    ("lease-core/src/renewal.rs", "//! A machine.\n"),
    ("lease-core/src/log.rs", "fn a() { tracing::info!(lease = 1, \"claimed\"); }\n"),
    ("docs/operations.md", "# Operations\n\n| info | `claimed` | `lease_core::log` | `lease` |\n"),
    ("docs/public-api.txt", API),
    ("lease-core/src/store.rs", "//! The contract.\n\ntrait LeaseStore {\n    async fn claim(&self);\n}\n"),
    ("lease-sqlite/CHANGELOG.md", "# Changes\n\n## Unreleased\n"),
    ("lease-sqlite/LICENSE-APACHE", "Apache\n"),
    ("lease-sqlite/LICENSE-MIT", "MIT\n"),
    ("lease-sqlite/Cargo.toml", "[package]\nname = \"lease-sqlite\"\nMANIFEST"),
    ("lease-sqlite/README.md", "# lease-sqlite\n\nThe dialect.\n"),
    ("lease-sqlite/src/lib.rs", "//! The dialect.\n"),
    ("lease-sqlite/src/sql.rs", "pub(crate) const CLAIM: &str = \"UPDATE leases SET term = 1\";\n"),
    ("lease-sqlite/src/schema.sql", "CREATE TABLE leases (name TEXT PRIMARY KEY);\n"),
    ("lease-sqlite/src/connection.rs", "//! Connections.\n"),
    ("lease-sqlite/src/error.rs", "//! Errors.\n"),
    ("lease-sqlite/src/store.rs", "//! The store.\n"),
    ("lease-sqlite/tests/conformance.rs", "//! The suite.\n"),
    ("lease-sqlite/tests/faults.rs", "//! The faults.\n"),
    ("lease-sqlite/examples/nightly.rs", "fn main() {}\n"),
];

/// What libraries offer that have nothing but themselves.
const API: &str = "\
What the published libraries offer, with all features, one item a line. Implementations that every type has are left out.
`cargo xtask api` compares this with the code, and `cargo xtask api --write` writes it anew.

# lease-core

pub mod lease_core

# lease-mysql

pub mod lease_mysql

# lease-postgres

pub mod lease_postgres

# lease-sqlite

pub mod lease_sqlite

# lease-testkit

pub mod lease_testkit
";

const MANIFEST: &str = "description = \"d\"\nreadme = \"README.md\"\nversion.workspace = true\nedition.workspace = true\n\
                        rust-version.workspace = true\nlicense.workspace = true\n";

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text.replace("MANIFEST", MANIFEST)).unwrap();
}

/// The clean workspace with one file more, or one file other than before.
fn planted(change: Option<(&str, &str)>) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in CLEAN.iter().copied().chain(change) {
        write(root.path(), path, text);
    }
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        only_git_of(root.path(), command.args(arguments).current_dir(root.path()));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    };
    run(env!("CARGO"), &["generate-lockfile", "--offline"]);
    run("git", &["init", "--quiet"]);
    run("git", &["add", "--all"]);
    root
}

/// The program as cargo runs it in this workspace.
fn xtask(root: &Path, arguments: &[&str], cargo: &Path) -> Command {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(arguments).env("CARGO_MANIFEST_DIR", root.join("xtask")).env("CARGO", cargo);
    only_git_of(root, &mut xtask);
    // Nothing is installed, and nothing started, for a run that tests nothing.
    xtask.env("LEASE_TEST_INSTALL", "no");
    for product in Product::ALL {
        xtask.env(product.variable(), "provided");
    }
    xtask
}

fn tidy(root: &Path) -> Output {
    xtask(root, &["tidy"], Path::new(env!("CARGO"))).output().unwrap()
}

/// Keeps git from any repository but the one planted: a git that runs these tests in a hook names its own.
fn only_git_of(root: &Path, command: &mut Command) {
    for variable in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"] {
        command.env_remove(variable);
    }
    command.env("GIT_CEILING_DIRECTORIES", root.parent().unwrap());
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

#[test]
fn tidy_finds_nothing_in_a_clean_workspace() {
    let root = planted(None);
    let output = tidy(root.path());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "");
    assert_eq!(text(&output.stderr), "xtask: tidy: 21 checks, no findings\n");
}

#[test]
fn tidy_finds_what_is_planted_against_each_rule() {
    let place = ["", "home", "me"].join("/");
    let host = format!("see {}.io/x\n", "crates");
    let driver = "[package]\nname = \"lease-core\"\nMANIFEST[dependencies]\nlease-sqlite.workspace = true\n";
    let path = "[package]\nname = \"lease-sqlite\"\nMANIFEST[dependencies]\nlease-core = { path = \"../lease-core\" }\n";
    let mut own_version = "[package]\nname = \"lease-sqlite\"\nMANIFEST".replace("MANIFEST", MANIFEST);
    own_version = own_version.replace("version.workspace = true\nedition", "version = \"0.1.0\"\nedition");
    let mut other_manifest = "[package]\nname = \"lease-sqlite\"\nMANIFEST".replace("MANIFEST", MANIFEST);
    other_manifest = other_manifest.replace("description = \"d\"\n", "");
    let path_line = format!("cd {place}/x\n");
    let long = "\n".repeat(601);
    let planted_findings = [
        ("lease-core/src/renewal.rs", "use tokio::time;\n", "lease-core/src/renewal.rs:1: `tokio`"),
        ("lease-core/src/lease.rs", "\nfn a() { tokio::spawn(b) }\n", "lease-core/src/lease.rs:2: `spawn`"),
        ("lease-core/src/a.rs", "const A: &str = \"SELECT 1 FROM a\";\n", "lease-core/src/a.rs:1: `SELECT 1"),
        ("lease-core/Cargo.toml", driver, "lease-core/Cargo.toml:1: lease-core is built from lease-sqlite,"),
        ("README.md", "# lease\n\nRust 1.80 or later\n", "README.md:3: says Rust 1.80,"),
        (
            "lease-sqlite/Cargo.toml",
            &other_manifest,
            "lease-sqlite/Cargo.toml:1: [package] has no `description`",
        ),
        ("examples/a/Cargo.toml", "[package]\n", "examples/a/Cargo.toml:1: would be published"),
        ("lease-sqlite/Cargo.toml", &own_version, "lease-sqlite/Cargo.toml:1: has a version of its own"),
        ("lease-sqlite/Cargo.toml", path, "lease-sqlite/Cargo.toml:10: a path;"),
        ("lease-core/LICENSE-MIT", "MIT?\n", "lease-core/LICENSE-MIT:1: missing or another"),
        ("lease-core/CHANGELOG.md", "# Changes\n", "lease-core/CHANGELOG.md:1: missing or without a version"),
        ("lease-sqlite/README.md", "# title\n", "lease-sqlite/README.md:1: missing or a mere title"),
        ("lease-sqlite/src/sql.rs", "fn own() {}\n", "lease-sqlite/src/sql.rs:1: no statement"),
        ("lease-core/src/a.rs", "fn a() { todo!() }\n", "lease-core/src/a.rs:1: `todo!`"),
        ("run.sh", &path_line, "run.sh:1: `/"),
        ("a.txt", &host, "a.txt:1: names the registry host"),
        ("a.md", "[b](gone.md)\n", "a.md:1: `gone.md`: no tracked file"),
        (
            "lease-core/src/a.rs",
            "fn a() { tracing::warn!(\"failed\"); }\n",
            "lease-core/src/a.rs:1: no row of the table",
        ),
        ("lease-core/src/a.rs", &long, "lease-core/src/a.rs:600: 601 lines"),
        ("a.txt", "a \n", "a.txt:1: white space"),
    ];
    for (path, violation, expected) in planted_findings {
        let root = planted(Some((path, violation)));
        let output = tidy(root.path());
        let findings: Vec<&str> = text(&output.stdout).lines().collect();
        assert_eq!(output.status.code(), Some(1), "{path}: {output:?}");
        assert_eq!(findings.len(), 1, "{path}: {findings:?}");
        assert!(findings[0].starts_with(expected), "{findings:?}");
        assert_eq!(text(&output.stderr), "xtask: tidy: 21 checks, findings: 1\n");
    }
}

#[test]
fn findings_come_in_the_order_of_files_and_lines() {
    let root = planted(Some((
        "lease-core/src/a.rs",
        "\nfn a() {}  \nfn b() { todo!() }\nconst C: &str = \"DELETE FROM c\"; \n",
    )));
    let output = tidy(root.path());
    let places: Vec<&str> = text(&output.stdout).lines().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(places, [2, 3, 4, 4].map(|line| format!("lease-core/src/a.rs:{line}")));
}

#[test]
fn a_file_that_a_backend_lacks_is_found() {
    let root = planted(None);
    fs::remove_file(root.path().join("lease-sqlite/tests/faults.rs")).unwrap();
    let output = tidy(root.path());
    assert!(text(&output.stdout).starts_with("lease-sqlite/tests/faults.rs:1: missing;"), "{output:?}");
}

#[test]
fn tidy_says_why_it_cannot_look() {
    let root = tempfile::tempdir().unwrap();
    let output = tidy(root.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("not a git repository"), "{output:?}");
}

#[test]
fn a_release_without_a_dry_run_is_refused_with_the_order_to_publish_in() {
    let dependent =
        "[package]\nname = \"lease-core\"\nMANIFEST[dependencies]\nlease-sqlite.workspace = true\n";
    let root = planted(Some(("lease-core/Cargo.toml", dependent)));
    let output = xtask(root.path(), &["release"], Path::new(env!("CARGO"))).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    let [sqlite, core] = ["lease-sqlite", "lease-core"]
        .map(|name| said.find(&format!("cargo publish --locked --package {name}\n")).unwrap());
    assert!(sqlite < core && said.contains("publishing is done by hand"), "{said}");
    assert!(!root.path().join("target").exists(), "nothing is built");
}

/// A cargo that writes down what it was asked, and fails with code 3 when that contains `fails`.
struct FakeCargo {
    root: TempDir,
    fails: &'static str,
}

impl FakeCargo {
    fn that_fails(fails: &'static str) -> Self {
        Self { root: planted(None), fails }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        // A tracked script: one written just now may still be open in a child of another test's.
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake-cargo.sh");
        let mut xtask = xtask(self.root.path(), arguments, &script);
        xtask.env("FAKE_CARGO_FAILS", self.fails).env("FAKE_CARGO_ASKED", self.root.path().join("asked"));
        xtask
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn asked(&self) -> Vec<String> {
        let asked = fs::read_to_string(self.root.path().join("asked")).unwrap_or_default();
        asked.lines().filter(|line| !line.contains("--version")).map(ToOwned::to_owned).collect()
    }
}

#[test]
fn the_tests_end_with_the_first_step_that_fails_and_its_exit_code() {
    let cargo = FakeCargo::that_fails("--doc");
    let output = cargo.run(&["test", "renewal", "--", "--nocapture"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(cargo.asked(), ["test --locked --workspace --doc renewal -- --nocapture"]);
    assert!(text(&output.stderr).contains("documentation tests failed after"), "{output:?}");
}

#[test]
fn the_arguments_of_the_test_programs_alone_reach_them() {
    let cargo = FakeCargo::that_fails("nothing");
    let output = cargo.run(&["test", "--", "--nocapture"]);
    assert!(output.status.success(), "{output:?}");
    let asked = cargo.asked();
    assert_eq!(asked[0], "test --locked --workspace --doc -- --nocapture");
    // Beside those of the workspace, those of the program that is no member of it.
    let [documentation, whole, apart] = &asked[1..] else { panic!("{asked:?}") };
    assert!(whole.starts_with("test --locked --workspace --lib "), "{whole}");
    let of_beside_others =
        "test --locked --manifest-path examples/beside-others/Cargo.toml --target-dir target";
    assert_eq!(*documentation, format!("{of_beside_others} --doc -- --nocapture"));
    assert!(apart.starts_with(of_beside_others), "{apart}");
    assert!(text(&output.stdout).ends_with("told --nocapture\n"), "{output:?}");
}

#[test]
fn a_whole_run_shows_what_each_program_said_and_names_those_that_failed() {
    let cargo = FakeCargo::that_fails("nothing");
    let output = cargo.command(&["test"]).env("FAKE_PROGRAM_FAILS", "yes").output().unwrap();
    assert_eq!(output.status.code(), Some(101), "{output:?}");
    assert!(text(&output.stdout).contains("Running lease-core test fake ("), "{output:?}");
    assert!(text(&output.stdout).contains("told \n"), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("lease-core test fake: test a has been running for over 60 seconds\n"), "{said}");
    for name in ["lease-core", "beside-others"] {
        assert!(said.contains(&format!("{name} test fake: failed: exit status: 7\n")), "{name}: {said}");
    }
    assert!(said.ends_with(" test fake: failed: exit status: 7\n"), "{said}");
}

#[test]
fn tests_that_cannot_be_built_end_the_run_with_the_exit_code_of_cargo() {
    let cargo = FakeCargo::that_fails("--no-run");
    let output = cargo.run(&["test"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(text(&output.stderr).contains("the tests cannot be built"), "{output:?}");
}

#[test]
fn a_backend_is_tested_alone_and_chosen_before_the_arguments_of_cargo_test() {
    let cargo = FakeCargo::that_fails("nothing");
    let output = cargo.run(&["test", "--backend", "mariadb", "renewal"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(cargo.asked(), ["test --locked -p lease-mysql renewal -- --skip mysql::"]);

    let output = cargo.run(&["test", "renewal", "--backend", "mariadb"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("write --backend before"), "{output:?}");
    assert_eq!(cargo.asked().len(), 1);
}

#[test]
fn the_tests_are_told_of_a_server_that_ends_with_the_run() {
    // In a target of its own, lest it finds the server that `db up` keeps in ours.
    let target = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::write(target.path().join("CACHEDIR.TAG"), "").unwrap();
    let program = target.path().join("xtask");
    fs::hard_link(env!("CARGO_BIN_EXE_xtask"), &program).unwrap();

    let cargo = FakeCargo::that_fails("nothing");
    let as_usual = cargo.command(&["test", "--backend", "postgres"]);
    let mut command = Command::new(&program);
    command.args(as_usual.get_args()).env_remove(Product::Postgres.variable());
    let variables = as_usual.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.envs(variables.filter(|(name, _)| *name != Product::Postgres.variable()));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(cargo.asked(), ["test --locked -p lease-postgres"]);

    let url = fs::read_to_string(cargo.root.path().join("asked.url")).unwrap();
    let port = url.trim_end().strip_prefix("postgres://postgres@127.0.0.1:").unwrap();
    let port: u16 = port.strip_suffix("/postgres").unwrap().parse().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("servers: PostgreSQL ") && said.contains(url.trim_end()), "{said}");
    let refused = TcpStream::connect(("127.0.0.1", port)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(fs::read_dir(target.path().join("test-servers/run")).unwrap().count(), 1, "its lock alone");
}

#[test]
fn ci_runs_every_check_also_when_one_fails() {
    let cargo = FakeCargo::that_fails("clippy --locked --workspace");
    let output = cargo.run(&["ci", "--no-test"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let asked = cargo.asked();
    let commands: Vec<&str> = asked.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(
        commands,
        ["fmt", "fmt", "clippy", "clippy", "clippy", "clippy", "test", "doc", "doc", "doc", "tree"]
    );
    let summary = "xtask: failed: clippy; passed: format, format of beside-others, lease-sqlite on the \
                   system's SQLite, lease-core without features, beside-others, races, docs, docs of private items, public API, tidy\n";
    assert!(text(&output.stderr).ends_with(summary), "{output:?}");
}

#[test]
fn ci_checks_beside_the_tests_which_have_the_last_word() {
    let cargo = FakeCargo::that_fails("nothing");
    assert!(cargo.run(&["ci", "--no-test"]).status.success());
    let asked = cargo.asked();
    let tests: Vec<_> = asked.iter().filter(|line| line.starts_with("test")).collect();
    assert!(
        matches!(tests[..], [races] if races.ends_with(" --target-dir target/shuttle races")),
        "{tests:?}"
    );
    let output = cargo.run(&["ci"]);
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    let [checks, program] = ["Running cargo xtask ci --no-test (", " test fake ("]
        .map(|head| said.rfind(head).unwrap_or_else(|| panic!("{head}: {said}")));
    assert!(checks < program && said.ends_with("told \n"), "{said}");
}

#[test]
fn a_whole_run_has_the_tests_of_the_program_that_is_a_workspace_of_its_own() {
    let output = FakeCargo::that_fails("nothing").run(&["test"]);
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    for head in ["Running lease-core test fake (", "Running beside-others test fake ("] {
        assert!(said.contains(head), "{head}: {said}");
    }
}

#[test]
fn a_change_of_what_the_libraries_offer_is_shown_and_fails_unless_it_is_written() {
    let cargo = FakeCargo::that_fails("nothing");
    let listing = cargo.root.path().join("docs/public-api.txt");
    let before = fs::read_to_string(&listing).unwrap();
    fs::write(
        &listing,
        before.replace("pub mod lease_core\n", "pub mod lease_core\npub mod lease_core::gone\n"),
    )
    .unwrap();
    let output = cargo.run(&["api"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("\nlease-core: - pub mod lease_core::gone\n"), "{output:?}");
    assert!(cargo.run(&["api", "--write"]).status.success());
    assert_eq!(fs::read_to_string(&listing).unwrap(), before);
}

#[test]
fn a_listing_made_by_another_rust_is_refused_with_the_one_to_make_it_by() {
    let cargo = FakeCargo::that_fails("nothing");
    let output = cargo.command(&["api"]).env("FAKE_RUSTDOC_FORMAT", "58").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("in format 58, and we read format 57, that of Rust 1.95: `rustup toolchain"),
        "{said}"
    );
}

#[test]
fn what_an_earlier_run_left_is_not_taken_for_what_the_libraries_offer() {
    let cargo = FakeCargo::that_fails("nothing");
    assert!(cargo.run(&["api"]).status.success());
    let output = cargo.command(&["api"]).env("FAKE_RUSTDOC_WRITES", "nothing").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("rustdoc wrote nothing of lease-core to "), "{output:?}");
}

#[test]
fn a_check_that_fails_beside_the_tests_is_said_last_and_fails_the_run() {
    let output = FakeCargo::that_fails("clippy --locked --workspace").run(&["test", "--checks"]);
    assert_eq!(output.status.code(), Some(101), "{output:?}");
    assert!(
        text(&output.stderr).ends_with("cargo xtask ci --no-test: failed: exit status: 1\n"),
        "{output:?}"
    );
    assert!(text(&output.stdout).contains("xtask: failed: clippy; passed: "), "{output:?}");
    let part = FakeCargo::that_fails("nothing").run(&["test", "--checks", "renewal"]);
    assert!(text(&part.stderr).contains("--checks belongs to"), "{part:?}");
}

#[test]
fn ci_says_which_component_is_missing_before_it_begins() {
    let cargo = FakeCargo::that_fails("fmt --version");
    let output = cargo.run(&["ci"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("rustup component add rustfmt"), "{output:?}");
    assert_eq!(cargo.asked(), [""; 0]);
}
