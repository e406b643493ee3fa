#![doc = include_str!("../README.md")]

mod not_done;
mod steps;
pub mod with_diesel;
pub mod with_sea_orm;
pub mod with_sqlx;

pub use not_done::NotDone;
