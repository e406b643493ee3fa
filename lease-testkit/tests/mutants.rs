//! The suite tests itself: each deliberately broken store names the cases that must catch it, and
//! each case is named by a store that it catches.

mod common;

mod mutants {
    pub(crate) mod broken;
    pub(crate) mod caught;
    mod gates;
    mod mutant;

    mod leases;
    mod names;
    mod overlooked;
    mod reads;
    mod rows;
    mod slots;
}

use lease_testkit::{Case, cases};

use mutants::broken::Broken;
use mutants::caught::is_caught;

#[test]
fn every_case_of_the_suite_catches_a_broken_store() {
    let idle: Vec<&str> = cases().iter().map(Case::name).filter(|name| !NAMED.contains(name)).collect();
    assert!(idle.is_empty(), "no broken store shows that these cases can fail: {idle:#?}");
}

macro_rules! mutants {
    ($($test:ident: $broken:ident, [$($case:literal),* $(,)?];)*) => {
        $(
            // On one thread: see the gates.
            #[tokio::test]
            async fn $test() {
                is_caught(Broken::$broken, &[$($case),*]).await;
            }
        )*

        /// The cases that the mutants name.
        const NAMED: &[&str] = &[$($($case),*),*];
    };
}

mutants! {
    a_claim_does_not_raise_the_term: TermNotRaised, [
        "claim::the_term_rises_by_one_after_a_release",
        "race::no_two_hold_at_once_and_no_term_repeats",
    ];
    the_term_restarts_after_a_release: TermRestartsAfterRelease, ["claim::the_term_rises_by_one_after_a_release"];
    the_term_restarts_after_a_clear: TermRestartsAfterClear, ["claim::the_term_rises_by_one_after_a_clear"];
    the_term_restarts_after_an_expiry: TermRestartsAfterExpiry, ["claim::the_term_rises_by_one_after_an_expiry"];
    the_term_rises_with_refused_claims: TermRisesWhenRefused, [
        "claim::a_held_name_is_refused_and_its_row_stays",
        "claim::the_term_rises_only_with_grants",
        "race::a_holder_renews_while_others_claim",
    ];
    the_term_wraps_at_its_limit: TermWraps, ["claim::a_term_at_its_limit_fails_every_claim_and_stays"];
    a_damaged_row_is_called_held: DamageAsHeld, ["claim::a_term_at_its_limit_fails_every_claim_and_stays"];
    a_plain_claim_wipes_the_slots: ClaimWipesSlots, [
        "claim::a_plain_claim_leaves_the_slots",
        "slot::a_round_whose_lease_a_plain_claim_took_is_given_up_by_the_next_slot",
    ];
    a_claim_leaves_the_former_instance: ClaimKeepsInstance, ["claim::a_grant_replaces_all_of_the_former_holders_columns"];
    identity_texts_are_cut: IdentityCut, ["claim::identity_texts_of_191_bytes_are_kept_whole"];
    the_first_term_is_two: FirstTermIsTwo, [
        "claim::a_new_name_is_granted_under_term_1",
        "claim::a_name_whose_row_was_deleted_is_a_new_name",
    ];
    a_claim_goes_by_the_processs_clock: ClaimByOtherClock, [
        "claim::a_grant_writes_every_column_by_the_databases_clock",
        "inspect::a_row_is_read_with_the_databases_clock",
    ];
    a_claim_answers_the_former_term: AnswersFormerTerm, ["claim::the_term_of_the_answer_is_the_one_in_the_row"];
    the_ttl_is_kept_in_seconds: TtlInSeconds, ["claim::a_ttl_is_kept_to_the_millisecond"];

    names_are_truncated: NamesTruncated, [
        "names::that_share_190_bytes_are_apart",
        "names::of_191_bytes_in_wide_characters_are_kept_whole",
    ];
    names_are_folded_in_case: NamesFoldedInCase, [
        "names::that_differ_in_case_are_apart",
        "unfinished::only_the_names_asked_for_are_answered",
    ];
    accents_are_ignored: NamesFoldedInAccent, ["names::that_differ_in_an_accent_are_apart"];
    names_are_normalized: NamesNormalized, ["names::that_differ_in_normalization_are_apart"];
    trailing_characters_are_ignored: NamesTrimmed, ["names::that_differ_in_trailing_characters_are_apart"];
    inner_spaces_are_collapsed: NamesCollapsed, ["names::that_differ_in_inner_spaces_are_apart"];
    letters_are_expanded: NamesExpanded, ["names::that_a_collation_expands_or_folds_are_apart"];
    wide_characters_are_replaced: NamesWithoutWide, ["names::beyond_the_basic_plane_are_apart"];
    a_name_is_a_pattern: NameIsPattern, ["names::with_wildcards_are_plain_text"];
    quotes_are_collapsed: QuotesCollapsed, ["names::with_quotes_and_statements_are_plain_text"];

    the_insert_race_has_two_winners: TwoInsert, [
        "race::a_new_name_has_one_winner",
        "pairs::on_a_new_name_act_one_after_the_other",
    ];
    claims_fail_when_connections_run_out: CrowdFails, [
        "race::sixty_four_new_names_claimed_at_once_are_all_granted",
        "race::sixty_four_claims_of_one_new_name_have_one_winner",
        "slot_race::sixty_four_claims_of_one_slot_of_a_new_name_have_one_winner",
        "slot_race::sixty_four_claims_of_one_slot_of_a_free_name_have_one_winner",
        "slot_race::sixty_four_reruns_of_one_round_have_one_winner",
    ];
    claims_in_each_others_way_are_all_called_held: CrowdIsHeld, [
        "race::sixty_four_new_names_claimed_at_once_are_all_granted",
        "race::sixty_four_claims_of_one_new_name_have_one_winner",
        "slot_race::sixty_four_claims_of_one_slot_of_a_new_name_have_one_winner",
        "slot_race::sixty_four_claims_of_one_slot_of_a_free_name_have_one_winner",
        "slot_race::sixty_four_reruns_of_one_round_have_one_winner",
    ];
    a_slot_claim_ignores_the_term_it_read: SlotIgnoresTermRead, [
        "slot_race::a_slot_of_a_free_name_has_one_winner",
        "slot_race::sixty_four_claims_of_one_slot_of_a_free_name_have_one_winner",
        "slot_race::each_instant_is_granted_once_to_eight_that_follow_one_schedule",
    ];
    a_slot_claim_ignores_what_was_skipped_meanwhile: SlotIgnoresSkip, [
        "slot_race::an_instant_is_claimed_or_skipped_and_never_both",
        "pairs::on_an_expired_name_act_one_after_the_other",
        "pairs::three_about_an_expired_round_act_one_after_the_other",
    ];
    a_slot_claim_ignores_what_was_finished_meanwhile: SlotIgnoresEnd, [
        "pairs::on_an_expired_name_act_one_after_the_other",
        "pairs::three_about_an_expired_round_act_one_after_the_other",
    ];
    a_rerun_ignores_what_was_finished_meanwhile: RerunIgnoresEnd, [
        "pairs::on_an_expired_name_act_one_after_the_other",
        "pairs::three_about_an_expired_round_act_one_after_the_other",
    ];
    a_held_name_is_granted_again: HeldIsGranted, [
        "claim::a_held_name_is_refused_and_its_row_stays",
        "race::claims_of_every_kind_on_one_free_name_have_one_winner",
    ];
    a_claim_ignores_what_it_read: ClaimIgnoresWhatItRead, [
        "race::an_expired_name_has_one_winner",
        "race::a_released_name_has_one_winner",
        "pairs::on_an_expired_name_act_one_after_the_other",
        "pairs::on_a_finished_name_act_one_after_the_other",
    ];
    a_claim_as_observed_ignores_what_it_read: ObservedIgnoresWhatItRead, ["race::an_observed_state_has_one_winner"];
    the_insert_race_for_a_slot_has_two_winners: SlotTwoInsert, [
        "slot_race::a_slot_of_a_new_name_has_one_winner",
        "slot_race::sixty_four_claims_of_one_slot_of_a_new_name_have_one_winner",
        "pairs::on_a_new_name_act_one_after_the_other",
        "slot_race::different_slots_of_a_name_have_one_winner",
    ];
    a_rerun_ignores_what_it_read: RerunIgnoresWhatItRead, [
        "slot_race::a_rerun_has_one_winner",
        "slot_race::sixty_four_reruns_of_one_round_have_one_winner",
    ];
    batches_that_lock_each_other_fail: BatchesDeadlock, ["race::batches_in_opposite_orders_neither_fail_nor_lose_a_lease"];
    contention_is_called_loss: ContentionIsLoss, ["race::renewals_of_a_lease_from_two_processes_are_not_lost"];

    renew_reads_and_then_writes: RenewIsTwoSteps, ["pairs::on_a_held_name_act_one_after_the_other"];

    a_claim_is_written_in_two_steps: ClaimIsTwoSteps, ["dropped::a_write_on_an_expired_name_takes_place_whole_or_not_at_all"];
    a_claim_of_a_slot_is_written_in_two_steps: SlotIsTwoSteps, ["dropped::a_write_on_a_new_name_takes_place_whole_or_not_at_all"];
    dropped_statements_keep_their_connection: DroppedKeepsConnection, ["dropped::statements_in_great_number_leave_the_store_usable"];
    finish_is_written_in_two_steps: FinishIsTwoSteps, ["dropped::a_write_on_a_held_name_takes_place_whole_or_not_at_all"];

    renew_ignores_the_holder: RenewIgnoresHolder, [
        "renew::a_lease_is_not_renewed_for_another_holder",
        "claim::a_refused_claim_holds_nothing",
        "renew::a_lease_taken_over_is_lost_to_its_former_holder_for_good",
    ];
    renew_revives_an_expired_row: RenewRevivesExpired, ["renew::an_expired_lease_is_lost_and_stays_expired"];
    renew_revives_a_released_row: RenewRevivesReleased, [
        "renew::a_released_lease_is_lost_and_stays_free",
        "renew::a_cleared_lease_is_lost_and_stays_free",
    ];
    renew_makes_a_deleted_row_again: RenewRemakesRow, [
        "renew::a_deleted_row_is_not_made_again",
        "renew::a_name_never_claimed_is_lost_and_gets_no_row",
    ];
    renew_takes_no_change_for_no_row: RenewWithoutChangeIsLost, ["renew::renewals_within_one_millisecond_are_not_lost"];
    a_renewal_does_not_record_the_heartbeat: RenewSilently, ["renew::a_renewal_moves_expiry_and_heartbeat_by_the_databases_clock"];
    a_renewal_lasts_as_long_as_the_claim_did: RenewForClaimedTtl, [
        "renew::a_renewal_lasts_as_long_as_it_asks",
        "renew::a_renewal_keeps_a_lease_beyond_the_ttl_of_its_claim",
    ];
    only_the_claiming_session_renews: RenewWantsOwnSession, ["renew::a_second_process_renews_by_the_token_alone"];
    statements_touch_names_that_begin_alike: NeighboursTouched, [
        "renew::only_the_lease_named_is_renewed",
        "renew_many::only_the_leases_named_are_renewed",
        "release::only_the_lease_named_is_released",
        "observed::only_the_lease_named_is_taken",
        "clear::only_the_lease_named_is_freed",
        "resign::only_the_lease_named_is_asked",
        "slot::only_the_name_asked_for_takes_the_slot",
        "finish::only_the_name_asked_for_is_ended",
        "rerun::only_the_name_asked_for_is_rerun",
    ];
    a_request_to_step_down_is_told_once: ResignSaidOnce, ["renew::every_renewal_says_that_a_step_down_was_asked"];

    a_batch_answers_in_the_order_of_its_rows: BatchInRowOrder, ["renew_many::answers_come_in_the_order_asked_and_only_held_rows_change"];
    a_batch_says_renewed_for_lost_rows: BatchOfYes, ["renew_many::a_batch_of_lost_leases_renews_none"];
    a_batch_answers_by_the_name_alone: BatchByName, ["renew_many::a_name_twice_in_a_batch_is_answered_by_its_holder"];
    a_batch_crosses_names_and_holders: BatchCrosses, ["renew_many::holders_swapped_between_two_names_renew_neither"];
    a_batch_forgets_the_step_down: BatchForgetsStepDown, ["renew_many::a_step_down_is_told_for_the_lease_it_was_asked_of"];
    a_batch_ends_at_its_first_lost_lease: BatchStopsShort, ["renew_many::a_batch_of_a_thousand_renews_each"];
    an_empty_batch_fails: EmptyBatchFails, ["renew_many::an_empty_batch_has_an_empty_answer"];
    a_batch_does_not_record_the_heartbeat: BatchSilently, ["renew_many::a_batch_of_one_renews_it"];
    a_batch_takes_no_change_for_no_row: BatchWithoutChangeIsNone, ["renew_many::batches_within_one_millisecond_are_not_lost"];

    verify_ignores_the_expiry: VerifyIgnoresExpiry, [
        "verify::an_expired_lease_is_lost",
        "verify::a_released_lease_is_lost_also_after_a_successor_came",
    ];
    verify_never_answers: VerifyHangs, ["verify::a_held_lease_is_held_under_its_term"];
    verify_ignores_the_holder: VerifyIgnoresHolder, ["verify::a_lease_of_another_holder_is_lost"];
    a_statement_makes_the_row_it_misses: MissingRowMade, [
        "verify::a_missing_row_is_lost",
        "release::a_missing_row_is_gone_and_stays_missing",
        "observed::a_missing_row_has_moved_and_stays_missing",
        "clear::a_missing_row_has_moved_and_stays_missing",
        "resign::a_missing_row_has_moved_and_stays_missing",
        "finish::a_missing_row_has_nothing_to_record_and_stays_missing",
        "rerun::a_missing_row_has_moved_and_stays_missing",
        "last_slot::a_name_that_never_had_one_has_none",
    ];

    release_ignores_the_holder: ReleaseIgnoresHolder, [
        "release::another_holders_lease_is_never_released",
        "release::a_successors_lease_is_never_released",
        "dropped::a_claim_can_be_undone_by_releasing_its_token",
    ];
    release_cannot_be_repeated: ReleaseOnce, ["release::a_release_can_be_repeated"];
    a_release_wipes_the_slots: ReleaseWipesSlots, [
        "release::a_release_frees_the_name_and_changes_nothing_else",
        "dropped::a_round_granted_without_anybody_knowing_is_still_to_be_had_once",
    ];
    only_a_live_lease_is_released: ReleaseWantsLive, ["release::an_expired_lease_can_be_released"];

    a_claim_as_observed_ignores_the_expiry: ObservedIgnoresExpiry, [
        "observed::a_lease_renewed_since_is_left_alone",
        "observed::a_lease_released_since_is_left_alone",
        "observed::the_expiry_must_be_the_one_observed",
    ];
    a_claim_as_observed_ignores_the_holder: ObservedIgnoresHolder, [
        "observed::the_holder_must_be_the_one_observed",
        "observed::a_lease_claimed_since_is_left_alone",
    ];
    a_claim_as_observed_wants_an_expired_row: ObservedWantsExpired, ["observed::a_live_lease_unchanged_since_is_taken"];
    a_claim_as_observed_wants_a_live_row: ObservedWantsLive, ["observed::an_expired_and_a_released_row_unchanged_since_are_taken"];
    a_claim_as_observed_wipes_the_slots: ObservedWipesSlots, ["observed::slots_stay_as_with_a_plain_claim"];

    clear_frees_a_row_that_moved: ClearIgnoresMove, [
        "clear::a_lease_renewed_since_is_left_alone",
        "clear::a_lease_released_or_cleared_since_is_left_alone",
        "clear::the_expiry_must_be_the_one_observed",
    ];
    clear_ignores_the_holder: ClearIgnoresHolder, [
        "clear::the_holder_must_be_the_one_observed",
        "clear::a_lease_claimed_since_is_left_alone",
    ];
    clear_wipes_the_slots: ClearWipesSlots, ["clear::a_live_lease_unchanged_since_is_freed_and_nothing_else_changes"];
    only_a_live_lease_is_cleared: ClearWantsLive, [
        "clear::an_expired_lease_unchanged_since_is_freed",
        "clear::a_free_row_observed_as_free_is_cleared_again",
    ];

    resign_ignores_the_term: ResignIgnoresTerm, ["resign::another_term_has_moved_and_nothing_changes"];
    a_request_to_step_down_outlives_its_term: ResignOutlivesTerm, [
        "resign::a_request_concerns_no_later_term",
        "model::random_statements_are_answered_as_the_reference_model_answers_them",
    ];
    a_request_to_step_down_is_never_told: ResignUnsaid, ["resign::the_holder_of_the_term_learns_of_it_and_keeps_the_lease"];
    a_request_to_step_down_cannot_be_repeated: ResignOnce, ["resign::a_request_can_be_repeated"];

    inspect_changes_the_row_or_makes_one: InspectWrites, [
        "inspect::a_name_never_claimed_has_no_row",
        "inspect::reading_changes_nothing",
    ];
    times_are_read_in_the_sessions_time_zone: SessionTimeZone, [
        "inspect::a_row_reads_the_same_from_every_process",
        "inspect::two_processes_read_one_clock",
    ];

    a_prefix_is_a_pattern: PrefixIsPattern, ["list::wildcards_in_a_prefix_are_plain_text"];
    a_prefix_ignores_case: PrefixIgnoresCase, ["list::a_prefix_is_compared_byte_by_byte"];
    rows_come_in_the_order_of_a_collation: ListByCollation, ["list::rows_come_in_order_of_the_bytes_of_their_names"];
    a_page_begins_with_the_last_row_of_the_former: PageIncludesAfter, ["list::pages_put_together_are_the_whole_list"];
    a_prefix_is_found_anywhere: PrefixAnywhere, ["list::only_names_that_begin_with_the_prefix_are_listed"];
    a_prefix_ends_at_a_quote: PrefixEndsAtQuote, ["list::quotes_in_a_prefix_are_plain_text"];
    a_prefix_is_a_range_to_the_next_character: PrefixByNextChar, ["list::a_prefix_of_the_last_characters_there_are_is_a_prefix"];
    a_long_prefix_is_ignored: LongPrefixIgnored, ["list::a_prefix_longer_than_any_name_lists_nothing"];
    a_page_wants_the_row_it_begins_after: PageWantsAfterRow, ["list::a_listing_continues_after_a_name_that_has_no_row"];
    an_empty_prefix_lists_nothing: EmptyPrefixListsNothing, ["list::an_empty_prefix_lists_names_whatever_they_begin_with"];
    a_limit_of_nothing_is_no_limit: ZeroLimitIsAll, ["list::the_limit_holds_from_nothing_to_the_most"];

    a_slot_is_claimed_twice: SlotTwice, [
        "slot::an_instant_is_claimed_once_while_its_round_runs_and_ever_after",
        "slot::an_instant_cut_short_is_not_claimed_again_as_a_slot",
    ];
    an_earlier_slot_is_granted: SlotBackwards, ["slot::an_instant_before_the_last_is_passed_held_or_free"];
    a_slot_is_granted_before_it_comes: SlotEarly, ["slot::an_instant_that_has_not_come_is_refused_with_the_wait"];
    held_comes_before_not_yet: HeldBeforeNotYet, ["slot::an_instant_that_has_not_come_changes_no_row_held_or_free"];
    held_comes_before_passed: HeldBeforePassed, [
        "slot::an_instant_is_claimed_once_while_its_round_runs_and_ever_after",
        "slot::an_instant_before_the_last_is_passed_held_or_free",
    ];
    a_given_up_instant_is_not_named: SupersededUnsaid, [
        "slot::an_expired_name_is_granted_and_its_cut_short_instant_given_up",
        "slot_race::each_instant_is_granted_once_to_eight_that_follow_one_schedule",
    ];
    a_claim_of_a_slot_does_not_raise_the_term: SlotKeepsTerm, ["slot::a_free_name_is_granted_under_the_next_term"];
    a_finished_instant_is_forgotten_when_the_ttl_has_passed: SlotForgottenAfterTtl, [
        "slot::an_instant_finished_at_once_is_refused_to_who_comes_when_the_ttl_has_passed",
    ];
    a_slot_is_not_recorded_as_unfinished: SlotNotUnfinished, [
        "slot::a_new_name_is_granted_and_the_slot_recorded_as_unfinished",
        "slot::a_free_name_is_granted_under_the_next_term",
    ];
    a_slot_takes_a_held_name: SlotTakesHeld, ["slot::a_held_name_is_refused_for_a_later_slot"];
    slots_are_kept_in_seconds: SlotInSeconds, ["slot::instants_a_millisecond_apart_are_two"];
    not_yet_comes_without_the_wait: NotYetWithoutWait, ["slot::an_instant_in_the_last_millisecond_of_all_is_far_away"];
    a_slot_is_granted_only_after_its_instant: SlotExclusive, ["slot::an_instant_is_granted_once_the_databases_clock_reaches_it"];
    a_finished_instant_is_named_as_given_up: SupersededAlways, [
        "slot::a_finished_round_is_not_given_up",
        "slot::a_round_given_up_after_its_rerun_is_named_as_rerun",
    ];
    finish_does_not_record_what_passed: FinishForgetsPassed, [
        "slot::an_instant_skipped_by_the_former_round_is_passed",
        "finish::a_passed_instant_is_recorded_as_skipped",
    ];
    a_renewal_wipes_the_slots: RenewWipesSlots, ["slot::a_round_is_a_lease_like_any_other"];

    finish_reopens_a_later_slot: FinishReopensLater, ["finish::a_later_slot_finished_meanwhile_is_not_reopened"];
    finish_ends_a_later_slot: FinishEndsLater, [
        "finish::a_later_slot_claimed_meanwhile_stays_as_it_is",
        "finish::without_the_lease_only_the_unfinished_instant_itself_is_ended",
    ];
    finish_skips_beyond_the_clock: FinishSkipsBeyondClock, ["finish::a_passed_instant_the_databases_clock_has_not_reached_is_ignored"];
    finish_moves_the_last_slot_back: FinishMovesBack, ["finish::a_passed_instant_not_later_than_the_last_is_ignored"];
    finish_skips_only_what_came_before_now: FinishSkipExclusive, ["finish::a_passed_instant_is_recorded_once_the_databases_clock_reaches_it"];
    finish_gives_back_a_lease_known_to_be_lost: FinishIgnoresLost, [
        "finish::a_lease_known_to_be_lost_is_not_given_back_but_its_end_recorded",
        "pairs::three_about_a_running_round_act_one_after_the_other",
    ];
    finish_is_recorded_for_another_holder: FinishIgnoresHolder, [
        "finish::a_plain_successor_keeps_its_lease_and_the_end_is_recorded",
        "finish::a_later_slot_claimed_meanwhile_stays_as_it_is",
        "finish::the_first_run_ends_its_instant_though_a_rerun_holds_the_lease",
    ];
    finish_does_not_give_the_name_back: FinishKeepsName, ["finish::a_held_round_ends_and_the_name_is_free"];
    finish_never_says_recorded: FinishDeniesRecord, [
        "finish::the_end_recorded_after_a_loss_says_so_once",
        "finish::only_the_name_asked_for_is_ended",
    ];
    finish_cannot_be_repeated: FinishOnce, ["finish::an_end_can_be_recorded_again_with_the_same_answer"];
    finish_does_not_record_the_end: EndNotRecorded, [
        "finish::a_held_round_ends_and_the_name_is_free",
        "finish::a_rerun_ends_its_instant",
    ];
    only_a_live_round_is_finished: FinishWantsLive, [
        "finish::a_round_that_expired_unclaimed_still_ends",
        "finish::a_released_round_still_ends",
    ];
    finish_frees_the_successors_lease: FinishFreesSuccessor, [
        "finish::a_plain_successor_keeps_its_lease_and_the_end_is_recorded",
        "finish::the_first_run_ends_its_instant_though_a_rerun_holds_the_lease",
    ];
    finish_always_says_recorded: FinishAlwaysRecorded, ["finish::the_end_recorded_after_a_loss_says_so_once"];

    a_running_round_is_called_unfinished: UnfinishedWhileHeld, [
        "unfinished::a_round_that_runs_is_not_found",
        "unfinished::a_round_whose_name_is_held_again_is_not_found",
    ];
    a_round_is_called_unfinished_after_its_rerun: UnfinishedForEver, ["unfinished::a_round_cut_short_twice_is_not_found"];
    no_names_are_all_names: NoNamesIsAll, ["unfinished::no_names_have_no_unfinished_slots"];
    an_expired_round_is_not_called_unfinished: UnfinishedWantsReleased, ["unfinished::a_round_cut_short_is_found_released_or_expired"];
    a_finished_round_is_called_unfinished: UnfinishedIsLast, ["unfinished::a_finished_round_is_not_found"];
    an_earlier_rerun_hides_a_later_round: UnfinishedAfterAnyRerun, ["unfinished::a_later_round_cut_short_is_found_though_an_earlier_one_was_rerun"];
    a_name_without_slots_is_called_unfinished: UnfinishedWithoutSlots, ["unfinished::a_name_without_slots_is_not_found_claimed_or_not"];
    an_unfinished_slot_comes_with_the_first_term: UnfinishedForgetsTerm, ["unfinished::the_term_named_is_the_one_in_the_row"];
    a_name_given_twice_is_answered_twice: UnfinishedTwice, ["unfinished::a_name_given_twice_is_answered_once"];
    a_long_question_is_cut: UnfinishedStopsShort, ["unfinished::a_thousand_names_are_asked_for_at_once"];

    a_round_is_rerun_twice: RerunTwice, [
        "rerun::a_round_is_rerun_once_whatever_is_observed_afterwards",
        "rerun::a_round_cut_short_is_granted_and_recorded_as_rerun",
    ];
    a_round_is_rerun_while_it_runs: RerunWhileHeld, [
        "rerun::a_round_that_runs_is_not_rerun",
        "rerun::a_rerun_that_runs_is_not_rerun",
        "rerun::a_name_that_is_held_again_is_not_taken",
    ];
    a_rerun_does_not_raise_the_term: RerunKeepsTerm, ["rerun::a_round_cut_short_is_granted_and_recorded_as_rerun"];
    a_rerun_ignores_the_term: RerunIgnoresTerm, ["rerun::the_term_must_be_the_one_seen"];
    only_a_released_round_is_rerun: RerunWantsReleased, ["rerun::an_expired_round_is_granted"];
    a_finished_round_is_rerun: RerunIgnoresUnfinished, [
        "rerun::a_finished_round_is_not_rerun",
        "rerun::a_round_finished_by_its_lost_holder_is_not_rerun",
    ];
    a_rerun_ignores_the_slot: RerunIgnoresSlot, [
        "rerun::the_slot_must_be_the_one_seen",
        "rerun::a_round_with_a_later_slot_claimed_since_is_not_rerun",
        "rerun::a_name_without_slots_has_none_to_rerun",
    ];

    a_skipped_slot_is_forgotten: LastSlotIsUnfinished, [
        "last_slot::a_skipped_instant_is_named",
        "last_slot::the_last_instant_claimed_is_named_whatever_became_of_its_round",
    ];

    nobody_is_told_who_listens: TellsNobody, [
        "notices::a_name_that_one_process_gives_back_is_heard_of_by_another_that_listens",
    ];
    names_with_quotes_cannot_be_told: TellsNoQuotes, ["notices::names_of_any_kind_can_be_told"];
    telling_frees_the_name: TellingFrees, ["notices::telling_changes_no_row_and_makes_none"];

    a_failed_renewal_is_called_lost: ErrorAsLost, ["migrate::without_the_table_every_statement_is_an_error_and_none_an_answer"];
    a_failed_claim_is_called_held: ErrorAsHeld, ["migrate::without_the_table_every_statement_is_an_error_and_none_an_answer"];
    migrating_again_empties_the_table: MigrateEmpties, [
        "migrate::migrating_again_keeps_every_row",
        "migrate::eight_that_migrate_at_once_beside_claims_keep_every_row",
    ];
    check_does_not_look_for_the_table: CheckIsBlind, ["migrate::a_missing_table_fails_the_check_until_it_is_made"];
    checks_fail_for_no_reason: CheckFails, ["migrate::a_migrated_table_passes_the_check"];
    a_description_breaks_the_line: DescribesInLines, ["migrate::a_store_describes_itself_in_one_line_and_names_a_least_ttl"];
    reads_change_what_they_read: ReadsWrite, [
        "migrate::a_check_changes_nothing",
        "verify::verifying_changes_nothing",
        "unfinished::asking_changes_nothing",
        "last_slot::asking_changes_nothing",
        "list::rows_are_listed_as_they_are_inspected_held_or_free",
    ];
    migrations_at_once_fail: MigrateNotAtOnce, ["migrate::eight_that_make_a_new_table_at_once_make_one"];
}
