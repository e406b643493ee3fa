//! The suite tests itself: each deliberately broken store names the case that must catch it.

#[path = "../common/mod.rs"]
mod common;
mod leases;
mod mutant;
mod names;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use lease_testkit::{Case, cases};
use tokio::time::timeout;

use common::OnMemory;
use mutant::{Broken, Gates, Mutant};

/// The healthy store may take this long for a case that it passes in a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(120);
/// A broken store that has not failed by then hangs, which is as good as a failure.
const LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Hung,
}

async fn outcome(case: Case, subject: OnMemory, limit: Duration) -> Outcome {
    let mut task = tokio::spawn(async move { case.run(subject).await });
    match timeout(limit, &mut task).await {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(_)) => Outcome::Failed,
        Err(_) => {
            task.abort();
            Outcome::Hung
        }
    }
}

/// Holds the case to pass on the healthy store and not to pass on the broken one.
async fn is_caught(broken: Broken, name: &str) {
    let case = *cases()
        .iter()
        .find(|case| case.name() == name)
        .unwrap_or_else(|| panic!("no case {name:?} is left in the suite to catch {broken:?}"));
    let healthy = OnMemory::new(|memory, _| Arc::new(memory));
    assert_eq!(outcome(case, healthy, PATIENCE).await, Outcome::Passed, "{name} on the healthy store");
    let gates = Arc::<Gates>::default();
    let mutant = OnMemory::new(move |memory, _| Arc::new(Mutant::new(memory, broken, Arc::clone(&gates))));
    assert_ne!(outcome(case, mutant, LIMIT).await, Outcome::Passed, "{name} did not catch {broken:?}");
}

macro_rules! mutants {
    ($($test:ident: $broken:ident, $case:literal;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                is_caught(Broken::$broken, $case).await;
            }
        )*
    };
}

