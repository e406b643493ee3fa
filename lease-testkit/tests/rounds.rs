//! The checker of rounds on logs written by hand: what is lawful, and each rule broken.

#[path = "rounds/broken.rs"]
mod broken;
#[path = "rounds/broken_claims.rs"]
mod broken_claims;
#[path = "rounds/broken_words.rs"]
mod broken_words;
#[path = "rounds/lawful.rs"]
mod lawful;
#[path = "rounds/logs.rs"]
mod logs;
#[path = "rounds/parent.rs"]
mod parent;
