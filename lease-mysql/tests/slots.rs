//! Slots on real servers: what a connection that dies leaves of them, and schedulers on it.

// The rules are those of every server.
#[path = "../../lease-postgres/tests/slots/between.rs"]
mod between;
#[path = "../../lease-postgres/tests/slots/cuts.rs"]
mod cuts;
#[path = "../../lease-postgres/tests/slots/rounds.rs"]
mod rounds;
#[path = "../../lease-postgres/tests/slots/schedulers.rs"]
mod schedulers;
#[path = "faults/support.rs"]
#[expect(dead_code, unused_imports, unused_macros, reason = "the tests of faults need more")]
mod support;
#[path = "slots/world.rs"]
mod world;

/// Runs each of these `async fn(&World)` on both, as `mysql::name` and `mariadb::name`.
macro_rules! on_both_in {
    ($($module:ident: $name:ident)*) => {
        mod mysql {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let world = crate::world::World::new(test_servers::Product::MySql).await;
                crate::$module::$name(&world).await;
                world.end().await;
            })*
        }
        mod mariadb {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let world = crate::world::World::new(test_servers::Product::MariaDb).await;
                crate::$module::$name(&world).await;
                world.end().await;
            })*
        }
    };
}

on_both_in! {
    cuts: a_claim_of_a_new_name_is_granted_whole_or_not_at_all
    cuts: a_claim_of_a_free_name_is_granted_whole_or_not_at_all
    cuts: a_claim_that_gives_an_instant_up_is_granted_whole_or_not_at_all
    cuts: the_end_of_a_round_is_recorded_whole_or_not_at_all
    cuts: the_end_of_a_round_that_overran_is_recorded_whole_or_not_at_all
    cuts: the_end_of_a_round_that_was_lost_is_recorded_whole_or_not_at_all
    cuts: the_end_of_a_round_known_lost_is_recorded_whole_or_not_at_all
    cuts: a_rerun_is_granted_whole_or_not_at_all
    cuts: unfinished_slots_are_told_rightly_or_not_at_all
    cuts: the_last_slot_is_told_rightly_or_not_at_all
    cuts: a_round_is_given_back_whole_or_not_at_all
    between: a_claim_of_an_instant_is_judged_again_when_the_row_has_moved_since_it_was_read
    schedulers: a_round_cut_anywhere_is_run_to_its_end_once
    schedulers: a_round_cut_anywhere_with_the_server_away_is_run_again_once_at_most
    schedulers: a_rerun_cut_anywhere_is_run_to_its_end_once_or_used_up
    schedulers: a_rerun_cut_anywhere_with_the_server_away_is_never_run_again
}
