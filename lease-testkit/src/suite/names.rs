//! Names are bytes: what a collation, a column or a quoting rule would take for one is two.

use lease_core::LeaseName;
use lease_core::store::{Claim, ClaimAnswer, Holding, LeaseRow, Page, ReleaseAnswer, RenewAnswer};

use super::context::{Context, LONG, claim_of, holding, slot, term, unfinished};
use super::process::RENEWED;

/// Claims every name, and holds each statement on one of them to leave the others alone.
async fn are_apart(cx: &Context, ends: &[&str]) {
    let mut claims = Vec::new();
    for end in ends {
        let claim = cx.claim(end);
        cx.store.claim(&claim).await.is(ClaimAnswer::Granted(term(1)));
        claims.push(claim);
    }
    for claim in &claims {
        assert_eq!(cx.row(&claim.name).await.name, claim.name, "inspect finds another name's row");
        cx.store.renew(claim).await.is(RENEWED);
    }
    let page = Page { prefix: cx.prefix().to_owned(), after: None, limit: 1_000 };
    let mut names: Vec<LeaseName> = claims.iter().map(|claim| claim.name.clone()).collect();
    names.sort();
    let listed: Vec<LeaseName> =
        cx.store.list(&page).await.ok().rows.into_iter().map(|row| row.name).collect();
    assert_eq!(listed, names, "list shows other names than those claimed");

    let (first, others) = claims.split_first().expect("a case gives names");
    let before = rows(cx, others).await;
    for other in others {
        cx.store.renew_as(&first.name, &other.holder, LONG).await.is(RenewAnswer::Lost);
        cx.store.release(&first.name, &other.holder).await.is(ReleaseAnswer::Gone);
        let crossed = Holding { name: first.name.clone(), holder: other.holder };
        cx.store.renew_many(&[crossed], LONG).await.is(vec![None]);
    }
    cx.release(first).await;
    let next = claim_of(&first.name);
    cx.store.claim(&next).await.is(ClaimAnswer::Granted(term(2)));
    cx.store.renew_many(&[holding(&next)], LONG).await.ok();
    cx.store.resign(&next.name, term(2)).await.ok();
    cx.store.clear(&next.name, &cx.row(&next.name).await.observed()).await.ok();
    let round = claim_of(&first.name);
    cx.store.claim_slot(&round, slot(1)).await.granted();
    cx.release(&round).await;
    cx.store.unfinished_slots(&names).await.is(vec![unfinished(&first.name, slot(1), 3)]);
    for other in others {
        cx.store.last_slot(&other.name).await.is(None);
    }
    assert_eq!(rows(cx, others).await, before, "a statement on {:?} changed another name's row", first.name);
}

async fn rows(cx: &Context, claims: &[Claim]) -> Vec<LeaseRow> {
    let mut rows = Vec::new();
    for claim in claims {
        rows.push(cx.row(&claim.name).await);
    }
    rows
}

pub(crate) async fn that_differ_in_case_are_apart(cx: &Context) {
    are_apart(cx, &["job", "JOB", "Job", "joB"]).await;
}

pub(crate) async fn that_differ_in_an_accent_are_apart(cx: &Context) {
    are_apart(cx, &["cafe", "café", "cafè", "câfe", "cafê"]).await;
}

pub(crate) async fn that_differ_in_normalization_are_apart(cx: &Context) {
    // Composed and decomposed, a compatibility character, a singleton (the Ångström sign).
    are_apart(cx, &["caf\u{e9}", "cafe\u{301}", "\u{c5}", "A\u{30a}", "\u{212b}", "ﬁ", "fi"]).await;
}

pub(crate) async fn that_a_collation_expands_or_folds_are_apart(cx: &Context) {
    are_apart(cx, &["ss", "ß", "ẞ", "ae", "æ", "x", "ｘ", "2", "²", "ı", "i", "İ", "I", "か", "カ", "が"])
        .await;
}

pub(crate) async fn that_differ_in_trailing_characters_are_apart(cx: &Context) {
    // Padding rules drop trailing spaces, and many collations ignore these altogether.
    are_apart(cx, &["job", "job\u{200b}", "job\u{ad}", "job\u{feff}", "job\u{200d}", "job.", "job-", "job/"])
        .await;
}

pub(crate) async fn that_differ_in_inner_spaces_are_apart(cx: &Context) {
    are_apart(cx, &["a b", "a  b", "ab", "a\u{a0}b", "a\u{3000}b"]).await;
}

pub(crate) async fn that_share_190_bytes_are_apart(cx: &Context) {
    let rest = "n".repeat(190 - cx.prefix().len());
    are_apart(cx, &[&format!("{rest}a"), &format!("{rest}b"), &rest]).await;
}

pub(crate) async fn of_191_bytes_in_wide_characters_are_kept_whole(cx: &Context) {
    let fill = |wide: &str| {
        let room = 191 - cx.prefix().len();
        let count = room / wide.len();
        format!("{}{}", wide.repeat(count), "x".repeat(room - count * wide.len()))
    };
    are_apart(cx, &[&fill("ä"), &fill("漢"), &fill("🦀"), &fill("y")]).await;
}

pub(crate) async fn beyond_the_basic_plane_are_apart(cx: &Context) {
    are_apart(cx, &["🦀", "🦞", "👩\u{200d}🔧", "👩", "\u{fffd}", "?", "\u{10ffff}"]).await;
}

pub(crate) async fn with_wildcards_are_plain_text(cx: &Context) {
    are_apart(cx, &["a%", "ab", "a_", "abc", "%", "_", "a*", "a?", "[ab]", r"a\%", r"a\", "a\\\\"]).await;
}

pub(crate) async fn with_quotes_and_statements_are_plain_text(cx: &Context) {
    are_apart(
        cx,
        &[
            "' OR '1'='1",
            "'; DROP TABLE leases; --",
            "\" OR \"\"=\"",
            "x' UNION SELECT 1 --",
            "`x`",
            "$1",
            "?1",
            ":name",
            "@name",
            "{0}",
            "/* x */",
            "-- x",
            r"\'",
            "'",
            "''",
        ],
    )
    .await;
}
