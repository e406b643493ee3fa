//! What the crates are built of, as `deny.toml` allows it.

use super::{Outcome, Release, answer};

pub(super) fn licences_bans_and_sources(release: &Release<'_>) -> Outcome {
    let checked = release.tool("cargo-deny").and_then(|mut deny| {
        release.run(deny.args([
            "--workspace",
            "check",
            "--hide-inclusion-graph",
            "licenses",
            "bans",
            "sources",
        ]))
    });
    checked.into()
}

/// What is known against the versions in `Cargo.lock`, by the public database.
pub(super) fn advisories(release: &Release<'_>) -> Outcome {
    let fetched = release.tool("cargo-deny").map(|mut deny| answer(deny.args(["fetch", "db"])));
    match fetched {
        Err(failure) => Outcome::Failed(failure),
        Ok(Err(failure)) => {
            let reason = failure.message.lines().last().unwrap_or_default().trim().to_owned();
            Outcome::Unseen(format!("the database of advisories cannot be had: {reason}"))
        }
        Ok(Ok(_)) => {
            let checked = release.tool("cargo-deny").and_then(|mut deny| {
                release.run(deny.args(["--workspace", "check", "--disable-fetch", "advisories"]))
            });
            checked.into()
        }
    }
}
