//! The command that draws the pictures anew.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::pictures;
use crate::planted;

/// Where the pictures go.
#[derive(Debug, Args)]
pub struct Choice {
    /// The folder that they are written into
    #[arg(long, default_value = "docs/timelines")]
    into: PathBuf,
}

/// Draws them. A folder that is not absolute is one of the workspace's.
///
/// # Errors
///
/// A scene did not go as its picture says, or a file cannot be written.
pub fn run(choice: &Choice) -> Result<(), Box<dyn Error + Send + Sync>> {
    let folder = planted::workspace().join(&choice.into);
    fs::create_dir_all(&folder)?;
    for picture in pictures()? {
        fs::write(folder.join(picture.file), picture.page.svg())?;
    }
    Ok(())
}
