//! lease-sqlite
