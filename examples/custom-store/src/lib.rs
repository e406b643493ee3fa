#![doc = include_str!("../README.md")]

mod folder;
mod store;
mod table;

pub use store::FolderStore;
