//! The one table of all cases: a body that is missing here is dead code.

/// Hands the table to the macro named in parentheses.
#[doc(hidden)]
#[macro_export]
macro_rules! __for_all_cases {
    (($($then:tt)+)) => {
        $($then)+! {
            migrate {
                a_migrated_table_passes_the_check
                a_store_describes_itself_in_one_line_and_names_a_least_ttl
                migrating_again_keeps_every_row
                a_check_changes_nothing
                eight_that_migrate_at_once_beside_claims_keep_every_row
                eight_that_make_a_new_table_at_once_make_one
                a_missing_table_fails_the_check_until_it_is_made
                without_the_table_every_statement_is_an_error_and_none_an_answer
            }
            claim {
                a_new_name_is_granted_under_term_1
                a_grant_writes_every_column_by_the_databases_clock
                a_held_name_is_refused_and_its_row_stays
                a_refused_claim_holds_nothing
                the_term_rises_by_one_after_a_release
                the_term_rises_by_one_after_a_clear
                the_term_rises_by_one_after_an_expiry
                the_term_rises_only_with_grants
                the_term_of_the_answer_is_the_one_in_the_row
                a_grant_replaces_all_of_the_former_holders_columns
                a_plain_claim_leaves_the_slots
                identity_texts_of_191_bytes_are_kept_whole
                a_ttl_is_kept_to_the_millisecond
                a_name_whose_row_was_deleted_is_a_new_name
                a_term_at_its_limit_fails_every_claim_and_stays
            }
            names {
                that_differ_in_case_are_apart
                that_differ_in_an_accent_are_apart
                that_differ_in_normalization_are_apart
                that_a_collation_expands_or_folds_are_apart
                that_differ_in_trailing_characters_are_apart
                that_differ_in_inner_spaces_are_apart
                that_share_190_bytes_are_apart
                of_191_bytes_in_wide_characters_are_kept_whole
                beyond_the_basic_plane_are_apart
                with_wildcards_are_plain_text
                with_quotes_and_statements_are_plain_text
            }
            renew {
                a_renewal_moves_expiry_and_heartbeat_by_the_databases_clock
                a_renewal_lasts_as_long_as_it_asks
                a_renewal_keeps_a_lease_beyond_the_ttl_of_its_claim
                renewals_within_one_millisecond_are_not_lost
                a_lease_is_not_renewed_for_another_holder
                an_expired_lease_is_lost_and_stays_expired
                a_released_lease_is_lost_and_stays_free
                a_cleared_lease_is_lost_and_stays_free
                a_lease_taken_over_is_lost_to_its_former_holder_for_good
                a_name_never_claimed_is_lost_and_gets_no_row
                a_deleted_row_is_not_made_again
                a_second_process_renews_by_the_token_alone
                only_the_lease_named_is_renewed
                every_renewal_says_that_a_step_down_was_asked
            }
            renew_many {
                an_empty_batch_has_an_empty_answer
                a_batch_of_one_renews_it
                a_batch_of_a_thousand_renews_each
                answers_come_in_the_order_asked_and_only_held_rows_change
                a_batch_of_lost_leases_renews_none
                a_name_twice_in_a_batch_is_answered_by_its_holder
                holders_swapped_between_two_names_renew_neither
                batches_within_one_millisecond_are_not_lost
                a_step_down_is_told_for_the_lease_it_was_asked_of
                only_the_leases_named_are_renewed
            }
            verify {
                a_held_lease_is_held_under_its_term
                a_lease_of_another_holder_is_lost
                an_expired_lease_is_lost
                a_released_lease_is_lost_also_after_a_successor_came
                a_missing_row_is_lost
                verifying_changes_nothing
            }
            release {
                a_release_frees_the_name_and_changes_nothing_else
                a_release_can_be_repeated
                an_expired_lease_can_be_released
                another_holders_lease_is_never_released
                a_successors_lease_is_never_released
                a_missing_row_is_gone_and_stays_missing
                only_the_lease_named_is_released
            }
            observed {
                a_live_lease_unchanged_since_is_taken
                an_expired_and_a_released_row_unchanged_since_are_taken
                slots_stay_as_with_a_plain_claim
                a_lease_renewed_since_is_left_alone
                a_lease_released_since_is_left_alone
                a_lease_claimed_since_is_left_alone
                the_holder_must_be_the_one_observed
                the_expiry_must_be_the_one_observed
                a_missing_row_has_moved_and_stays_missing
                only_the_lease_named_is_taken
            }
            clear {
                a_live_lease_unchanged_since_is_freed_and_nothing_else_changes
                an_expired_lease_unchanged_since_is_freed
                a_free_row_observed_as_free_is_cleared_again
                a_lease_renewed_since_is_left_alone
                a_lease_released_or_cleared_since_is_left_alone
                a_lease_claimed_since_is_left_alone
                the_holder_must_be_the_one_observed
                the_expiry_must_be_the_one_observed
                a_missing_row_has_moved_and_stays_missing
                only_the_lease_named_is_freed
            }
            resign {
                the_holder_of_the_term_learns_of_it_and_keeps_the_lease
                a_request_can_be_repeated
                another_term_has_moved_and_nothing_changes
                a_request_concerns_no_later_term
                a_missing_row_has_moved_and_stays_missing
                only_the_lease_named_is_asked
            }
            inspect {
                a_name_never_claimed_has_no_row
                a_row_reads_the_same_from_every_process
                reading_changes_nothing
                a_row_is_read_with_the_databases_clock
                two_processes_read_one_clock
            }
            list {
                rows_come_in_order_of_the_bytes_of_their_names
                only_names_that_begin_with_the_prefix_are_listed
                wildcards_in_a_prefix_are_plain_text
                quotes_in_a_prefix_are_plain_text
                a_prefix_is_compared_byte_by_byte
                a_prefix_of_the_last_characters_there_are_is_a_prefix
                a_prefix_longer_than_any_name_lists_nothing
                pages_put_together_are_the_whole_list
                a_listing_continues_after_a_name_that_has_no_row
                an_empty_prefix_lists_names_whatever_they_begin_with
                the_limit_holds_from_nothing_to_the_most
                rows_are_listed_as_they_are_inspected_held_or_free
            }
            slot {
                a_new_name_is_granted_and_the_slot_recorded_as_unfinished
                a_free_name_is_granted_under_the_next_term
                an_expired_name_is_granted_and_its_cut_short_instant_given_up
                a_held_name_is_refused_for_a_later_slot
                an_instant_is_claimed_once_while_its_round_runs_and_ever_after
                an_instant_cut_short_is_not_claimed_again_as_a_slot
                an_instant_before_the_last_is_passed_held_or_free
                instants_a_millisecond_apart_are_two
                an_instant_that_has_not_come_is_refused_with_the_wait
                an_instant_in_the_last_millisecond_of_all_is_far_away
                an_instant_that_has_not_come_changes_no_row_held_or_free
                an_instant_is_granted_once_the_databases_clock_reaches_it
                a_finished_round_is_not_given_up
                a_round_given_up_after_its_rerun_is_named_as_rerun
                a_round_whose_lease_a_plain_claim_took_is_given_up_by_the_next_slot
                an_instant_skipped_by_the_former_round_is_passed
                an_instant_finished_at_once_is_refused_to_who_comes_when_the_ttl_has_passed
                a_round_is_a_lease_like_any_other
                only_the_name_asked_for_takes_the_slot
            }
            finish {
                a_held_round_ends_and_the_name_is_free
                an_end_can_be_recorded_again_with_the_same_answer
                a_round_that_expired_unclaimed_still_ends
                a_released_round_still_ends
                a_passed_instant_is_recorded_as_skipped
                a_passed_instant_not_later_than_the_last_is_ignored
                a_passed_instant_the_databases_clock_has_not_reached_is_ignored
                a_passed_instant_is_recorded_once_the_databases_clock_reaches_it
                a_lease_known_to_be_lost_is_not_given_back_but_its_end_recorded
                a_plain_successor_keeps_its_lease_and_the_end_is_recorded
                the_end_recorded_after_a_loss_says_so_once
                a_later_slot_claimed_meanwhile_stays_as_it_is
                a_later_slot_finished_meanwhile_is_not_reopened
                the_first_run_ends_its_instant_though_a_rerun_holds_the_lease
                a_rerun_ends_its_instant
                without_the_lease_only_the_unfinished_instant_itself_is_ended
                a_missing_row_has_nothing_to_record_and_stays_missing
                only_the_name_asked_for_is_ended
            }
            unfinished {
                no_names_have_no_unfinished_slots
                a_round_cut_short_is_found_released_or_expired
                a_round_that_runs_is_not_found
                a_round_whose_name_is_held_again_is_not_found
                a_finished_round_is_not_found
                a_round_cut_short_twice_is_not_found
                a_later_round_cut_short_is_found_though_an_earlier_one_was_rerun
                a_name_without_slots_is_not_found_claimed_or_not
                the_term_named_is_the_one_in_the_row
                only_the_names_asked_for_are_answered
                a_name_given_twice_is_answered_once
                a_thousand_names_are_asked_for_at_once
                asking_changes_nothing
            }
            rerun {
                a_round_cut_short_is_granted_and_recorded_as_rerun
                an_expired_round_is_granted
                a_round_is_rerun_once_whatever_is_observed_afterwards
                a_round_that_runs_is_not_rerun
                a_rerun_that_runs_is_not_rerun
                a_name_that_is_held_again_is_not_taken
                a_finished_round_is_not_rerun
                a_round_finished_by_its_lost_holder_is_not_rerun
                the_term_must_be_the_one_seen
                the_slot_must_be_the_one_seen
                a_round_with_a_later_slot_claimed_since_is_not_rerun
                a_name_without_slots_has_none_to_rerun
                a_missing_row_has_moved_and_stays_missing
                only_the_name_asked_for_is_rerun
            }
            last_slot {
                a_name_that_never_had_one_has_none
                the_last_instant_claimed_is_named_whatever_became_of_its_round
                a_skipped_instant_is_named
                asking_changes_nothing
            }
            notices {
                a_name_that_one_process_gives_back_is_heard_of_by_another_that_listens
                names_of_any_kind_can_be_told
                telling_changes_no_row_and_makes_none
            }
            race {
                a_new_name_has_one_winner
                sixty_four_new_names_claimed_at_once_are_all_granted
                sixty_four_claims_of_one_new_name_have_one_winner
                an_expired_name_has_one_winner
                a_released_name_has_one_winner
                an_observed_state_has_one_winner
                claims_of_every_kind_on_one_free_name_have_one_winner
                no_two_hold_at_once_and_no_term_repeats
                renewals_of_a_lease_from_two_processes_are_not_lost
                batches_in_opposite_orders_neither_fail_nor_lose_a_lease
                a_holder_renews_while_others_claim
            }
            slot_race {
                a_slot_of_a_new_name_has_one_winner
                a_slot_of_a_free_name_has_one_winner
                sixty_four_claims_of_one_slot_of_a_new_name_have_one_winner
                sixty_four_claims_of_one_slot_of_a_free_name_have_one_winner
                different_slots_of_a_name_have_one_winner
                a_rerun_has_one_winner
                sixty_four_reruns_of_one_round_have_one_winner
                an_instant_is_claimed_or_skipped_and_never_both
                each_instant_is_granted_once_to_eight_that_follow_one_schedule
            }
            pairs {
                on_a_held_name_act_one_after_the_other
                on_an_expired_name_act_one_after_the_other
                on_a_finished_name_act_one_after_the_other
                on_a_new_name_act_one_after_the_other
                three_about_a_running_round_act_one_after_the_other
                three_about_an_expired_round_act_one_after_the_other
            }
            dropped {
                a_write_on_a_held_name_takes_place_whole_or_not_at_all
                a_write_on_an_expired_name_takes_place_whole_or_not_at_all
                a_write_on_a_new_name_takes_place_whole_or_not_at_all
                a_claim_can_be_undone_by_releasing_its_token
                a_round_granted_without_anybody_knowing_is_still_to_be_had_once
                statements_in_great_number_leave_the_store_usable
            }
            model {
                random_statements_are_answered_as_the_reference_model_answers_them
            }
        }
    };
}

/// Makes a test of every case of the conformance suite, in a module for each part of the contract:
/// the runner shows `claim::a_held_name_is_refused_and_its_row_stays`.
///
/// It takes the path of a function that makes a [`Subject`](crate::Subject) for one case:
/// `async fn() -> impl Subject`. The tests are `#[tokio::test]`s on a runtime of several threads, so
/// the crate that calls this depends on `tokio` with the features `macros` and `rt-multi-thread`.
#[macro_export]
macro_rules! suite {
    ($setup:expr) => {
        /// Runs a case on a subject of its own.
        async fn __run_case(name: &str) {
            $crate::run_case(name, $setup).await;
        }

        $crate::__for_all_cases! { ($crate::__tests) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($($part:ident { $($case:ident)* })*) => {
        $(mod $part {
            $(
                #[::tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::__run_case(concat!(stringify!($part), "::", stringify!($case))).await;
                }
            )*
        })*
    };
}
