//! The copy of the library with all faults in it, compiled once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::table::{PLANTED, Planted};

/// The crates that the copy is made of.
const CRATES: [&str; 2] = ["lease-core", "lease-testkit"];

const MANIFEST: &str = "[package]
name = \"cluster\"
version = \"0.0.0\"
edition = \"2024\"
publish = false

[dependencies]
async-trait.workspace = true
futures-util.workspace = true
lease-core.workspace = true
lease-testkit.workspace = true
tokio = { workspace = true, features = [\"macros\", \"sync\", \"time\", \"test-util\"] }
";

/// What the simulation needs of the test kit.
const TESTKIT: &str = "mod fault;
mod memory;
pub use fault::{Call, Fault, FaultStore, Op};
pub use memory::MemoryStore;
";

/// What runs for hours of simulated time is optimised a little; the rest is only compiled.
const PROFILE: &str = "[profile.dev]
opt-level = 1
debug = false
incremental = false

[profile.dev.package.\"*\"]
opt-level = 0

[profile.dev.package.tokio]
opt-level = 1

[profile.dev.package.futures-util]
opt-level = 1
";

/// Which fault is at work: the environment says, once.
const SWITCH: &str = "//! Which planted fault is at work.

pub(crate) fn is(number: usize) -> bool {
    static AT_WORK: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *AT_WORK.get_or_init(|| std::env::var(\"PLANTED\").ok().and_then(|text| text.parse().ok()).unwrap_or(0)) == number
}
";

/// When this is in the environment, the program ends with its standard input.
pub(crate) const DIES: &str = "DIES_WITH_ITS_INPUT";

/// Makes the copy below `target/planted` and answers the program in it.
pub(crate) fn copy(workspace: &Path) -> Result<PathBuf, String> {
    let root = workspace.join("target/planted");
    let cannot = |error| format!("cannot write {}: {error}", root.display());
    fs::create_dir_all(&root).map_err(cannot)?;
    // One at a time, up to the end of the build.
    let lock = fs::File::create(root.join("lock")).map_err(cannot)?;
    lock.lock().map_err(cannot)?;
    write_all(workspace, &root).map_err(cannot)?;
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(root.join("target"))
        // Its random numbers can be told where to begin: simulate/cluster/node.rs.
        .env("CARGO_ENCODED_RUSTFLAGS", "--cfg\u{1f}tokio_unstable")
        .env_remove("CARGO_BUILD_TARGET")
        .output();
    match built {
        Ok(output) if output.status.success() => Ok(root.join("target/debug/cluster")),
        Ok(output) => Err(format!(
            "the copy with the planted faults does not build: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

fn write_all(workspace: &Path, root: &Path) -> io::Result<()> {
    put(&root.join("Cargo.toml"), &manifest(&fs::read_to_string(workspace.join("Cargo.toml"))?))?;
    // Cargo takes out what is not needed.
    fs::copy(workspace.join("Cargo.lock"), root.join("Cargo.lock"))?;
    for name in CRATES {
        let (from, to) = (workspace.join(name), root.join(name));
        put(&to.join("Cargo.toml"), &without_tests(&fs::read_to_string(from.join("Cargo.toml"))?))?;
        put(&to.join("README.md"), "A copy.\n")?;
    }
    copy_sources(&workspace.join("lease-core/src"), &root.join("lease-core/src"), true, Path::new(""))?;
    let (from, to) = (workspace.join("lease-testkit/src"), root.join("lease-testkit/src"));
    put(&to.join("lib.rs"), TESTKIT)?;
    for part in ["fault", "memory"] {
        let file = format!("{part}.rs");
        put(&to.join(&file), &fs::read_to_string(from.join(&file))?)?;
        copy_sources(&from.join(part), &to.join(part), false, Path::new(""))?;
    }
    put(&root.join("lease-core/src/planted.rs"), SWITCH)?;
    let from = workspace.join("lab/src");
    put(&root.join("cluster/Cargo.toml"), MANIFEST)?;
    put(&root.join("cluster/src/main.rs"), &fs::read_to_string(from.join("planted/hunted.rs"))?)?;
    put(&root.join("cluster/src/cluster.rs"), &fs::read_to_string(from.join("simulate/cluster.rs"))?)?;
    copy_sources(&from.join("simulate/cluster"), &root.join("cluster/src/cluster"), false, Path::new(""))
}

/// The workspace's versions and nothing else of it.
fn manifest(original: &str) -> String {
    let from = original.find("[workspace.package]").unwrap_or(0);
    let to = original.find("[workspace.lints.rust]").unwrap_or(original.len());
    let kept = original[from..to].lines().filter(|line| {
        !line.contains("path = ") || CRATES.iter().any(|name| line.starts_with(&format!("{name} ")))
    });
    let kept: Vec<&str> = kept.collect();
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"lease-core\", \"lease-testkit\", \"cluster\"]\n\n{}\n\n{PROFILE}",
        kept.join("\n")
    )
}

fn without_tests(original: &str) -> String {
    let mut kept = String::new();
    let mut keeps = true;
    for line in original.lines() {
        if line.starts_with('[') {
            keeps = line != "[dev-dependencies]" && line != "[lints]";
        }
        if keeps {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

fn copy_sources(from: &Path, to: &Path, plants: bool, below: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let below = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_sources(&entry.path(), &to.join(entry.file_name()), plants, &below)?;
            continue;
        }
        let mut text = fs::read_to_string(entry.path())?;
        if plants {
            for (index, planted) in
                PLANTED.iter().enumerate().filter(|(_, planted)| Path::new(planted.file) == below)
            {
                text = text.replacen(planted.text, &replacement(index + 1, planted), 1);
            }
            if below == Path::new("lib.rs") {
                text = text.replacen("mod attempt;", "mod attempt;\nmod planted;", 1);
            }
        }
        put(&to.join(entry.file_name()), &text)?;
    }
    Ok(())
}

fn replacement(number: usize, planted: &Planted) -> String {
    planted.planted.replace("PLANTED", &format!("crate::planted::is({number})"))
}

/// Writes what is new: what is as it was need not be compiled again.
fn put(file: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(file).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text)
}
