//! Completions and manual pages.

use std::fs;
use std::process::Command;

use crate::bench::{Bench, lease_file};

const SUBCOMMANDS: [&str; 12] = [
    "run",
    "status",
    "list",
    "watch",
    "clear",
    "resign",
    "slots",
    "migrate",
    "schema",
    "check",
    "completions",
    "man",
];

#[test]
fn every_shell_is_told_of_every_subcommand_and_of_no_other() {
    let bench = Bench::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = bench.run(&["completions", shell]).expect(0).out;
        for word in SUBCOMMANDS.into_iter().chain(["held-exit", "rerun"]) {
            assert!(script.contains(word), "{shell}: no {word}");
        }
        assert!(!script.contains("guardian"), "{shell}: the guardian is not for people");
    }
    assert!(bench.run(&["completions", "tcsh"]).expect_line(64).contains("bash"));
    let help = bench.run(&["--help"]).expect(0).out;
    assert!(help.contains("completions") && help.contains("  man "), "{help}");
}

/// What bash offers after these words, by the script itself.
fn offered(words: &[&str]) -> Vec<String> {
    let script = r#"
        source <("$0" completions bash) || exit 99
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _lease lease "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = Command::new("bash").args(["-c", script, lease_file()]).args(words).output();
    let output = output.expect("bash is wanted: on Debian and Ubuntu `sudo apt-get install bash`");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_subcommands_and_options() {
    assert_eq!(offered(&["lease", "res"]), ["resign"]);
    assert_eq!(offered(&["lease", "run", "--held"]), ["--held-exit"]);
    assert_eq!(offered(&["lease", "completions", "ba"]), ["bash"]);
}

#[test]
fn each_subcommand_has_a_page_that_names_it() {
    let bench = Bench::new();
    let page = bench.run(&["man"]).expect(0).out;
    for word in SUBCOMMANDS {
        let name = format!("lease\\-{word}(1)");
        assert!(page.contains(&name), "no {name}: {page}");
    }
    assert!(page.contains("LEASE_DATABASE_URL"), "{page}");

    fs::create_dir(bench.path("man1")).unwrap();
    bench.run(&["man", "--dir", "man1"]).expect(0);
    let pages: Vec<_> = fs::read_dir(bench.path("man1")).unwrap().flatten().collect();
    assert_eq!(pages.len(), SUBCOMMANDS.len() + 1, "{pages:?}");
    for word in SUBCOMMANDS {
        let page = fs::read_to_string(bench.path(&format!("man1/lease-{word}.1"))).unwrap();
        assert!(page.contains(&format!(".TH lease-{word} 1")), "{page}");
    }
    assert_eq!(fs::read_to_string(bench.path("man1/lease.1")).unwrap(), page);
    assert!(bench.run(&["man", "--dir", "missing"]).expect_line(71).contains("--dir"));
}
