//! What goes wrong around a server, and what the store makes of it, on MySQL and on MariaDB.

#[path = "faults/checks.rs"]
mod checks;
#[path = "faults/clock.rs"]
mod clock;
#[path = "faults/connections.rs"]
mod connections;
#[path = "faults/contention.rs"]
mod contention;
#[path = "faults/outages.rs"]
mod outages;
#[path = "faults/support.rs"]
mod support;
#[path = "faults/tables.rs"]
mod tables;
#[path = "faults/tls.rs"]
mod tls;
#[path = "faults/trips.rs"]
mod trips;
