//! Faults on real servers.
