//! What rustdoc wrote of a library, taken item by item.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The format of rustdoc's JSON that our `public-api` reads, which the Rust of rust-version writes. Others it may well read
/// without an error, and wrongly.
const FORMAT: u64 = 57;

const RUST: &str = env!("CARGO_PKG_RUST_VERSION");

/// The items that the library offers.
pub(crate) fn items(library: &str, path: &Path) -> Result<Vec<String>, String> {
    let json = fs::read_to_string(path)
        .map_err(|error| format!("rustdoc wrote nothing of {library} to {}: {error}", path.display()))?;
    let format = serde_json::from_str::<Value>(&json).ok().and_then(|json| json["format_version"].as_u64());
    if format != Some(FORMAT) {
        let format = format.map_or("an unknown format".to_owned(), |format| format!("format {format}"));
        return Err(format!(
            "rustdoc wrote of {library} in {format}, and we read format {FORMAT}, that of Rust {RUST}: \
             `rustup toolchain install {RUST}`, then `cargo +{RUST} xtask api`. To move to another Rust, change rust-version and \
             public-api in Cargo.toml, and FORMAT in xtask/src/api/json.rs"
        ));
    }
    let api = public_api::Builder::from_rustdoc_json(path)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .map_err(|error| format!("what rustdoc wrote of {library} cannot be read: {error}"))?;
    Ok(api.items().map(ToString::to_string).collect())
}
