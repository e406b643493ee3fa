//! Guarded transactions, on MySQL and on MariaDB.

#[path = "guards/begun.rs"]
mod begun;
#[path = "guards/bounds.rs"]
mod bounds;
#[path = "guards/child.rs"]
mod child;
#[path = "guards/committed.rs"]
mod committed;
#[path = "guards/ended.rs"]
mod ended;
#[path = "guards/lost.rs"]
mod lost;
#[path = "guards/pauses.rs"]
mod pauses;
#[path = "guards/sessions.rs"]
mod sessions;
#[path = "guards/strays.rs"]
mod strays;
#[path = "faults/support.rs"]
#[expect(dead_code, reason = "the tests of faults need more")]
mod support;
#[path = "guards/world.rs"]
mod world;
