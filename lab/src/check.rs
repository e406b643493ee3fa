//! Judges histories.
