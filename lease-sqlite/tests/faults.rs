//! What goes wrong around a lease file, and what the store makes of it.

#[path = "faults/bad_paths.rs"]
mod bad_paths;
#[path = "faults/contention.rs"]
mod contention;
#[path = "faults/crashes.rs"]
mod crashes;
#[path = "faults/damage.rs"]
mod damage;
#[path = "faults/drops.rs"]
mod drops;
#[cfg(target_os = "linux")]
#[path = "faults/full_disk.rs"]
mod full_disk;
#[path = "faults/notices.rs"]
mod notices;
#[path = "faults/replaced.rs"]
mod replaced;
#[path = "faults/support.rs"]
mod support;
#[path = "faults/upgrade.rs"]
mod upgrade;
