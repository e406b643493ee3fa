//! Reading many rows.

use lease_core::LeaseName;
use lease_core::store::{Listing, Page};

use super::context::{Context, slot};

/// The ends of the names on a page of those that begin with `begin`.
async fn ends(cx: &Context, begin: &str) -> Vec<String> {
    let page = Page { prefix: format!("{}{begin}", cx.prefix()), after: None, limit: 1_000 };
    let Listing { rows, .. } = cx.store.list(&page).await.ok();
    rows.iter().map(|row| row.name.as_str()[cx.prefix().len()..].to_owned()).collect()
}

async fn hold_all(cx: &Context, ends: &[&str]) {
    for end in ends {
        cx.hold(end).await;
    }
}

pub(crate) async fn rows_come_in_order_of_the_bytes_of_their_names(cx: &Context) {
    let mut names =
        ["b", "B", "a", "aa", "a b", "a-b", "a/b", "ä", "z", "Z", "é", "10", "9", "_", "~", "🦀", "\u{ff5e}"];
    hold_all(cx, &names).await;
    names.sort_unstable();
    assert_eq!(ends(cx, "").await, names);
}

pub(crate) async fn only_names_that_begin_with_the_prefix_are_listed(cx: &Context) {
    hold_all(cx, &["jo", "job", "job 1", "jobs", "jo1", "x job"]).await;
    assert_eq!(ends(cx, "job").await, ["job", "job 1", "jobs"]);
    assert_eq!(ends(cx, "job x").await, [""; 0]);
}

pub(crate) async fn wildcards_in_a_prefix_are_plain_text(cx: &Context) {
    hold_all(cx, &["a%b", "a_b", "axb", "a*b", "a?b", "a[x]b", r"a\b", r"a\%b", "a"]).await;
    for (prefix, listed) in [
        ("a%", vec!["a%b"]),
        ("a_", vec!["a_b"]),
        ("a*", vec!["a*b"]),
        ("a?", vec!["a?b"]),
        ("a[x]", vec!["a[x]b"]),
        (r"a\", vec![r"a\%b", r"a\b"]),
        (r"a\%", vec![r"a\%b"]),
        ("%", vec![]),
        ("_", vec![]),
    ] {
        assert_eq!(ends(cx, prefix).await, listed, "prefix {prefix:?}");
    }
}

pub(crate) async fn quotes_in_a_prefix_are_plain_text(cx: &Context) {
    hold_all(cx, &["it's", "its"]).await;
    assert_eq!(ends(cx, "it'").await, ["it's"]);
    assert_eq!(ends(cx, "' OR '1'='1").await, [""; 0]);
    assert_eq!(ends(cx, "it' OR 1=1 --").await, [""; 0]);
}

pub(crate) async fn a_prefix_is_compared_byte_by_byte(cx: &Context) {
    hold_all(cx, &["cafe", "CAFE", "caf\u{e9}", "cafe\u{301}"]).await;
    // The decomposed accent begins with the bytes of the plain letter.
    assert_eq!(ends(cx, "cafe").await, ["cafe", "cafe\u{301}"]);
    assert_eq!(ends(cx, "CAF").await, ["CAFE"]);
    assert_eq!(ends(cx, "caf\u{e9}").await, ["caf\u{e9}"]);
}

pub(crate) async fn a_prefix_of_the_last_characters_there_are_is_a_prefix(cx: &Context) {
    // "The first text after all that begin so" has no next character to be built from.
    hold_all(
        cx,
        &[
            "\u{10ffff}",
            "\u{10ffff}a",
            "\u{10ffff}\u{10ffff}",
            "\u{10fffe}",
            "\u{d7ff}",
            "\u{d7ff}x",
            "\u{e000}",
        ],
    )
    .await;
    assert_eq!(ends(cx, "\u{10ffff}").await, ["\u{10ffff}", "\u{10ffff}a", "\u{10ffff}\u{10ffff}"]);
    assert_eq!(ends(cx, "\u{d7ff}").await, ["\u{d7ff}", "\u{d7ff}x"]);
}

pub(crate) async fn a_prefix_longer_than_any_name_lists_nothing(cx: &Context) {
    hold_all(cx, &["a"]).await;
    assert_eq!(ends(cx, &"a".repeat(500)).await, [""; 0]);
}

pub(crate) async fn pages_put_together_are_the_whole_list(cx: &Context) {
    let names: Vec<String> = (0..7).map(|n| format!("job {n}")).collect();
    for name in &names {
        cx.hold(name).await;
    }
    let mut listed: Vec<LeaseName> = Vec::new();
    for expected in [3, 3, 1, 0] {
        let page = Page { prefix: cx.prefix().to_owned(), after: listed.last().cloned(), limit: 3 };
        let rows = cx.store.list(&page).await.ok().rows;
        assert_eq!(rows.len(), expected, "{page:?}");
        listed.extend(rows.into_iter().map(|row| row.name));
    }
    assert_eq!(listed, names.iter().map(|name| cx.name(name)).collect::<Vec<_>>());
}

pub(crate) async fn a_listing_continues_after_a_name_that_has_no_row(cx: &Context) {
    hold_all(cx, &["a", "c"]).await;
    let page = Page { prefix: cx.prefix().to_owned(), after: Some(cx.name("b")), limit: 10 };
    let names: Vec<_> = cx.store.list(&page).await.ok().rows.into_iter().map(|row| row.name).collect();
    assert_eq!(names, [cx.name("c")]);
}

pub(crate) async fn an_empty_prefix_lists_names_whatever_they_begin_with(cx: &Context) {
    hold_all(cx, &["a", "b"]).await;
    // Nothing of anybody else's lies between this name and those.
    let before = LeaseName::new(&cx.prefix()[..cx.prefix().len() - 1]).expect("a valid name");
    let page = Page { prefix: String::new(), after: Some(before), limit: 2 };
    let names: Vec<_> = cx.store.list(&page).await.ok().rows.into_iter().map(|row| row.name).collect();
    assert_eq!(names, [cx.name("a"), cx.name("b")]);
}

pub(crate) async fn the_limit_holds_from_nothing_to_the_most(cx: &Context) {
    hold_all(cx, &["a", "b", "c"]).await;
    for (limit, listed) in [(0, 0), (1, 1), (3, 3), (u32::MAX, 3)] {
        let page = Page { prefix: cx.prefix().to_owned(), after: None, limit };
        assert_eq!(cx.store.list(&page).await.ok().rows.len(), listed, "limit {limit}");
    }
}

pub(crate) async fn rows_are_listed_as_they_are_inspected_held_or_free(cx: &Context) {
    let names = [cx.round("a", slot(1)).await.name, cx.cut_short("b", slot(2)).await.name];
    let before = cx.now().await;
    let page = Page { prefix: cx.prefix().to_owned(), after: None, limit: 10 };
    let Listing { now, rows } = cx.store.list(&page).await.ok();
    assert!(before <= now && now <= cx.now().await, "the listing reads another clock");
    assert_eq!(rows, [cx.row(&names[0]).await, cx.row(&names[1]).await]);
}
