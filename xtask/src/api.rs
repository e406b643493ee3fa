//! `cargo xtask api`: what the published libraries offer, kept in one file, so that no change of it goes unseen.
//!
//! The listing is made from rustdoc's JSON, which rustdoc writes for nobody but those who say that they know it may
//! change: we are asked by cargo as its rustdoc, and say so to the real one. All else is built as for the documentation.

mod listing;
mod reach;

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use listing::Listing;

use crate::step::{Failure, Step, say};

/// Where the listing is kept.
const FILE: &str = "docs/public-api.txt";

/// The published libraries.
const LIBRARIES: [&str; 5] = ["lease-core", "lease-mysql", "lease-postgres", "lease-sqlite", "lease-testkit"];

/// Says to us that cargo wants a rustdoc.
const AS_RUSTDOC: &str = "XTASK_IS_RUSTDOC";

/// With these, rustdoc writes JSON.
const FLAGS: &str = "-Z unstable-options --output-format json --cap-lints allow";

/// Compares the listing with what the code offers; with `write`, writes it anew.
pub(crate) fn run(root: &Path, write: bool) -> Result<(), Failure> {
    let now = offered(root)?;
    let leaks = reach::leaks(&now);
    if !leaks.is_empty() {
        return Err(Failure::new(format!(
            "types of others can be reached from what is published:\n{}\ntake them out of the public functions, or \
             add their crate to the table in xtask/src/api/reach.rs with its reason",
            leaks.join("\n")
        )));
    }
    let path = root.join(FILE);
    if write {
        fs::write(&path, now.text())
            .map_err(|error| Failure::new(format!("cannot write {FILE}: {error}")))?;
        say(&format!("api: {FILE} is written"));
        return Ok(());
    }
    let kept =
        fs::read_to_string(&path).map_err(|error| Failure::new(format!("cannot read {FILE}: {error}")))?;
    let changes = Listing::parse(&kept).changes(&now);
    if changes.is_empty() && kept == now.text() {
        say(&format!("api: {FILE} says what the libraries offer"));
        return Ok(());
    }
    Err(Failure::new(format!(
        "{FILE} does not say what the libraries offer:\n{}\nif that is meant, `cargo xtask api --write` writes it \
         anew; a change that users can notice has its line in the changelog",
        changes.join("\n")
    )))
}

/// What the libraries offer.
fn offered(root: &Path) -> Result<Listing, Failure> {
    let program = env::current_exe()
        .map_err(|error| Failure::new(format!("cannot say where this program is: {error}")))?;
    let rustdoc = [
        ("RUSTDOC", program.display().to_string()),
        (AS_RUSTDOC, "1".to_owned()),
        ("RUSTDOCFLAGS", FLAGS.to_owned()),
    ];
    // All members, with what the documentation is built with, and where that is by default: nothing is built once more for this.
    let json =
        ["doc", "--locked", "--workspace", "--all-features", "--no-deps", "--lib", "--target-dir", "target"];
    Step::new("public API", &json).run(root, Instant::now(), &rustdoc)?;
    let mut listing = Listing::default();
    for library in LIBRARIES {
        let path = root.join("target/doc").join(format!("{}.json", library.replace('-', "_")));
        let api = public_api::Builder::from_rustdoc_json(path)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .build()
            .map_err(|error| {
                Failure::new(format!(
                    "what rustdoc wrote of {library} cannot be read: {error}; it is written so by the Rust that Cargo.toml \
                     names as rust-version: run `rustup toolchain install` with that version, then `cargo +VERSION xtask api`"
                ))
            })?;
        listing.add(library, api.items().map(ToString::to_string));
    }
    Ok(listing)
}

/// If cargo has called us as its rustdoc: what the real one came to.
pub(crate) fn as_rustdoc() -> Option<ExitCode> {
    env::var_os(AS_RUSTDOC)?;
    let status = Command::new("rustdoc").args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    Some(match status {
        Ok(status) => {
            status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => {
            say(&format!("cannot run rustdoc: {error}"));
            ExitCode::FAILURE
        }
    })
}
