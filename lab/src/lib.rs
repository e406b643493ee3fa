#![doc = include_str!("../README.md")]

pub mod check;
pub mod faults;
pub mod history;
pub mod planted;
pub mod simulate;
pub mod timelines;
