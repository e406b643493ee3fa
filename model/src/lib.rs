#![doc = include_str!("../README.md")]

pub mod events;
pub mod guards;
pub mod holes;
pub mod lease;
pub mod machine;
pub mod observer;
pub mod parts;
pub mod planted;
pub mod report;
pub mod run;
pub mod slots;
pub mod units;