mutants! {
    renew_ignores_the_holder: RenewIgnoresHolder, "renew::a_lease_is_not_renewed_for_another_holder";
    renew_revives_an_expired_row: RenewRevivesExpired, "renew::an_expired_lease_is_lost_and_stays_expired";
    renew_revives_a_released_row: RenewRevivesReleased, "renew::a_released_lease_is_lost_and_stays_free";
    renew_makes_a_deleted_row_again: RenewRemakesRow, "renew::a_deleted_row_is_not_made_again";
    renew_takes_no_change_for_no_row: RenewWithoutChangeIsLost, "renew::renewals_within_one_millisecond_are_not_lost";
    renew_reads_and_then_writes: RenewIsTwoSteps, "pairs::on_a_held_name_act_one_after_the_other";
    a_failed_renewal_is_called_lost: ErrorAsLost, "migrate::without_the_table_every_statement_is_an_error_and_none_an_answer";

    a_batch_answers_in_the_order_of_its_rows: BatchInRowOrder, "renew_many::answers_come_in_the_order_asked_and_only_held_rows_change";
    a_batch_says_renewed_for_lost_rows: BatchOfYes, "renew_many::a_batch_of_lost_leases_renews_none";
    a_batch_answers_by_the_name_alone: BatchByName, "renew_many::a_name_twice_in_a_batch_is_answered_by_its_holder";
    a_batch_crosses_names_and_holders: BatchCrosses, "renew_many::holders_swapped_between_two_names_renew_neither";
    a_batch_forgets_the_step_down: BatchForgetsStepDown, "renew_many::a_step_down_is_told_for_the_lease_it_was_asked_of";
    a_batch_ends_at_its_first_lost_lease: BatchStopsShort, "renew_many::a_batch_of_a_thousand_renews_each";

    a_claim_does_not_raise_the_term: TermNotRaised, "claim::the_term_rises_by_one_after_a_release";
    the_term_restarts_after_a_release: TermRestartsAfterRelease, "claim::the_term_rises_by_one_after_a_release";
    the_term_restarts_after_a_clear: TermRestartsAfterClear, "claim::the_term_rises_by_one_after_a_clear";
    the_term_restarts_after_an_expiry: TermRestartsAfterExpiry, "claim::the_term_rises_by_one_after_an_expiry";
    the_term_rises_with_refused_claims: TermRisesWhenRefused, "claim::a_held_name_is_refused_and_its_row_stays";
    the_term_wraps_at_its_limit: TermWraps, "claim::a_term_at_its_limit_fails_every_claim_and_stays";
    the_insert_race_has_two_winners: TwoInsert, "race::a_new_name_has_one_winner";
    a_failed_claim_is_called_held: ErrorAsHeld, "migrate::without_the_table_every_statement_is_an_error_and_none_an_answer";
    a_damaged_row_is_called_held: DamageAsHeld, "claim::a_term_at_its_limit_fails_every_claim_and_stays";
    a_plain_claim_wipes_the_slots: ClaimWipesSlots, "claim::a_plain_claim_leaves_the_slots";
    a_claim_leaves_the_former_instance: ClaimKeepsInstance, "claim::a_grant_replaces_all_of_the_former_holders_columns";
    identity_texts_are_cut: IdentityCut, "claim::identity_texts_of_191_bytes_are_kept_whole";
    a_claim_is_written_in_two_steps: ClaimIsTwoSteps, "dropped::a_write_on_an_expired_name_takes_place_whole_or_not_at_all";
    dropped_statements_keep_their_connection: DroppedKeepsConnection, "dropped::statements_in_great_number_leave_the_store_usable";

    names_are_truncated: NamesTruncated, "names::that_share_190_bytes_are_apart";
    names_are_folded_in_case: NamesFoldedInCase, "names::that_differ_in_case_are_apart";
    accents_are_ignored: NamesFoldedInAccent, "names::that_differ_in_an_accent_are_apart";
    names_are_normalized: NamesNormalized, "names::that_differ_in_normalization_are_apart";
    trailing_characters_are_ignored: NamesTrimmed, "names::that_differ_in_trailing_characters_are_apart";
    inner_spaces_are_collapsed: NamesCollapsed, "names::that_differ_in_inner_spaces_are_apart";

    verify_ignores_the_expiry: VerifyIgnoresExpiry, "verify::an_expired_lease_is_lost";
    verify_never_answers: VerifyHangs, "verify::a_held_lease_is_held_under_its_term";
    release_ignores_the_holder: ReleaseIgnoresHolder, "release::another_holders_lease_is_never_released";
    release_cannot_be_repeated: ReleaseOnce, "release::a_release_can_be_repeated";
    a_claim_as_observed_ignores_the_expiry: ObservedIgnoresExpiry, "observed::a_lease_renewed_since_is_left_alone";
    a_claim_as_observed_ignores_the_holder: ObservedIgnoresHolder, "observed::the_holder_must_be_the_one_observed";
    a_claim_as_observed_wants_an_expired_row: ObservedWantsExpired, "observed::a_live_lease_unchanged_since_is_taken";
    clear_frees_a_row_that_moved: ClearIgnoresMove, "clear::a_lease_renewed_since_is_left_alone";
    clear_ignores_the_holder: ClearIgnoresHolder, "clear::the_holder_must_be_the_one_observed";
    resign_ignores_the_term: ResignIgnoresTerm, "resign::another_term_has_moved_and_nothing_changes";
    a_request_to_step_down_outlives_its_term: ResignOutlivesTerm, "resign::a_request_concerns_no_later_term";

    a_prefix_is_a_pattern: PrefixIsPattern, "list::wildcards_in_a_prefix_are_plain_text";
    a_prefix_ignores_case: PrefixIgnoresCase, "list::a_prefix_is_compared_byte_by_byte";
    rows_come_in_the_order_of_a_collation: ListByCollation, "list::rows_come_in_order_of_the_bytes_of_their_names";
    a_page_begins_with_the_last_row_of_the_former: PageIncludesAfter, "list::pages_put_together_are_the_whole_list";

    a_slot_is_claimed_twice: SlotTwice, "slot::an_instant_is_claimed_once_while_its_round_runs_and_ever_after";
    an_earlier_slot_is_granted: SlotBackwards, "slot::an_instant_before_the_last_is_passed_held_or_free";
    a_slot_is_granted_before_it_comes: SlotEarly, "slot::an_instant_that_has_not_come_is_refused_with_the_wait";
    held_comes_before_not_yet: HeldBeforeNotYet, "slot::an_instant_that_has_not_come_changes_no_row_held_or_free";
    a_slot_claim_ignores_the_term_it_read: SlotIgnoresTermRead, "race::a_slot_of_a_free_name_has_one_winner";
    a_given_up_instant_is_not_named: SupersededUnsaid, "slot::an_expired_name_is_granted_and_its_cut_short_instant_given_up";
    finish_reopens_a_later_slot: FinishReopensLater, "finish::a_later_slot_finished_meanwhile_is_not_reopened";
    finish_ends_a_later_slot: FinishEndsLater, "finish::a_later_slot_claimed_meanwhile_stays_as_it_is";
    finish_skips_beyond_the_clock: FinishSkipsBeyondClock, "finish::a_passed_instant_the_databases_clock_has_not_reached_is_ignored";
    finish_moves_the_last_slot_back: FinishMovesBack, "finish::a_passed_instant_not_later_than_the_last_is_ignored";
    finish_gives_back_a_lease_known_to_be_lost: FinishIgnoresLost, "finish::a_lease_known_to_be_lost_is_not_given_back_but_its_end_recorded";
    finish_cannot_be_repeated: FinishOnce, "finish::an_end_can_be_recorded_again_with_the_same_answer";
    a_running_round_is_called_unfinished: UnfinishedWhileHeld, "unfinished::a_round_that_runs_is_not_found";
    a_round_is_called_unfinished_after_its_rerun: UnfinishedForEver, "unfinished::a_round_cut_short_twice_is_not_found";
    a_round_is_rerun_twice: RerunTwice, "rerun::a_round_is_rerun_once_whatever_is_observed_afterwards";
    a_round_is_rerun_while_it_runs: RerunWhileHeld, "rerun::a_round_that_runs_is_not_rerun";
    a_rerun_ignores_the_term: RerunIgnoresTerm, "rerun::the_term_must_be_the_one_seen";
    a_skipped_slot_is_forgotten: LastSlotIsUnfinished, "last_slot::a_skipped_instant_is_named";

    migrating_again_empties_the_table: MigrateEmpties, "migrate::migrating_again_keeps_every_row";
    check_does_not_look_for_the_table: CheckIsBlind, "migrate::a_missing_table_fails_the_check_until_it_is_made";
}
