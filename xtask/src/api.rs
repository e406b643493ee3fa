//! `cargo xtask api`: what the published libraries offer, kept in one file, so that no change of it goes unseen.
//!
//! The listing is made from rustdoc's JSON, which rustdoc writes for nobody but those who say that they know it may
//! change: we are asked by cargo as its rustdoc, and say so to the real one. All else is built as for the documentation.

mod json;
mod listing;
mod reach;

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use listing::Listing;

use crate::step::{Failure, Step, say};

/// Where the listing is kept.
const FILE: &str = "docs/public-api.txt";

/// The published libraries.
const LIBRARIES: [&str; 5] = ["lease-core", "lease-mysql", "lease-postgres", "lease-sqlite", "lease-testkit"];

/// Says to us that cargo wants a rustdoc, and which is the real one.
const AS_RUSTDOC: &str = "XTASK_IS_RUSTDOC";

/// With these, rustdoc writes JSON. As cargo takes them in place of any others: beside a user's it would write HTML, and what an
/// earlier run left be taken for what the code offers.
const FLAGS: &str = "-Z\x1funstable-options\x1f--output-format\x1fjson\x1f--cap-lints\x1fallow";

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
        (AS_RUSTDOC, env::var("RUSTDOC").unwrap_or_else(|_| "rustdoc".to_owned())),
        ("CARGO_ENCODED_RUSTDOCFLAGS", FLAGS.to_owned()),
    ];
    // All members, with what the documentation is built with, and where that is by default: nothing is built once more for this.
    let doc =
        ["doc", "--locked", "--workspace", "--all-features", "--no-deps", "--lib", "--target-dir", "target"];
    let folder = root.join("target").join(env::var_os("CARGO_BUILD_TARGET").unwrap_or_default()).join("doc");
    let path = |library: &str| folder.join(format!("{}.json", library.replace('-', "_")));
    for library in LIBRARIES {
        // Whatever rustdoc comes to, what is read afterwards is of this run.
        match fs::remove_file(path(library)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Failure::new(format!("cannot remove {}: {error}", path(library).display())));
            }
            _ => {}
        }
    }
    Step::new("public API", &doc).run(root, Instant::now(), &rustdoc)?;
    let mut listing = Listing::default();
    for library in LIBRARIES {
        let items = json::items(library, &path(library)).map_err(Failure::new)?;
        listing.add(library, items.into_iter());
    }
    Ok(listing)
}

/// If cargo has called us as its rustdoc: what the real one came to.
pub(crate) fn as_rustdoc() -> Option<ExitCode> {
    let rustdoc = env::var_os(AS_RUSTDOC)?;
    let status = Command::new(rustdoc).args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
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
