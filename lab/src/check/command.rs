//! `lab check FOLDER`: a kept history is judged again.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Report, check};
use crate::history::History;

/// Judges a kept history again
#[derive(Debug, Args)]
pub struct Command {
    /// The folder of the history
    folder: PathBuf,
    /// The figures as JSON
    #[arg(long)]
    json: bool,
}

/// So many violations are shown; one defect may have thousands.
const SHOWN: usize = 20;

impl Command {
    /// Prints the verdict and says whether the history is clean.
    ///
    /// # Errors
    ///
    /// The history cannot be read.
    pub fn run(&self) -> io::Result<bool> {
        let report = judge(&self.folder)?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report.summary)?);
        } else {
            println!("{:#?}", report.summary);
        }
        for violation in report.violations.iter().take(SHOWN) {
            println!("{violation}");
        }
        println!("{}: {} violations", self.folder.display(), report.violations.len());
        Ok(report.is_clean())
    }
}

/// Reads and judges a folder.
///
/// # Errors
///
/// The history cannot be read.
pub fn judge(folder: &Path) -> io::Result<Report> {
    Ok(check(&History::read(folder)?))
}
