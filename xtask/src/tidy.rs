//! `cargo xtask tidy`: the rules of the house that no compiler knows.
//!
//! A check is a plain function from the [`Tree`] to its findings, and each has a test that plants
//! what it must find. A check that must look at a certain file says so when the file is gone, lest
//! it pass for want of anything to look at.

mod backends;
mod core_sql;
mod crates;
mod leftovers;
mod links;
mod logged;
mod machine;
mod manifest;
mod places;
mod published;
mod rust;
mod text;
mod tree;

use std::io::{self, Write};
use std::path::Path;

use crate::step::{Failure, say};
use tree::{Finding, Tree};

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    places::the_renewal_machine_is_pure,
    places::tasks_and_waits_stay_in_their_files,
    core_sql::no_sql_in_core,
    core_sql::no_driver_below_core,
    crates::the_rust_versions_agree,
    crates::every_crate_has_its_manifest_fields,
    crates::every_crate_has_its_readme,
    published::nothing_else_is_published,
    published::one_version_for_all,
    published::published_crates_need_published_ones,
    published::published_crates_have_the_licences,
    published::published_crates_have_a_changelog,
    backends::the_same_files,
    backends::the_same_statements,
    leftovers::no_leftovers,
    machine::no_path_of_a_machine,
    machine::no_registry_host,
    links::no_dead_links,
    logged::every_event_is_documented,
    text::no_long_sources,
    text::no_ragged_lines,
];

/// Prints every finding; fails if there is one.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let tree = Tree::of_git(root)?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.sort();
    let checks = CHECKS.len();
    if findings.is_empty() {
        say(&format!("tidy: {checks} checks, no findings"));
        return Ok(());
    }
    let mut out = io::stdout().lock();
    for finding in &findings {
        // A reader that has seen enough (`| head`) may close the pipe.
        if writeln!(out, "{finding}").is_err() {
            break;
        }
    }
    Err(Failure::new(format!("tidy: {checks} checks, findings: {}", findings.len())))
}
