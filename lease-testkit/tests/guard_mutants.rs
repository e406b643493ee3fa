//! The guard suite tests itself: each deliberately broken guard names the cases that must catch it, and
//! each case is named by a guard that it catches.

mod guarded;

use std::collections::BTreeSet;
use std::time::Duration;

use lease_testkit::{GuardCase, guard_cases, run_guard_case};
use tokio::time::timeout;

use guarded::{Broken, Guarded, Shape};

/// By the test's clock, which moves on when nothing is left to do.
const PATIENCE: Duration = Duration::from_secs(600);

/// Whether the guard passes the case.
async fn passes(case: GuardCase, guard: Guarded) -> bool {
    let ended = timeout(PATIENCE, tokio::spawn(async move { case.run(guard).await })).await;
    ended.expect("every case has an end").is_ok()
}

/// Holds each of the cases to pass on the healthy guard and to fail on the broken one.
async fn is_caught(shape: Shape, broken: Broken, names: &[&str]) {
    for name in names {
        let case = *guard_cases()
            .iter()
            .find(|case| case.name() == *name)
            .unwrap_or_else(|| panic!("no case {name:?} is left in the guard suite to catch {broken:?}"));
        assert!(passes(case, Guarded::new(shape, None)).await, "{name} on the healthy guard");
        assert!(!passes(case, Guarded::new(shape, Some(broken))).await, "{name} did not catch {broken:?}");
    }
}

#[test]
fn every_case_of_the_guard_suite_catches_a_broken_guard() {
    let idle: Vec<&str> =
        guard_cases().iter().map(GuardCase::name).filter(|name| !NAMED.contains(name)).collect();
    assert!(idle.is_empty(), "no broken guard shows that these cases can fail: {idle:#?}");
}

#[test]
fn every_case_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = guard_cases().iter().map(GuardCase::name).collect();
    assert_eq!(names.len(), guard_cases().len());
}

#[tokio::test]
#[should_panic(expected = "the guard suite has no case \"fence::nothing\"")]
async fn a_name_that_no_case_has_fails() {
    run_guard_case("fence::nothing", || async { Guarded::new(Shape::AtCommit, None) }).await;
}

macro_rules! mutants {
    ($($test:ident: $broken:ident in $($shape:ident)|+, [$($case:literal),* $(,)?];)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $test() {
                for shape in [$(Shape::$shape),+] {
                    is_caught(shape, Broken::$broken, &[$($case),*]).await;
                }
            }
        )*

        /// The cases that the mutants name.
        const NAMED: &[&str] = &[$($($case),*),*];
    };
}

