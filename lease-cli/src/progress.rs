//! A line that shows, on a terminal, that something takes its time.

use std::convert::Infallible;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::table::terminal_width;
use crate::text::{one_line, span};

/// How often the line changes.
const STEP: Duration = Duration::from_secs(1);

/// Waits for a future; on a terminal meanwhile a line on standard error says what is waited for and how long,
/// and is gone when it has come or is given up.
pub(crate) async fn shown<T>(what: &str, at_most: Duration, future: impl Future<Output = T>) -> T {
    if !io::stderr().is_terminal() {
        return future.await;
    }
    let _erased = Erased;
    tokio::select! {
        biased;
        outcome = future => outcome,
        never = show(what, at_most) => match never {},
    }
}

async fn show(what: &str, at_most: Duration) -> Infallible {
    let begun = Instant::now();
    loop {
        sleep(STEP).await;
        let so_far = Duration::from_secs(begun.elapsed().as_secs());
        let line = one_line(&format!("lease: {what}: {} of at most {}", span(so_far), span(at_most)));
        let line = fitting(&line, terminal_width(io::stderr()));
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }
}

/// The line, cut to less than the width of the terminal: what was wrapped could not be erased.
fn fitting(line: &str, width: Option<u16>) -> String {
    let most = width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(1));
    line.chars().take(most).collect()
}

/// Erases the line however the wait ends.
struct Erased;

impl Drop for Erased {
    fn drop(&mut self) {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use super::fitting;

    #[test]
    fn the_line_leaves_the_last_column_of_the_terminal_free() {
        for (width, shown) in [(Some(6), "größe"), (Some(5), "größ"), (Some(0), ""), (None, "größe")] {
            assert_eq!(fitting("größe", width), shown);
        }
    }
}
