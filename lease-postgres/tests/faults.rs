//! What goes wrong around a PostgreSQL server, and what the store makes of it.

#[path = "faults/clock.rs"]
mod clock;
#[path = "common/mod.rs"]
mod common;
#[path = "faults/connections.rs"]
mod connections;
#[path = "faults/contention.rs"]
mod contention;
#[path = "faults/durability.rs"]
mod durability;
#[path = "faults/failover.rs"]
mod failover;
#[path = "faults/obstacles.rs"]
mod obstacles;
#[path = "faults/other_products.rs"]
mod other_products;
#[path = "faults/rights.rs"]
mod rights;
#[path = "faults/session.rs"]
mod session;
#[path = "faults/support.rs"]
mod support;
#[path = "faults/tls.rs"]
mod tls;
#[path = "faults/trips.rs"]
mod trips;
#[path = "faults/upgrade.rs"]
mod upgrade;