mutants! {
    the_lease_is_never_looked_at_before_the_work: NeverVerifies in AtCommit, [
        "begin::a_lease_taken_over_is_lost",
        "begin::a_released_lease_is_lost",
        "begin::a_cleared_lease_is_lost",
        "begin::an_expired_lease_is_lost",
        "begin::a_lease_whose_row_was_deleted_is_lost",
    ];
    the_lease_is_looked_at_before_the_work_alone: OnlyBeginVerifies in AtCommit, [
        "fence::a_claim_as_observed_is_kept_out_or_the_commit_refused",
        "fence::a_claim_after_a_release_is_kept_out_or_the_commit_refused",
        "fence::a_claim_after_a_clear_is_kept_out_or_the_commit_refused",
        "fence::a_claim_after_an_expiry_before_the_writes_is_kept_out_or_the_commit_refused",
        "fence::a_claim_after_an_expiry_before_the_commit_is_kept_out_or_the_commit_refused",
        "fence::a_claim_during_the_commit_comes_before_or_after_it",
        "takeover::no_note_of_an_earlier_term_appears_after_a_grant",
    ];
    the_lease_is_looked_at_and_then_committed: GapInCommit in AtCommit, [
        "fence::a_claim_during_the_commit_comes_before_or_after_it",
        "takeover::no_note_of_an_earlier_term_appears_after_a_grant",
    ];
    the_successor_is_let_in_before_the_commit: UnlocksBeforeCommit in FromBegin, [
        "fence::a_claim_during_the_commit_comes_before_or_after_it",
        "takeover::no_note_of_an_earlier_term_appears_after_a_grant",
    ];
    the_only_writer_lets_others_in_before_the_commit: UnlocksBeforeCommit in OneWriter, [
        "fence::a_claim_during_the_commit_comes_before_or_after_it",
    ];
    a_refused_commit_is_called_committed: SaysCommitted in AtCommit, [
        "fence::a_claim_as_observed_is_kept_out_or_the_commit_refused",
        "takeover::no_note_of_an_earlier_term_appears_after_a_grant",
    ];
    a_refused_commit_leaves_a_part: LosesAPart in AtCommit, [
        "fence::a_claim_after_a_release_is_kept_out_or_the_commit_refused",
        "takeover::no_note_of_an_earlier_term_appears_after_a_grant",
    ];
    a_refused_commit_takes_place_later: CommitsLater in AtCommit, [
        "fence::a_claim_as_observed_is_kept_out_or_the_commit_refused",
        "takeover::no_note_of_an_earlier_term_appears_after_a_grant",
    ];
    a_successor_hangs: SuccessorHangs in FromBegin, ["fence::a_claim_as_observed_is_kept_out_or_the_commit_refused"];
    a_writer_hangs_beside_the_only_one: SuccessorHangs in OneWriter, [
        "fence::a_claim_after_a_release_is_kept_out_or_the_commit_refused",
        "renewing::a_renewal_passes_beside_an_open_transaction",
    ];
    a_lost_lease_is_called_a_failure: LossIsFailure in AtCommit, ["begin::a_released_lease_is_lost"];
    contention_is_called_loss: ContentionIsLoss in OneWriter, ["together::two_transactions_of_a_lease_commit"];
    work_begins_though_the_process_knows_of_the_loss: BeginsThoughLostHere in AtCommit, [
        "begin::a_lease_past_its_deadline_here_is_lost",
        "begin::a_lease_given_up_here_is_lost",
    ];
    work_is_committed_though_the_process_knows_of_the_loss: CommitsThoughLostHere in FromBegin, [
        "lost_here::past_the_deadline_nothing_is_committed",
        "lost_here::under_a_lease_given_up_nothing_is_committed",
    ];
    writes_are_seen_at_once: WritesAtOnce in AtCommit, [
        "commit::what_is_written_is_seen_after_the_commit_and_not_before",
        "undone::a_dropped_transaction_leaves_nothing",
    ];
    a_commit_leaves_a_part: CommitsAPart in AtCommit, ["commit::what_is_written_is_seen_after_the_commit_and_not_before"];
    a_commit_of_nothing_fails: EmptyCommitFails in AtCommit, ["commit::a_transaction_that_writes_nothing_commits"];
    a_rollback_commits: RollbackCommits in AtCommit, ["undone::a_transaction_rolled_back_leaves_nothing"];
    a_drop_commits: DropCommits in AtCommit, ["undone::a_dropped_transaction_leaves_nothing"];
    a_commit_keeps_its_locks: KeepsLocksAfterCommit in OneWriter, [
        "commit::transactions_one_after_the_other_commit",
        "renewing::a_lease_is_renewed_after_a_commit_and_after_a_rollback",
    ];
    a_drop_keeps_its_locks: KeepsLocksAfterDrop in FromBegin, ["undone::a_dropped_transaction_keeps_no_successor_out"];
    the_only_writer_keeps_its_locks_when_dropped: KeepsLocksAfterDrop in OneWriter, [
        "undone::a_dropped_transaction_leaves_nothing",
    ];
    a_begin_that_is_dropped_keeps_its_locks: LocksBeforeItsSession in FromBegin, [
        "undone::a_begin_dropped_midway_keeps_no_successor_out",
    ];
    a_commit_that_is_dropped_goes_on_without_its_fence: CommitOutlivesItsDrop in AtCommit, [
        "undone::a_commit_dropped_midway_is_whole_or_nothing_and_before_a_successor",
    ];
    renewals_are_kept_out: RenewalsBlocked in FromBegin, ["renewing::a_renewal_passes_beside_an_open_transaction"];
    a_renewal_ends_the_transaction: RenewalEndsIt in AtCommit, [
        "renewing::renewals_and_transactions_at_once_lose_nothing",
    ];
    a_commit_releases_the_lease: CommitReleases in AtCommit, [
        "commit::transactions_one_after_the_other_commit",
        "renewing::a_lease_is_renewed_after_a_commit_and_after_a_rollback",
    ];
    a_name_given_up_is_kept: KeepsTheName in AtCommit, ["lost_here::a_name_given_up_in_a_transaction_is_given_back"];
    the_loss_of_one_lease_is_called_that_of_all: LossSpreads in AtCommit, [
        "together::the_loss_of_one_lease_is_not_the_others",
    ];
    a_commit_beside_a_loss_leaves_a_part: CommitsAPart in AtCommit | FromBegin | OneWriter, [
        "together::the_loss_of_one_lease_is_not_the_others",
    ];
    // Where there is one writer, the program may be the only one to end its transaction.
    a_loss_ends_no_session: LossEndsNothing in AtCommit | FromBegin, [
        "lost_here::a_lease_past_its_deadline_ends_the_session",
        "lost_here::a_lease_given_up_ends_the_session_and_frees_the_name_then",
    ];
    what_is_sent_after_the_end_is_written: WritesAfterItsEnd in AtCommit | FromBegin | OneWriter, [
        "lost_here::a_lease_past_its_deadline_ends_the_session",
        "lost_here::a_lease_given_up_ends_the_session_and_frees_the_name_then",
    ];
    a_name_is_free_before_its_session_ends: FreesEarly in AtCommit | FromBegin | OneWriter, [
        "lost_here::a_lease_given_up_ends_the_session_and_frees_the_name_then",
    ];
    a_successor_is_not_answered: SuccessorTimesOut in FromBegin, [
        "fence::a_claim_as_observed_is_kept_out_or_the_commit_refused",
        "fence::a_claim_after_a_release_is_kept_out_or_the_commit_refused",
        "fence::a_claim_after_an_expiry_before_the_commit_is_kept_out_or_the_commit_refused",
    ];
    a_loss_at_the_commit_is_called_a_failure: LossIsFailureAtCommit in AtCommit, [
        "fence::a_claim_as_observed_is_kept_out_or_the_commit_refused",
        "fence::a_claim_after_a_release_is_kept_out_or_the_commit_refused",
        "fence::a_claim_after_a_clear_is_kept_out_or_the_commit_refused",
    ];
    a_loss_at_the_commit_is_called_unknown: LossIsUnknownAtCommit in AtCommit, [
        "fence::a_claim_as_observed_is_kept_out_or_the_commit_refused",
        "fence::a_claim_after_a_release_is_kept_out_or_the_commit_refused",
        "fence::a_claim_after_a_clear_is_kept_out_or_the_commit_refused",
    ];
    a_renewal_is_the_processs_alone: RenewsOnlyHere in AtCommit | FromBegin | OneWriter, [
        "renewing::a_deadline_moves_with_the_expiry_and_not_alone",
    ];
    the_only_writer_carries_no_renewal: RenewsNothing in OneWriter, [
        "renewing::a_deadline_moves_with_the_expiry_and_not_alone",
    ];
    a_commit_that_is_dropped_leaves_a_part: DroppedCommitLeavesPart in AtCommit | FromBegin | OneWriter, [
        "undone::a_commit_dropped_midway_is_whole_or_nothing_and_before_a_successor",
    ];
    a_write_is_for_good_though_dropped: WritesAtOnce in AtCommit | FromBegin | OneWriter, [
        "undone::a_write_dropped_midway_leaves_nothing_and_keeps_no_successor_out",
    ];
    a_drop_in_a_write_keeps_its_locks: KeepsLocksAfterDrop in FromBegin | OneWriter, [
        "undone::a_write_dropped_midway_leaves_nothing_and_keeps_no_successor_out",
    ];
    every_transaction_fails_beside_renewals: FailsAfterRenewals in AtCommit | FromBegin | OneWriter, [
        "renewing::renewals_and_transactions_at_once_lose_nothing",
    ];
}
