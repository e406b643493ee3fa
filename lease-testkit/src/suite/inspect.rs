//! Reading one row.

use super::context::{Context, slot, term};
use super::same::same_row;

pub(crate) async fn a_name_never_claimed_has_no_row(cx: &Context) {
    cx.hold("job 2").await;
    for end in ["job", "job 2 x"] {
        // Twice: looking for a row does not make one.
        for _ in 0..2 {
            assert_eq!(cx.find_row(&cx.name(end)).await, None);
        }
    }
}

pub(crate) async fn a_row_reads_the_same_from_every_process(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    cx.store.resign(&round.name, term(1)).await.ok();
    let other = cx.another().await.inspect(&round.name).await.ok().row;
    assert_eq!(other, Some(cx.row(&round.name).await));
}

pub(crate) async fn reading_changes_nothing(cx: &Context) {
    let held = cx.hold("job").await;
    let row = cx.row(&held.name).await;
    same_row(&cx.row(&held.name).await, &row);
}

pub(crate) async fn a_row_is_read_with_the_databases_clock(cx: &Context) {
    let before = cx.now().await;
    let held = cx.hold("job").await;
    let read = cx.store.inspect(&held.name).await.ok();
    let row = read.row.expect("the row was claimed");
    assert!(
        before <= row.claimed_at && row.claimed_at <= read.now,
        "{before:?}, then {row:?}, {:?}",
        read.now
    );
    assert!(row.is_live(read.now));
}

pub(crate) async fn two_processes_read_one_clock(cx: &Context) {
    let (name, other) = (cx.name("job"), cx.another().await);
    for _ in 0..5 {
        let one = cx.now().await;
        let two = other.inspect(&name).await.ok().now;
        let three = cx.now().await;
        assert!(one <= two && two <= three, "{one:?}, then {two:?}, then {three:?}");
    }
}
