//! The one table of all cases: a body that is missing here is dead code.

/// Hands the table to the macro named in parentheses.
#[doc(hidden)]
#[macro_export]
macro_rules! __for_all_guard_cases {
    (($($then:tt)+)) => {
        $($then)+! {
            begin {
                a_lease_taken_over_is_lost
                a_released_lease_is_lost
                a_cleared_lease_is_lost
                an_expired_lease_is_lost
                a_lease_whose_row_was_deleted_is_lost
                a_lease_past_its_deadline_here_is_lost
                a_lease_given_up_here_is_lost
            }
            commit {
                what_is_written_is_seen_after_the_commit_and_not_before
                a_transaction_that_writes_nothing_commits
                transactions_one_after_the_other_commit
            }
            undone {
                a_transaction_rolled_back_leaves_nothing
                a_dropped_transaction_leaves_nothing
                a_dropped_transaction_keeps_no_successor_out
                a_write_dropped_midway_leaves_nothing_and_keeps_no_successor_out
                a_begin_dropped_midway_keeps_no_successor_out
                a_commit_dropped_midway_is_whole_or_nothing_and_before_a_successor
            }
            fence {
                a_claim_as_observed_is_kept_out_or_the_commit_refused
                a_claim_after_a_release_is_kept_out_or_the_commit_refused
                a_claim_after_a_clear_is_kept_out_or_the_commit_refused
                a_claim_after_an_expiry_before_the_writes_is_kept_out_or_the_commit_refused
                a_claim_after_an_expiry_before_the_commit_is_kept_out_or_the_commit_refused
                a_claim_during_the_commit_comes_before_or_after_it
            }
            renewing {
                a_renewal_passes_beside_an_open_transaction
                a_lease_is_renewed_after_a_commit_and_after_a_rollback
                renewals_and_transactions_at_once_lose_nothing
                a_deadline_moves_with_the_expiry_and_not_alone
            }
            lost_here {
                past_the_deadline_nothing_is_committed
                under_a_lease_given_up_nothing_is_committed
                a_name_given_up_in_a_transaction_is_given_back
                a_lease_past_its_deadline_ends_the_session
                a_lease_given_up_ends_the_session_and_frees_the_name_then
            }
            together {
                two_transactions_of_a_lease_commit
                the_loss_of_one_lease_is_not_the_others
            }
            takeover {
                no_note_of_an_earlier_term_appears_after_a_grant
            }
        }
    };
}

/// Makes a test of every case of the guard suite, in a module for each part of the promise:
/// the runner shows `fence::a_claim_as_observed_is_kept_out_or_the_commit_refused`.
///
/// It takes the path of a function that makes a [`GuardSubject`](crate::GuardSubject) for one case:
/// `async fn() -> impl GuardSubject`. It may stand beside [`suite!`](crate::suite!) in one module, and needs what
/// that needs.
#[macro_export]
macro_rules! guard_suite {
    ($setup:expr) => {
        /// Runs a case on a subject of its own.
        async fn __run_guard_case(name: &str) {
            $crate::run_guard_case(name, $setup).await;
        }

        $crate::__for_all_guard_cases! { ($crate::__guard_tests) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __guard_tests {
    ($($part:ident { $($case:ident)* })*) => {
        $(mod $part {
            $(
                #[::tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::__run_guard_case(concat!(stringify!($part), "::", stringify!($case))).await;
                }
            )*
        })*
    };
}
