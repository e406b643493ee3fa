//! lease-testkit
