//! Guarded transactions through sqlx.

pub mod mysql;
pub mod postgres;
pub mod sqlite;
