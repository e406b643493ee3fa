//! What a lease goes through, as pictures: played by the real library in virtual time, and drawn from what happened.

mod command;
mod page;
pub mod play;
mod scenes;
mod states;
mod timeline;

use std::error::Error;

pub use command::{Choice, run};
pub use page::Page;

/// A picture of the documentation.
#[derive(Debug)]
pub struct Picture {
    /// Its file in `docs/timelines`.
    pub file: &'static str,
    /// What is drawn.
    pub page: Page,
}

/// Plays all scenes, and draws them.
///
/// # Errors
///
/// The library refused something, or what a picture is to show did not happen.
pub fn pictures() -> Result<Vec<Picture>, Box<dyn Error + Send + Sync>> {
    Ok(vec![
        Picture { file: "healthy.svg", page: scenes::healthy(&play::play(&play::HEALTHY)?)? },
        Picture { file: "crash.svg", page: scenes::crash(&play::play(&play::CRASH)?)? },
        Picture { file: "partition.svg", page: scenes::partition(&play::play(&play::PARTITION)?)? },
        Picture { file: "states.svg", page: states::draw() },
    ])
}
