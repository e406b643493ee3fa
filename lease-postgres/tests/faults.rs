//! What goes wrong around a PostgreSQL server, and what the store makes of it.

#[path = "faults/checks.rs"]
mod checks;
#[path = "faults/clock.rs"]
mod clock;
#[path = "common/mod.rs"]
mod common;
#[path = "faults/connections.rs"]
mod connections;
#[path = "faults/contention.rs"]
mod contention;
#[path = "faults/notices.rs"]
mod notices;
#[path = "faults/outages.rs"]
mod outages;
#[path = "faults/poolers.rs"]
mod poolers;
#[path = "faults/support.rs"]
mod support;
#[path = "faults/tables.rs"]
mod tables;
#[path = "faults/tls.rs"]
mod tls;
#[path = "faults/trips.rs"]
mod trips;
