//! The list of cases, for runners of one's own.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use lease_testkit::{Case, cases, run_case};

use common::OnMemory;

async fn memory() -> OnMemory {
    OnMemory::new(|memory, _| Arc::new(memory))
}

#[test]
fn every_case_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = cases().iter().map(Case::name).collect();
    assert_eq!(names.len(), cases().len());
    assert!(names.contains("claim::a_held_name_is_refused_and_its_row_stays"));
}

#[tokio::test]
async fn a_case_runs_by_its_name() {
    run_case("claim::a_held_name_is_refused_and_its_row_stays", memory).await;
}

#[tokio::test]
#[should_panic(expected = "the suite has no case \"claim::nothing\"")]
async fn a_name_that_no_case_has_fails() {
    run_case("claim::nothing", memory).await;
}
